#!/usr/bin/env bash
# queuelib 1.10.0, Scrapy's queues on disk: `FifoDiskQueue`, and a process that is killed (SIGKILL, no loss of power). A guess: what was
# pushed long before, and so is in the files of the queue, is there when the queue is opened again, and what was popped is given once more
# at worst.
#
# Seen: how many items there are, and where the next one is, is written by `close` only. Of 250,000 items pushed none is there, and for
# the next one pushed the queue gives the oldest of them. If the queue was closed once, and then a process that had popped 150,000 items
# was killed, it cannot be opened at all (FileNotFoundError), though 100,000 items were never taken: files that were read are deleted.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check queuelib==1.10.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import os
import signal
import subprocess
import sys
import queuelib

WORK = """
import os, signal, sys, queuelib
name, action = sys.argv[1:]
queue = queuelib.FifoDiskQueue(name)
for number in range(250_000 if action == "push" else 0):
    queue.push(b"%06d" % number)
for number in range(150_000 if action == "pop" else 0):
    assert queue.pop() == b"%06d" % number
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(name, action):
    assert subprocess.run([sys.executable, "-c", WORK, name, action]).returncode == -signal.SIGKILL


killed("pushed", "push")
size = sum(os.path.getsize(f"pushed/{name}") for name in os.listdir("pushed"))
pushed = queuelib.FifoDiskQueue("pushed")
left = len(pushed), pushed.pop()
pushed.push(b"later")
left += (pushed.pop(), pushed.pop())
pushed.close()

popped = queuelib.FifoDiskQueue("popped")
for number in range(250_000):
    popped.push(b"%06d" % number)
popped.close()
killed("popped", "pop")
try:
    queuelib.FifoDiskQueue("popped")
    opened = "opened"
except FileNotFoundError as error:
    opened = f"not opened: {error}"
print(importlib.metadata.version("queuelib"), f"{size} bytes in the files", left, opened, sorted(os.listdir("popped")), sep="\n")
assert size > 2_000_000 and left == (0, None, b"000000", None)
assert opened.startswith("not opened") and {"q00001", "q00002"} <= set(os.listdir("popped"))
PYTHON
