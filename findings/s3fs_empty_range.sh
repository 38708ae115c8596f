#!/usr/bin/env bash
# s3fs 2026.9.0: `cat_file` (and `cat_ranges`) with a start and an end that are the same, as for an empty column or a part that has no
# bytes. A guess: nothing is returned, as by fsspec's local and memory file systems.
#
# Seen: the whole object. s3fs asks for `bytes=3-2`, which HTTP tells servers to pass over (moto 5.2.5 does). At the end of the
# object the same read raises, and `end` alone cannot say 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    boto3==1.43.117 fsspec==2026.9.0 moto[server]==5.2.5 s3fs==2026.9.0
"$folder/venv/bin/python" - <<'PYTHON'
import logging
import boto3
import fsspec
import s3fs
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(port=0, verbose=False)
server.start()
try:
    host, port = server.get_host_and_port()
    endpoint = f"http://127.0.0.1:{port}"
    boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    ).create_bucket(Bucket="bucket")
    memory, store = fsspec.filesystem("memory"), s3fs.S3FileSystem(key="test", secret="test", endpoint_url=endpoint)
    seen = {}
    for name, files, path in (("memory", memory, "/k"), ("s3", store, "bucket/k")):
        files.pipe_file(path, b"0123456789")
        seen[name] = [files.cat_file(path, start=3, end=3), files.cat_file(path, start=0, end=0)]
        seen[name] += files.cat_ranges([path], [3], [3])
    print(s3fs.__version__, seen)
    assert seen == {"memory": [b""] * 3, "s3": [b"0123456789"] * 3}
    assert memory.cat_file("/k", start=10, end=10) == b""
    try:
        store.cat_file("bucket/k", start=10, end=10)
    except OSError as error:
        print(error)
    else:
        raise SystemExit("an empty read at the end is taken now")
finally:
    server.stop()
PYTHON
