#!/usr/bin/env bash
# quixstreams 3.28.1: state of a stream, which is kept in RocksDB as JSON. A guess: a float comes back as it was, infinity too, with which
# a running minimum begins; what JSON has no number for is refused, as sets and integers beyond 64 bits are.
#
# Seen: infinities and NaN are stored as null without an error. `get(key, default=...)` then returns None and not the default, since the
# key is there, in the transaction that set it too, so the next `min` raises, on every replay of that row. Tuples come back as lists.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check quixstreams==3.28.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import math
from quixstreams.state.exceptions import StateSerializationError
from quixstreams.state.rocksdb import RocksDBStorePartition

partition = RocksDBStorePartition("state")
values = {"infinity": math.inf, "nan": math.nan, "tuple": (1, 2), "float": 0.1 + 0.2, "set": {1}, "large": 2**64}
seen = {}
for name, value in values.items():
    transaction = partition.begin()
    state = transaction.as_state(prefix=b"key")
    try:
        state.set(name, value)
        at_once = state.get(name, default=math.inf)
        transaction.flush()
    except StateSerializationError:
        seen[name] = "refused"
        continue
    later = partition.begin().as_state(prefix=b"key")
    seen[name] = (at_once, later.get(name, default=math.inf), later.exists(name))
partition.close()
print(importlib.metadata.version("quixstreams"), seen)
assert seen["infinity"][1:] == seen["nan"][1:] == (None, True)
assert seen["tuple"][1] == [1, 2] and seen["float"][1] == 0.1 + 0.2
assert seen["set"] == seen["large"] == "refused"
PYTHON
