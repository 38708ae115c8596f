#!/usr/bin/env bash
# diskcache 5.6.3, which keeps Python values in SQLite: a value that is NaN. A guess: it comes back, as infinities do and as NaN in a
# list does.
#
# Seen: it comes back as None, by `Cache`, `Deque` and `Index` alike, without an error: SQLite has no NaN and stores NULL. As a key
# it is None as well, and each time it is stored the cache has a row more, none of which is found again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check diskcache==5.6.3
"$folder/venv/bin/python" - <<'PYTHON'
import math
import tempfile
import diskcache

nan = float("nan")
cache = diskcache.Cache(tempfile.mkdtemp())
cache["nan"], cache["list"], cache["infinity"] = nan, [nan], math.inf
seen = [cache["nan"], cache["list"], cache["infinity"], cache.get("nan", default=-1)]
others = [list(diskcache.Deque([1.5, nan])), diskcache.Index({"c": nan})["c"]]
cache.clear()
cache[nan] = 1
cache[nan] = 2
keys = list(cache)
print(diskcache.__version__, seen, others, keys)
assert seen[0] is None and math.isnan(seen[1][0]) and seen[2:] == [math.inf, None]
assert others == [[1.5, None], None]
assert keys == [None, None] and nan not in cache and None not in cache
PYTHON
