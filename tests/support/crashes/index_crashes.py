"""An index of one moment beside a log of another, after a crash, and damaged besides."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb

from cec_store.errors import CecError
from cec_store.format.checksum import crc32c
from cec_store.indexes.files import Stamp
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.epochs import newest_epoch
from cec_store.log.reopening import reopen
from cec_store.storage.local import LocalFolder
from support.crashes.crash_states import WORKLOADS, Log, clock_and_entropy, schema, snapshots_of
from support.disks.simulated_folder import Image, SimulatedFolder
from support.models.index_oracle import assert_equals_scan, build, chain_of, published_file, rows_of

PAGE = 4096


def write_image(image: Image, path: Path) -> Path:
    path.mkdir(mode=0o700)
    for name, data in image:
        (path / name).write_bytes(data)
    return path


class Indexes:
    """Of a workload: as it is at the end, as it was in the middle, and that of another log."""

    def __init__(self, workload: str, folder: Path) -> None:
        self.newest = self._built(workload, workload, 1.0, folder / "newest")
        self.older = self._built(workload, workload, 0.5, folder / "older")
        self.foreign = self._built(workload, "another seed", 1.0, folder / "foreign")

    def _built(self, workload: str, seed: str, share: float, path: Path) -> Path:
        if seed == workload:
            snapshots = snapshots_of(workload)
        else:
            other = SimulatedFolder(record=True)
            WORKLOADS[workload](Log(other, seed))
            snapshots = other.snapshots
        last = len(snapshots) - 1
        for snapshot in snapshots[int(last * share) :]:
            seen = SimulatedFolder.after_kill(snapshot).image()
            shutil.rmtree(path, ignore_errors=True)
            write_image(seen, path)
            if newest_epoch(LocalFolder(path)) is not None and chain_of(path).end.seq:
                build(path).close()
                return path
        raise AssertionError(f"{workload} writes nothing")


# -- kinds of damage -------------------------------------------------------------------------------

Damage = Callable[[Path, Indexes, random.Random], None]
DAMAGES: dict[str, Damage] = {}
"""Done to a folder that has the index of the workload's end: ahead of most crash states."""


def damage(function: Damage) -> Damage:
    DAMAGES[function.__name__] = function
    return function


def edit(path: Path, change: Callable[[bytearray], object], stamped: bool) -> None:
    file = published_file(path)
    data = bytearray(file.read_bytes())
    change(data)
    file.write_bytes(data)
    if stamped:  # the stamp vouches for it, as if the file had been written so
        stamp = path / "index" / "stamp"
        old = Stamp.decode(stamp.read_bytes())
        stamp.write_bytes(old._replace(size=len(data), crc=crc32c(bytes(data))).encode())


@damage
def none_at_all(path: Path, indexes: Indexes, generator: random.Random) -> None:
    """It is as it was at the end of the workload."""


@damage
def of_an_earlier_moment(path: Path, indexes: Indexes, generator: random.Random) -> None:
    shutil.rmtree(path / "index")
    shutil.copytree(indexes.older / "index", path / "index")


@damage
def of_another_log(path: Path, indexes: Indexes, generator: random.Random) -> None:
    shutil.rmtree(path / "index")
    shutil.copytree(indexes.foreign / "index", path / "index")


@damage
def missing(path: Path, indexes: Indexes, generator: random.Random) -> None:
    shutil.rmtree(path / "index")


@damage
def without_its_data(path: Path, indexes: Indexes, generator: random.Random) -> None:
    published_file(path).unlink()


@damage
def without_its_stamp(path: Path, indexes: Indexes, generator: random.Random) -> None:
    (path / "index" / "stamp").unlink()


@damage
def cut(path: Path, indexes: Indexes, generator: random.Random) -> None:
    edit(path, lambda data: data.__delitem__(slice(generator.randrange(len(data)), None)), False)


@damage
def grown(path: Path, indexes: Indexes, generator: random.Random) -> None:
    edit(path, lambda data: data.extend(bytes(generator.choice([1, PAGE]))), False)


@damage
def flipped(path: Path, indexes: Indexes, generator: random.Random) -> None:
    def flip(data: bytearray) -> None:
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)

    edit(path, flip, False)


@damage
def with_a_page_of_zeros(path: Path, indexes: Indexes, generator: random.Random) -> None:
    def zero(data: bytearray) -> None:
        at = generator.randrange(len(data) // PAGE) * PAGE
        data[at : at + PAGE] = bytes(PAGE)

    edit(path, zero, False)


@damage
def with_a_flipped_stamp(path: Path, indexes: Indexes, generator: random.Random) -> None:
    stamp = path / "index" / "stamp"
    data = bytearray(stamp.read_bytes())
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    stamp.write_bytes(data)


@damage
def with_an_earlier_stamp(path: Path, indexes: Indexes, generator: random.Random) -> None:
    shutil.copy(indexes.older / "index" / "stamp", path / "index" / "stamp")


@damage
def cut_and_stamped(path: Path, indexes: Indexes, generator: random.Random) -> None:
    def shorten(data: bytearray) -> None:
        del data[generator.randrange(2, len(data) // PAGE) * PAGE :]

    edit(path, shorten, True)


@damage
def with_rows_that_lie_and_stamped(path: Path, indexes: Indexes, generator: random.Random) -> None:
    file = str(published_file(path))
    with lmdb.open(file, subdir=False, lock=False, max_dbs=2) as environment:
        for name in ("frames", "timestamps"):
            database = environment.open_db(name.encode())
            with environment.begin(database, write=True) as rows:
                for key, value in list(rows.cursor()):
                    if generator.random() < 0.5:
                        changed = bytearray(value)
                        changed[generator.randrange(len(changed))] ^= 1 << generator.randrange(8)
                        rows.put(bytes(key), bytes(changed))
    edit(path, lambda data: None, True)


# -- what must hold --------------------------------------------------------------------------------


def check(path: Path) -> None:
    """A reader's lookups equal a scan; so do a writer's; what is left is what a rebuild makes."""
    chain = chain_of(path)
    index = TimestampIndex(chain)
    assert_equals_scan(index, chain)
    index.close()
    writer, _ = reopen(LocalFolder(path), schema(), clock_and_entropy("index"))
    writer.close()
    chain = chain_of(path)
    index = TimestampIndex(chain, writable=True)
    index.follow(chain)
    assert_equals_scan(index, chain)
    index.close()
    if next(iter(chain.frames()), None) is None:
        return  # where there is nothing to index none is made
    kept = rows_of(path)
    shutil.rmtree(path / "index")
    build(path).close()
    assert kept == rows_of(path), "not what a rebuild makes of this log"


def check_each(cases: list[tuple[int, Image, str]], indexes: Indexes, folder: Path) -> None:
    """Runs in a child, since LMDB answers some damage with a signal. Says where it is."""
    for number, image, kind in cases:
        path = folder / "case"
        shutil.rmtree(path, ignore_errors=True)
        write_image(image, path)
        shutil.copytree(indexes.newest / "index", path / "index")
        DAMAGES[kind](path, indexes, random.Random(f"{kind} {number}"))
        (folder / "at").write_text(f"{number} {kind}")
        try:
            check(path)
        except (AssertionError, CecError) as error:
            (folder / "why").write_text(f"{type(error).__name__}: {error}")
            raise
