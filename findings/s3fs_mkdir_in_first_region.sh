#!/usr/bin/env bash
# s3fs 2026.9.0 with moto 5.2.5. A guess: `mkdir("bucket")` makes a bucket in whatever region the file system was told, the
# default one too.
#
# Seen: with us-east-1 it sends a LocationConstraint of that name, which S3 documents as invalid (a bucket there is made
# without one), so mkdir fails with OSError 22; with eu-west-1 it works. boto's create_bucket without a constraint works in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "moto[server]==5.2.5" s3fs==2026.9.0
"$folder/venv/bin/python" - <<'PYTHON'
import s3fs
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(port=0, verbose=False)
server.start()
try:
    host, port = server.get_host_and_port()

    def store(region):
        return s3fs.S3FileSystem(
            key="k", secret="s", endpoint_url=f"http://127.0.0.1:{port}",
            client_kwargs={"region_name": region}, skip_instance_cache=True,
        )

    print(s3fs.__version__)
    store("eu-west-1").mkdir("elsewhere")
    try:
        store("us-east-1").mkdir("here")
    except OSError as error:
        print(f"{error!r}")
        assert error.errno == 22 and "location-constraint" in str(error)
    else:
        raise AssertionError("it was made")
    store("us-east-1").call_s3("create_bucket", Bucket="here")
    assert sorted(store("us-east-1").ls("")) == ["elsewhere", "here"]
finally:
    server.stop()
PYTHON
