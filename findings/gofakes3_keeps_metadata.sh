#!/usr/bin/env bash
# gofakes3 1.2.0 (Go), an S3 server for tests: an object that is written over. A guess: it has the metadata of the write that made it and
# no other, as on S3, where an object is replaced as a whole.
#
# Seen: metadata is merged. A name that the new write does not set stays, as does the content type of a put that an upload in parts
# replaces. Of such a put the checksum of the old bytes stays as well, and a client that compares it, as boto3 does by default, cannot
# read the object at all, while the bytes are right. After a delete it is as on S3.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
mkdir "$folder/main"
cd "$folder/main"
export GOMODCACHE="$folder/modules" GOCACHE="$folder/cache" GOFLAGS=-mod=mod
go mod init findings 2> /dev/null
cat > main.go <<'GO'
package main

import (
	"fmt"
	"net"
	"net/http"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	panic(http.Serve(listener, gofakes3.New(s3mem.New()).Server()))
}
GO
go get github.com/johannesboyne/gofakes3/backend/s3mem@v1.2.0 2> log || { cat log; exit 1; }
go build -p 2 -o server .
./server > address 2> log &
server=$!
for _ in $(seq 100); do [ -s address ] || sleep 0.1; done
python3 - "$(cat address)" <<'PYTHON'
import base64
import re
import sys
import urllib.request
import zlib


def call(method, path, body=b"", **headers):
    request = urllib.request.Request(f"{sys.argv[1]}/bucket{path}", body or None, method=method)
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    with urllib.request.urlopen(request) as answer:
        return answer.read(), answer.headers


def checksum(text):
    return base64.b64encode(zlib.crc32(text).to_bytes(4, "big")).decode()


def put(key, text, **headers):
    call("PUT", key, text, Content_Type=f"text/{text.decode()}", x_amz_checksum_crc32=checksum(text), **headers)


def parts(key, text, **headers):
    upload = re.search("<UploadId>(.*)</UploadId>", call("POST", f"{key}?uploads", **headers)[0].decode())[1]
    tag = call("PUT", f"{key}?uploadId={upload}&partNumber=1", text)[1]["ETag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
    call("POST", f"{key}?uploadId={upload}", f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode())


def read(key):
    text, headers = call("GET", key)
    return text, *(headers[f"x-amz-{name}"] for name in ("meta-writer", "meta-draft", "checksum-crc32")), headers["Content-Type"]


call("PUT", "")
seen = {}
for key, write in (("/put", put), ("/parts", parts)):
    put(key, b"old", x_amz_meta_writer="first", x_amz_meta_draft="yes")
    write(key, b"new", x_amz_meta_writer="second")
    seen[key] = read(key)
    call("DELETE", key)
    write(key, b"new", x_amz_meta_writer="third")
    seen[f"{key} after a delete"] = read(key)
print("gofakes3 1.2.0", *seen.items(), sep="\n")
assert seen["/put"] == (b"new", "second", "yes", checksum(b"new"), "text/new")
assert seen["/put after a delete"] == (b"new", "third", None, checksum(b"new"), "text/new")
assert seen["/parts"] == (b"new", "second", "yes", checksum(b"old"), "text/old")
assert seen["/parts after a delete"][:4] == (b"new", "third", None, None)
PYTHON
