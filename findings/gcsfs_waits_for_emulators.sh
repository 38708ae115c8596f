#!/usr/bin/env bash
# gcsfs 2026.10.1 with an emulator (gcp-storage-emulator 2026.7.19). A guess: with `endpoint_url` all its calls go to that address and
# are answered as quickly as the emulator answers.
#
# Seen: before a write (and again later, as no answer is not remembered) it asks for the bucket's layout over gRPC and TLS at that
# address, gives up after a minute, and goes on without. With GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT=false, which is read at import
# and not in the documentation of `endpoint_url`, it does not ask.
set -euo pipefail
folder=$(mktemp -d)
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check gcsfs==2026.10.1 gcp-storage-emulator==2026.7.19
"$folder/venv/bin/gcp-storage-emulator" start --host=127.0.0.1 --port=18991 --in-memory > "$folder/log" 2>&1 &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
cat > "$folder/ask.py" <<'PYTHON'
import json
import sys
import time
from urllib.request import Request, urlopen

import gcsfs

address = "http://127.0.0.1:18991"
store = gcsfs.GCSFileSystem(endpoint_url=address, token="anon", project="test")
bucket = sys.argv[1]
for attempt in range(50):
    try:
        body, kind = json.dumps({"name": bucket}).encode(), {"Content-Type": "application/json"}
        urlopen(Request(f"{address}/storage/v1/b?project=test", body, kind, method="POST")).close()
        break
    except OSError:
        time.sleep(0.5)
started = time.monotonic()
store.pipe_file(f"{bucket}/a", b"1")
took_s = time.monotonic() - started
print(gcsfs.__version__, bucket, f"{took_s:.1f} s")
assert (took_s > 50) == (bucket == "asked"), took_s
PYTHON
GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT=false "$folder/venv/bin/python" "$folder/ask.py" unasked
"$folder/venv/bin/python" "$folder/ask.py" asked 2> "$folder/warnings"
