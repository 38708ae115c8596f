#!/usr/bin/env bash
# py-lmdb 3.0.0: a process that has an environment open forks, as multiprocessing does on Linux up to Python 3.13, and
# the child opens the same path for itself, which LMDB's documentation asks for. A guess: that works, as with 1.x.
#
# Seen: the child is refused ("already open in this process"), read-only and without locks too, until it closes
# the environment that it inherited.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check lmdb==3.0.0
"$folder/venv/bin/python" - <<'PYTHON'
import os
import tempfile
import lmdb

path = tempfile.mkdtemp()
inherited = lmdb.open(path)
child = os.fork()
if child == 0:
    refused = 0
    for options in ({}, {"readonly": True, "lock": False}):
        try:
            lmdb.open(path, **options)
        except lmdb.Error as error:
            print(options, error, flush=True)
            refused += 1
    inherited.close()
    lmdb.open(path).close()
    os._exit(0 if refused == 2 else 1)
_, status = os.waitpid(child, 0)
print(lmdb.__version__, "exit status of the child:", os.waitstatus_to_exitcode(status))
assert os.waitstatus_to_exitcode(status) == 0
PYTHON
