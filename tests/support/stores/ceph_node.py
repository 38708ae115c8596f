"""A Ceph object gateway on one node, with its objects in memory: `ceph_node FOLDER PORT`.

Runs a monitor, an OSD and a gateway of the installed packages until it is terminated, and ends all
three. The gateway knows one user, whose key and secret are `KEY`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

KEY = "S3RVER"
PACKAGES = ("ceph-mon", "ceph-osd", "radosgw")
_WAIT_S = "480"
_SETTINGS = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{monitor}
public addr = 127.0.0.1
public network = 127.0.0.0/8
ms bind msgr1 = false
keyring = {folder}/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
pid file = {folder}/$name.pid
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/rgw
"""


def run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def write_keys(keyring: Path) -> None:
    """Keys for the three, in one file, as they are all of one machine."""
    run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon",
        "allow *")  # fmt: skip
    for name in ("client.admin", "osd.0"):
        caps = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
        run("ceph-authtool", keyring, "--gen-key", "-n", name, *caps)


def start(folder: Path, port: int) -> list[subprocess.Popen[bytes]]:
    """Begin the gateway at this port, and what it needs; returns the processes, the gateway last.

    Raises CalledProcessError where one of their tools fails.
    """
    fsid, monitor = str(uuid.uuid4()), free_port()
    config, monmap = folder / "ceph.conf", folder / "monmap"
    config.write_text(_SETTINGS.format(fsid=fsid, monitor=monitor, folder=folder))
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir()
    write_keys(folder / "keyring")
    run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{monitor}]",
        monmap)  # fmt: skip
    run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", folder / "keyring", "-c",
        config)  # fmt: skip
    processes = [subprocess.Popen(["ceph-mon", "-i", "a", "-c", config, "-f"])]
    try:
        osd = str(uuid.uuid4())
        run("timeout", _WAIT_S, "ceph", "-c", config, "osd", "new", osd, "0")
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd, "-c", config)
        processes.append(subprocess.Popen(["ceph-osd", "-i", "0", "-c", config, "-f"]))
        run("timeout", _WAIT_S, "radosgw-admin", "-c", config, "user", "create", "--uid=test",
            "--display-name=test", f"--access-key={KEY}", f"--secret-key={KEY}")  # fmt: skip
        gateway = ["radosgw", "-n", "client.admin", "-c", str(config), "-f"]
        gateway += ["--rgw-frontends", f"beast endpoint=127.0.0.1:{port}"]
        processes.append(subprocess.Popen(gateway))
    except BaseException:
        end(processes)
        raise
    return processes


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(folder: str, port: str) -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    os.umask(0o077)
    processes = start(Path(folder), int(port))
    try:
        return processes[-1].wait()
    finally:
        end(processes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
