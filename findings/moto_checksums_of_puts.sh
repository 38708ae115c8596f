#!/usr/bin/env bash
# moto 5.2.5 as an S3 server for tests. A guess: a put whose `ChecksumCRC32C` is not that of the body is refused
# (BadDigest), as S3 documents, so that a test of a damaged upload can fail.
#
# Seen: it answers 200 and keeps the object.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "moto[server]==5.2.5" boto3==1.43.0
"$folder/venv/bin/python" - <<'PYTHON'
import boto3
import moto
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(port=0, verbose=False)
server.start()
try:
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )
    client.create_bucket(Bucket="bucket")
    wrong = "AAAAAA=="  # of no byte
    answer = client.put_object(Bucket="bucket", Key="k", Body=b"1", ChecksumCRC32C=wrong)
    head = client.head_object(Bucket="bucket", Key="k")
    print(moto.__version__, answer["ResponseMetadata"]["HTTPStatusCode"])
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert head["ContentLength"] == 1
finally:
    server.stop()
PYTHON
