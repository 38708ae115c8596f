#!/usr/bin/env bash
# persist-queue 1.1.0, queues on SQLite: `UniqueAckQ` takes an item only once, as `UniqueQ` does. A guess: among the items that wait, so
# that what was acknowledged can come again, as in `UniqueQ` once it was taken.
#
# Seen: among all that it ever had. After `ack` an equal item is dropped: `put` returns None, without an error, and the size stays 0;
# after the queue is opened again too. `clear_acked_data()` keeps the latest 1000 by default, so it changes nothing in a small queue. A
# sensor's second "on" or an equal order is lost.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check persist-queue==1.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import persistqueue

plain = persistqueue.UniqueQ("plain")
plain.put("on")
plain.get()
again = plain.put("on")
queue = persistqueue.UniqueAckQ("acked")
queue.put("on")
queue.ack(queue.get())
seen = [(queue.put("on"), queue.size)]
queue.close()
queue = persistqueue.UniqueAckQ("acked")
seen.append((queue.put("on"), queue.size))
queue.clear_acked_data()
seen.append((queue.put("on"), queue.size))
queue.clear_acked_data(keep_latest=0)
cleared = queue.put("on"), queue.size
print(importlib.metadata.version("persist-queue"), again, plain.size, seen, cleared)
assert again is not None and plain.size == 1
assert seen == [(None, 0)] * 3
assert cleared[0] is not None and cleared[1] == 1
PYTHON
