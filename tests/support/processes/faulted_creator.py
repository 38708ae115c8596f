"""Makes objects of a local store while system calls fail; run with `faultshim.c` loaded into it.

Each line asks for a run: `path`, where to `report`, and the shim's settings in `faults`.
"""

import ctypes
import json
import os

from cec_store.errors import CecError
from cec_store.storage.stores.local_store import LocalStore
from support.disks.open_files import open_below
from support.processes.killed_writer import serve

OBJECTS = {"a/b/one": b"1" * 5000, "a/b/two": b"2" * 70_000, "three": b""}
BEATEN = b"another's"


def outcome_of(store: LocalStore, name: str, data: bytes) -> str:
    try:
        store.create(name, [data[:1000], data[1000:]])
    except FileExistsError:
        return "taken"
    except CecError as error:
        return type(error).__name__
    return "made"


def faulted_run(order: dict) -> int:  # type: ignore[type-arg]
    shim = ctypes.CDLL(None)
    os.environ.update(order["faults"])
    before = open_below(order["path"])
    store = LocalStore(order["path"])
    shim.faultshim_begin()
    try:
        outcomes = [(name, outcome_of(store, name, data)) for name, data in OBJECTS.items()]
        beaten = [(name, outcome_of(store, name, BEATEN)) for name in OBJECTS]
    finally:
        shim.faultshim_end()
    left = [path for path in open_below(order["path"]) if path not in before]
    facts = {"outcomes": outcomes, "beaten": beaten, "left_open": left}
    with open(order["report"], "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return 0


if __name__ == "__main__":
    serve(faulted_run)
