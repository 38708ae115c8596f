#!/usr/bin/env bash
# NATS JetStream (nats-server 2.15.2, nats-py 2.16.0): a message with a `Nats-Msg-Id` is stored once within the duplicate window, two
# minutes by default. A guess: an id is known while its message is in the stream, so what was purged or deleted can be published anew;
# and, as subjects are streams of their own to consumers, the same id may stand in two of them.
#
# Seen: the id outlives the message. After a purge, or the deletion of the one message, the next publish with the id is acknowledged as a
# duplicate, with the number of the message that is gone, and nothing is stored. The id counts for the whole stream, so a message for
# another subject is acknowledged and lost as well. nats-py raises nothing: only `ack.duplicate` tells. A publish that was refused (the
# stream is full) leaves no id.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait; chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check nats-py==2.16.0
GOBIN="$folder/bin" GOMODCACHE="$folder/modules" GOCACHE="$folder/cache" GOFLAGS=-p=2 \
    go install github.com/nats-io/nats-server/v2@v2.15.2
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$folder/bin/nats-server" --jetstream --store_dir "$folder/store" --addr 127.0.0.1 --port "$port" 2> "$folder/log" &
server=$!
PORT=$port "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import importlib.metadata
import os
import nats
from nats.js.api import DiscardPolicy
from nats.js.errors import ServiceUnavailableError


async def main():
    client = await nats.connect(f"nats://127.0.0.1:{os.environ['PORT']}", connect_timeout=1, max_reconnect_attempts=30)
    streams = client.jetstream()

    async def publish(subject, name):
        ack = await streams.publish(subject, b"row", headers={"Nats-Msg-Id": name})
        info = await streams.stream_info(subject.split(".")[0])
        return bool(ack.duplicate), ack.seq, info.state.messages

    await streams.add_stream(name="s", subjects=["s.>"])
    seen = [await publish("s.a", "1")]
    await streams.purge_stream("s")
    seen.append(await publish("s.a", "1"))
    seen.append(await publish("s.a", "2"))
    seen.append(await publish("s.b", "2"))
    await streams.delete_msg("s", 2)
    seen.append(await publish("s.a", "2"))
    await streams.add_stream(name="full", subjects=["full.>"], max_msgs=1, discard=DiscardPolicy.NEW)
    seen.append(await publish("full.a", "1"))
    try:
        await publish("full.a", "2")
        raise AssertionError("a full stream took a message")
    except ServiceUnavailableError:
        await streams.purge_stream("full")
    seen.append(await publish("full.a", "2"))
    version = client.connected_server_version
    await client.close()
    return str(version), seen


version, seen = asyncio.run(main())
print(version, importlib.metadata.version("nats-py"), seen)
assert seen[:2] == [(False, 1, 1), (True, 1, 0)]
assert seen[2:5] == [(False, 2, 1), (True, 2, 1), (True, 2, 0)]
assert seen[5:] == [(False, 1, 1), (False, 2, 1)]
PYTHON
