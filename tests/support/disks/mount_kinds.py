"""Mounts of many kinds, each made in a temporary folder by the command that its users give."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

IMAGE_BYTES = 512 << 20


@dataclass
class Served:
    """Where a mount is to be: files below ``low`` hold what is at ``point``."""

    low: Path
    point: Path
    servers: ExitStack
    """Takes down what serves the mount, after it was unmounted."""
    stays: bool = False
    """True where the command that mounts runs until it is ended."""

    def image(self, *make: str) -> str:
        """Return the path of an image on which this command has made a file system."""
        path = self.low / "image"
        with open(path, "wb") as file:
            file.truncate(IMAGE_BYTES)
        run(*make, str(path))
        return str(path)

    def device(self, *make: str) -> str:
        """Return a loop device on such an image."""
        device = run("losetup", "--find", "--show", self.image(*make)).strip()
        self.servers.callback(run, "losetup", "--detach", device)
        return device

    def start(self, *command: str) -> None:
        """Run a server until the mount is gone."""
        with open(self.low.parent / "server.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)

        def end() -> None:
            process.terminate()
            process.wait(timeout=30)

        self.servers.callback(end)

    def folder(self, name: str) -> Path:
        path = self.low / name
        path.mkdir()
        return path


Made = Callable[[Served], list[str]]
"""Returns the command that mounts."""


def run(*command: str, given: str | None = None) -> str:
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, input=given, text=True, timeout=120
    )
    return done.stdout


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nothing listens at port {port}")


def tmpfs(served: Served) -> list[str]:
    return ["mount", "-t", "tmpfs", "none", str(served.point)]


def loop(kind: str, *make: str) -> Made:
    """A file system of the kernel on an image."""

    def made(served: Served) -> list[str]:
        image = served.image(*make)
        return ["mount", "-t", kind, "-o", "loop", image, str(served.point)]

    return made


def image_in_user_space(make: list[str], *command: str) -> Made:
    """A file system on an image that a program serves."""

    def made(served: Served) -> list[str]:
        image = served.image(*make)
        return [word.format(image=image, point=served.point) for word in command]

    return made


def exfat(served: Served) -> list[str]:
    return ["mount.exfat-fuse", served.device("mkfs.exfat"), str(served.point)]


def over_folder(*command: str, stays: bool = False) -> Made:
    """A program that shows a folder, or two, in another way."""

    def made(served: Served) -> list[str]:
        served.stays = stays
        one, two = served.folder("one"), served.folder("two")
        return [word.format(one=one, two=two, point=served.point) for word in command]

    return made


def overlay(*options: str) -> Made:
    def made(served: Served) -> list[str]:
        lower, upper, work = (served.folder(name) for name in ("lower", "upper", "work"))
        given = ",".join((f"lowerdir={lower},upperdir={upper},workdir={work}", *options))
        return ["mount", "-t", "overlay", "overlay", "-o", given, str(served.point)]

    return made


def rclone(mode: str) -> Made:
    def made(served: Served) -> list[str]:
        served.stays = True
        cache = f"--cache-dir={served.point.parent}/cache"
        words = ["rclone", "mount", "--config", "/dev/null", "--vfs-cache-mode", mode, cache]
        return [*words, f":local:{served.low}", str(served.point)]

    return made


def gocryptfs(served: Served) -> list[str]:
    password = served.low / "password"
    password.write_text("of this test\n")
    sealed = served.folder("sealed")
    words = ["gocryptfs", "-q", "-passfile", str(password)]
    run(*words, "-init", "-scryptn", "10", str(sealed))
    return [*words, str(sealed), str(served.point)]


def encfs(served: Served) -> list[str]:
    sealed = served.folder("sealed")
    run("encfs", "--standard", "--extpass=echo of-this-test", str(sealed), str(served.point))
    return ["true"]


def cryfs(served: Served) -> list[str]:
    sealed = served.folder("sealed")
    os.environ.update(CRYFS_FRONTEND="noninteractive", CRYFS_NO_UPDATE_CHECK="true")
    os.environ["CRYFS_LOCAL_STATE_DIR"] = str(served.folder("state"))
    run("cryfs", str(sealed), str(served.point), given="of-this-test\n")
    return ["true"]


def ssh_server(keys: Path, start: Callable[..., None]) -> int:
    """Begin an SSH server of this machine, for this user and the key `user` that it makes there.

    Returns its port. ``start`` runs a command until it is not needed any more.
    """
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name))
    shutil.copy(keys / "user.pub", keys / "authorized")
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    settings = [
        f"HostKey={keys}/host", f"Port={port}", "ListenAddress=127.0.0.1", "StrictModes=no",
        f"AuthorizedKeysFile={keys}/authorized", "UsePAM=no", f"PidFile={keys}/pid",
        "PermitRootLogin=yes", "Subsystem=sftp internal-sftp",
    ]  # fmt: skip
    words = [word for setting in settings for word in ("-o", setting)]
    start("/usr/sbin/sshd", "-D", "-f", "/dev/null", *words)
    wait_for_port(port)
    return port


def sshfs(*options: str) -> Made:
    """An SSH server of this machine, for this user's key alone."""

    def made(served: Served) -> list[str]:
        keys, remote = served.folder("keys"), served.folder("remote")
        port = ssh_server(keys, served.start)
        user = pwd.getpwuid(os.getuid()).pw_name
        given = [f"IdentityFile={keys}/user", "StrictHostKeyChecking=no",
                 "UserKnownHostsFile=/dev/null", *options]  # fmt: skip
        words = [word for option in given for word in ("-o", option)]
        return ["sshfs", "-p", str(port), *words, f"{user}@127.0.0.1:{remote}", str(served.point)]

    return made


