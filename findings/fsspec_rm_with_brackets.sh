#!/usr/bin/env bash
# fsspec and s3fs 2026.9.0: `rm` of a name with brackets, such as `part[1].bin`, of which a file is there. A guess: a name of a file
# that exists is that file, as for `rm` of the local file system and for `rm_file`.
#
# Seen: in memory and on S3 the name is a pattern, so `part1.bin` is deleted and `part[1].bin` stays, and `cat` reads the other file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    boto3==1.43.117 fsspec==2026.9.0 moto[server]==5.2.5 s3fs==2026.9.0
"$folder/venv/bin/python" - <<'PYTHON'
import logging
import os
import tempfile
import boto3
import fsspec
import s3fs
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(port=0, verbose=False)
server.start()
try:
    host, port = server.get_host_and_port()
    keys = {"key": "test", "secret": "test", "endpoint_url": f"http://127.0.0.1:{port}"}
    client = boto3.client(
        "s3", endpoint_url=keys["endpoint_url"], region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )
    client.create_bucket(Bucket="bucket")
    places = {
        "local": (fsspec.filesystem("file"), tempfile.mkdtemp()),
        "memory": (fsspec.filesystem("memory"), "/folder"),
        "s3": (s3fs.S3FileSystem(**keys), "bucket"),
    }
    left, read = {}, {}
    for name, (files, folder) in places.items():
        for file in ("part[1].bin", "part1.bin"):
            files.pipe_file(f"{folder}/{file}", file.encode())
        read[name] = list(files.cat(f"{folder}/part[1].bin").values())
        files.rm(f"{folder}/part[1].bin")
        files.invalidate_cache()
        left[name] = [os.path.basename(path) for path in files.ls(folder, detail=False)]
    print(fsspec.__version__, s3fs.__version__, left, read)
    assert left == {"local": ["part1.bin"], "memory": ["part[1].bin"], "s3": ["part[1].bin"]}
    assert all(contents == [b"part1.bin"] for contents in read.values())
finally:
    server.stop()
PYTHON
