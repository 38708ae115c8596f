#!/usr/bin/env bash
# moto 5.2.5 in place of S3 in tests: requests that must fail since the object is not what the caller read. A guess: `If-Match` of a stale
# ETag is checked by all requests that take it, as moto does it for puts, deletes and reads, and as it checks `If-None-Match` when an
# upload in parts ends.
#
# Seen: an upload in parts that ends with a stale `If-Match` replaces the object, a copy whose `x-amz-copy-source-if-match` is stale
# copies what is there now, and a copy with `If-None-Match: *` replaces its target. Each answers 200 where S3 says 412. So a store whose
# commits are small in tests and in parts in production is tested for one of the two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "moto[s3]==5.2.5" boto3==1.43.117
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import boto3
from botocore.exceptions import ClientError
from moto import mock_aws

mock = mock_aws()
mock.start()
s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
s3.create_bucket(Bucket="bucket")
stale = '"' + "0" * 32 + '"'


def parts(key, **conditions):
    upload = s3.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]
    tag = s3.upload_part(Bucket="bucket", Key=key, UploadId=upload, PartNumber=1, Body=b"parts")["ETag"]
    done = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    s3.complete_multipart_upload(Bucket="bucket", Key=key, UploadId=upload, MultipartUpload=done, **conditions)


def copy(key, **conditions):
    s3.copy_object(Bucket="bucket", Key=key, CopySource="bucket/source", **conditions)


requests = {
    "put If-Match": lambda key: s3.put_object(Bucket="bucket", Key=key, Body=b"put", IfMatch=stale),
    "put If-None-Match": lambda key: s3.put_object(Bucket="bucket", Key=key, Body=b"put", IfNoneMatch="*"),
    "delete If-Match": lambda key: s3.delete_object(Bucket="bucket", Key=key, IfMatch=stale),
    "parts If-None-Match": lambda key: parts(key, IfNoneMatch="*"),
    "parts If-Match": lambda key: parts(key, IfMatch=stale),
    "copy If-Match of the source": lambda key: copy(key, CopySourceIfMatch=stale),
    "copy If-None-Match": lambda key: copy(key, IfNoneMatch="*"),
}
s3.put_object(Bucket="bucket", Key="source", Body=b"copy")
seen = {}
for name, request in requests.items():
    key = name.replace(" ", "-")
    s3.put_object(Bucket="bucket", Key=key, Body=b"old")
    try:
        request(key)
        status = 200
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    seen[name] = status, s3.get_object(Bucket="bucket", Key=key)["Body"].read()
mock.stop()
print(importlib.metadata.version("moto"), importlib.metadata.version("boto3"), *seen.items(), sep="\n")
assert seen.pop("parts If-Match") == (200, b"parts")
assert seen.pop("copy If-Match of the source") == seen.pop("copy If-None-Match") == (200, b"copy")
assert set(seen.values()) == {(412, b"old")} and len(seen) == 4
PYTHON