def s3fs(served: Served) -> list[str]:
    """An S3 server of the tests' own package, and a bucket in it."""
    port = free_port()
    served.start(f"{Path(sys.executable).parent}/moto_server", "-H", "127.0.0.1", "-p", str(port))
    wait_for_port(port)
    address = f"http://127.0.0.1:{port}"
    urlopen(Request(f"{address}/bucket", method="PUT"), timeout=30).close()
    password = served.low / "password"
    password.write_text("key:secret\n")
    password.chmod(0o600)
    given = f"passwd_file={password},url={address},use_path_request_style"
    return ["s3fs", "bucket", str(served.point), "-o", given]


def glusterfs(served: Served) -> list[str]:
    """A volume of one brick on this machine."""
    brick, state = served.folder("brick"), served.folder("state")
    settings = served.low / "glusterd.vol"
    settings.write_text(
        "volume management\n    type mgmt/glusterd\n"
        f"    option working-directory {state}\n    option transport-type socket\n"
        "    option run-directory /run/gluster\nend-volume\n"
    )
    Path("/run/gluster").mkdir(exist_ok=True)
    served.start("glusterd", "-N", "-f", str(settings), "-l", str(served.low / "glusterd.log"))
    wait_for_port(24_007)
    volume = f"cec-{os.getpid()}"
    for words in (
        ["create", volume, f"{socket.gethostname()}:{brick}", "force"],
        ["start", volume],
    ):
        run("gluster", "--mode=script", "volume", *words)
    served.servers.callback(run, "gluster", "--mode=script", "volume", "stop", volume, "force")
    return ["mount", "-t", "glusterfs", f"localhost:/{volume}", str(served.point)]


MOUNTS: dict[str, Made] = {
    "tmpfs": tmpfs,
    "overlay": overlay(),
    "overlay, volatile": overlay("volatile"),
    "xfs": loop("xfs", "mkfs.xfs", "-q"),
    "btrfs": loop("btrfs", "mkfs.btrfs", "-q"),
    "bindfs": over_folder("bindfs", "{one}", "{point}"),
    "mergerfs": over_folder("mergerfs", "-o", "minfreespace=1M", "{one}:{two}", "{point}"),
    "unionfs": over_folder("unionfs-fuse", "-o", "cow", "{one}=RW:{two}=RO", "{point}"),
    "posixovl": over_folder("mount.posixovl", "-S", "{one}", "{point}"),
    "gocryptfs": gocryptfs,
    "encfs": encfs,
    "cryfs": cryfs,
    "fuse2fs": image_in_user_space(["mkfs.ext4", "-q"], "fuse2fs", "{image}", "{point}"),
    "ntfs-3g": image_in_user_space(["mkntfs", "-F", "-Q", "-q"], "ntfs-3g", "{image}", "{point}"),
    "exfat-fuse": exfat,
    "fusefat": image_in_user_space(["mkfs.vfat"], "fusefat", "-o", "rw+", "{image}", "{point}"),
    "sshfs": sshfs(),
    "s3fs": s3fs,
    "glusterfs": glusterfs,
    **{f"rclone, {mode}": rclone(mode) for mode in ("off", "minimal", "writes", "full")},
}
