#!/usr/bin/env bash
# fsspec 2026.9.0: a transaction of local files, which keeps what is written until the block ends. A guess: a file opened with `ab` is
# kept as well, or refused.
#
# Seen: the append is done at once and stays if the block raises; the end of the block fails (AttributeError) even without an
# error in it, and files that were written after the append never appear, while those before it do.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check fsspec==2026.9.0
"$folder/venv/bin/python" - <<'PYTHON'
import os
import tempfile
import fsspec

folder = tempfile.mkdtemp()
files = fsspec.filesystem("file")
with open(f"{folder}/log", "wb") as file:
    file.write(b"old")
try:
    with files.transaction:
        for name, mode in (("before", "wb"), ("log", "ab"), ("after", "wb")):
            with files.open(f"{folder}/{name}", mode) as file:
                file.write(b"new")
        assert not files.exists(f"{folder}/before")
except AttributeError as error:
    print(fsspec.__version__, error)
else:
    raise SystemExit("a transaction takes appends now")
assert sorted(os.listdir(folder)) == ["before", "log"]
assert files.cat_file(f"{folder}/log") == b"oldnew"
try:
    with files.transaction:
        with files.open(f"{folder}/log", "ab") as file:
            file.write(b"new")
        raise KeyError("given up")
except (AttributeError, KeyError) as error:
    print(type(error).__name__)
assert files.cat_file(f"{folder}/log") == b"oldnewnew"
PYTHON
