#!/usr/bin/env bash
# gcp-storage-emulator 2026.7.19 with Google's own client (google-cloud-storage 3.17.1): a write with `if_generation_match=0`, which is to
# create an object and fail where there is one. A guess: the second such write fails (412), or a condition that the emulator does not know
# is refused, as S3's ones are by servers that lack them (501).
#
# Seen: all succeed: creating twice, writing, deleting and reading with an old generation, a copy onto what exists, a compose. The last
# one wins, so a test of a lock or of a commit by generation passes whatever the code does, and one with two writers loses rows. Listings
# take no notice of `start_offset` and `max_results` either. An old generation, asked for by its number, gives the newest bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check gcp-storage-emulator==2026.7.19 google-cloud-storage==3.17.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import os
import socket
from gcp_storage_emulator.server import create_server
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = create_server("127.0.0.1", port, in_memory=True)
server.start()
os.environ["STORAGE_EMULATOR_HOST"] = f"http://127.0.0.1:{port}"
client = storage.Client(project="findings", credentials=AnonymousCredentials())
bucket = client.create_bucket("bucket")


def put(name, text, generation):
    blob = bucket.blob(name)
    blob.upload_from_string(text, if_generation_match=generation)
    return blob.generation


first = put("lock", "first", 0)
put("lock", "second", 0)
seen = {"after two creations": bucket.blob("lock").download_as_bytes()}
put("lock", "third", first)
seen["after a stale write"] = bucket.blob("lock").download_as_bytes()
seen["read of the first generation"] = bucket.blob("lock", generation=first).download_as_bytes()
seen["read if still the first"] = bucket.blob("lock").download_as_bytes(if_generation_match=first)
put("other", "other", 0)
bucket.copy_blob(bucket.blob("other"), bucket, "lock", if_generation_match=0)
seen["after a copy that creates"] = bucket.blob("lock").download_as_bytes()
bucket.blob("lock").compose([bucket.blob("other"), bucket.blob("other")], if_generation_match=0)
seen["after a compose that creates"] = bucket.blob("lock").download_as_bytes()
bucket.blob("lock").delete(if_generation_match=first)
seen["exists after a stale delete"] = bucket.blob("lock").exists()
for name in "abc":
    put(name, "", 0)
seen["listed from b on, one"] = [blob.name for blob in client.list_blobs("bucket", start_offset="b", end_offset="c")]
server.stop()
print(importlib.metadata.version("gcp-storage-emulator"), importlib.metadata.version("google-cloud-storage"), *seen.items(), sep="\n")
expected = [b"second", b"third", b"third", b"third", b"other", b"otherother", False, ["a", "b", "c", "other"]]
assert list(seen.values()) == expected
PYTHON
