#!/usr/bin/env bash
# fsspec 2026.9.0 over HTTP, and a server that does not know ranges (Python's own `http.server`), which answers 200 and everything,
# as HTTP allows. A guess: `cat_file(start, end)` cuts the part out, or raises.
#
# Seen: `cat_file` and `cat_ranges` return the whole file as if it were the part, with any start and end.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check aiohttp==3.14.5 fsspec==2026.9.0
"$folder/venv/bin/python" - <<'PYTHON'
import functools
import http.server
import os
import tempfile
import threading
import fsspec


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


folder = tempfile.mkdtemp()
with open(os.path.join(folder, "k"), "wb") as file:
    file.write(b"0123456789")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/k"
files = fsspec.filesystem("http")
seen = [files.cat_file(address, start=2, end=4), files.cat_file(address, start=-1), *files.cat_ranges([address], [2], [4])]
local = fsspec.filesystem("file").cat_file(os.path.join(folder, "k"), start=2, end=4)
print(fsspec.__version__, seen, local)
assert local == b"23"
assert seen == [b"0123456789"] * 3
server.shutdown()
PYTHON
