"""Queues are read where nothing can be created exclusively: over SFTP, and from a dataset hub.

Run by hand, with an OpenSSH server: `PYTHONPATH=tests .venv/bin/python -m places.reading`. Clients
are installed in a temporary folder. The hub is a double of the real one, which cannot be reached.
Prints a line a place for docs/where.md, and fails where rows are missing or a writer is let in.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from site import addsitedir
from typing import Any

import pyarrow as pa

import cec_store
from cec_store.errors import CecError
from cec_store.log.options import QueueOptions
from support.disks.mount_kinds import Served, ssh_server
from support.stores.hub_double import REPOSITORY, hub

CLIENTS = ("paramiko==5.1.0", "huggingface_hub==2.4.0")
SCHEMA = pa.schema([("n", pa.int64()), ("item", pa.string())])
ROWS, APPENDS = 500, 40
Place = tuple[str, dict[str, Any]]
"""The URL of the folder that holds the queues, and options for it."""


def rows(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    return pa.table([numbers, [f"item {number % 7}" for number in numbers]], schema=SCHEMA)


def append(path: Path, first: int, **layout: Any) -> None:
    """Add rows in segments of a few appends each."""
    options = None if layout else QueueOptions(segment_bytes=40_000)
    with cec_store.open_queue(path, "a", schema=SCHEMA, options=options, **layout) as queue:
        for number in range(APPENDS):
            queue.append(rows(first + number * ROWS))


def check(folder: Path, url: str, options: dict[str, Any], name: str, **layout: Any) -> str:
    """Read what is there, and what comes after; return what a writer is told.

    Raises AssertionError where a row is missing, comes twice, or a writer is let in.
    """
    for half in range(2):
        append(folder / name, half * ROWS * APPENDS, **layout)
        queue = cec_store.read_queue(f"{url}/{name}", storage_options=options)
        numbers = sorted(queue.read_all()["n"].to_pylist())
        assert numbers == list(range((half + 1) * ROWS * APPENDS)), f"{name}: {len(numbers)} rows"
    try:
        with cec_store.open_queue(
            f"{url}/{name}", "a", schema=SCHEMA, storage_options=options, **layout
        ) as queue:
            queue.append(rows(0))
    except (CecError, ValueError) as error:
        return type(error).__name__
    raise AssertionError(f"{url}/{name}: a writer is let in")


@contextmanager
def sftp(folder: Path) -> Iterator[Place]:
    with ExitStack() as servers, tempfile.TemporaryDirectory() as keys:
        served = Served(Path(keys) / "low", Path(keys), servers)
        port = ssh_server(Path(keys), served.start)
        key = {"key_filename": f"{keys}/user", "look_for_keys": False, "allow_agent": False}
        yield f"sftp://127.0.0.1{folder}", {"port": port, "username": getpass.getuser(), **key}


@contextmanager
def hugging_face(folder: Path) -> Iterator[Place]:
    with hub(folder) as address:
        yield f"hf://datasets/{REPOSITORY}", {"endpoint": address, "token": False}


PLACES = {"sftp": sftp, "hf": hugging_face}


def main(names: list[str]) -> int:
    with tempfile.TemporaryDirectory() as clients:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", clients, *CLIENTS]
        subprocess.run(pip, check=True)
        addsitedir(clients)
        for name in names or PLACES:
            with tempfile.TemporaryDirectory() as folder, PLACES[name](Path(folder)) as place:
                for kind, layout in (("plain", {}), ("partitions", {"partitions": 2})):
                    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
                    told = check(Path(folder), *place, kind, **layout)
                    print(f"{name}, {kind}, {date.today()}: {2 * ROWS * APPENDS} rows read, "
                          f"writers are refused ({told})", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
