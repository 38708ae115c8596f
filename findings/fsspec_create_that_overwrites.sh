#!/usr/bin/env bash
# fsspec 2026.9.0 with sshfs 2026.8.0 (SFTP), and fsspec's own `simplecache`: `pipe_file(path, data, mode="create")`, which is to fail
# where there is a file, as it does on local files, in memory and on S3. A guess: a file system that cannot do it says so.
#
# Seen: both take the mode and replace the file without an error, so of two processes that race for a name each has "created" it.
# sshfs refuses `open(path, "xb")` as it should.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check asyncssh==2.24.1 fsspec==2026.9.0 sshfs==2026.8.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import os
import threading
import asyncssh
import fsspec


class Anyone(asyncssh.SSHServer):
    def begin_auth(self, username):
        return False


async def serve():
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(Anyone, "127.0.0.1", 0, server_host_keys=[key], sftp_factory=True)
    return server.sockets[0].getsockname()[1]


loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
port = asyncio.run_coroutine_threadsafe(serve(), loop).result(30)
sftp = fsspec.filesystem("sftp", host="127.0.0.1", port=port, username="u", password="p", known_hosts=None)
places = {
    "local": (fsspec.filesystem("file"), os.path.abspath("local")),
    "memory": (fsspec.filesystem("memory"), "/one"),
    "sshfs": (sftp, os.path.abspath("remote")),
    "simplecache": (fsspec.filesystem("simplecache", target_protocol="memory"), "/two"),
}
seen = {}
for name, (files, path) in places.items():
    files.pipe_file(path, b"first")
    try:
        files.pipe_file(path, b"second", mode="create")
    except FileExistsError:
        pass
    seen[name] = files.cat_file(path)
try:
    sftp.open(places["sshfs"][1], "xb").close()
except Exception as error:
    seen["xb"] = type(error).__name__
print(type(sftp), seen)
assert seen.pop("xb") == "SFTPFailure"
assert seen == {"local": b"first", "memory": b"first", "sshfs": b"second", "simplecache": b"second"}
assert fsspec.filesystem("memory").cat_file("/two") == b"second"
os._exit(0)
PYTHON
