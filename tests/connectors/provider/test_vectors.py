"""Scala and Python read each other's logs alike: golden ones, random ones, and damaged ones."""

import json
import re
import struct
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cec_store import CorruptLog, NotAQueue, UnsupportedVersion, open_queue
from cec_store.format.checksum import with_crc
from cec_store.format.ends import judge
from cec_store.format.frame import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, decode_frame_header
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder
from support.disks.memory_folder import MemoryFolder
from support.places.state_folders import STATE_CASES, At, expected, log_in, put, put_case
from support.places.state_logs import EMPTY, Grown, Writer, grow
from support.vectors import directories, lists, variables
from support.vectors.ends import CASES
from support.vectors.make import FOLDER, STATE_LOG_SCALA

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm

FIGURES = ("state", "open_windows", "extent_records")
Wanted = list[tuple[At, dict[str, Any]]]


def found_by_scala(folder: Path, logs: dict[str, Wanted]) -> dict[str, Wanted]:
    said = run_jvm("read", logs=folder, timeout_s=500)
    assert said == {"logs": len(logs), "versions": sum(map(len, logs.values()))}
    found = {}
    for name, wanted in logs.items():
        read = json.loads((folder / name / "found.json").read_text("utf-8"))
        found[name] = [(at, each) for (at, _), each in zip(wanted, read, strict=True)]
    return found


def figures(wanted: Wanted) -> Wanted:
    return [(at, {name: each[name] for name in FIGURES}) for at, each in wanted]


@pytest.mark.quick
def test_scala_reads_the_golden_logs_as_python_does(tmp_path: Path) -> None:
    logs = {case["name"]: put_case(tmp_path / case["name"], case) for case in STATE_CASES}
    assert len(logs) == 6
    found = found_by_scala(tmp_path, logs)
    for name, wanted in logs.items():
        assert found[name] == figures(wanted), name


def test_scala_still_writes_the_golden_log(tmp_path: Path) -> None:
    (case,) = [case for case in STATE_CASES if case["name"] == STATE_LOG_SCALA]
    said = run_jvm("golden", into=tmp_path)
    assert said["unique_ids"] == [each["unique_id"] for each in case["expect"]["versions"]]
    golden = {path.name: path.read_bytes() for path in (FOLDER / STATE_LOG_SCALA).iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.seg")} == golden


def test_scala_reads_the_golden_key_directories_and_makes_the_same(tmp_path: Path) -> None:
    """Of each version by its number, and of those that have one the directory."""
    golden = {path.name: path.read_bytes() for path in (FOLDER / directories.NAME).iterdir()}
    for folder, endings in (("read", ("seg", "keys", "live")), ("made", ("seg",))):
        (tmp_path / folder).mkdir()
        for name, data in golden.items():
            if name.endswith(endings):
                (tmp_path / folder / name).write_bytes(data)
    (case,) = [case for case in STATE_CASES if case["name"] == directories.NAME]
    wanted, described = case["expect"]["versions"], case["expect"]["directories"]
    said = run_jvm(
        "directories", root=tmp_path / "read", into=tmp_path / "made", last=len(wanted),
        described=",".join(map(str, described)),
    )  # fmt: skip
    assert said["versions"] == [{name: each[name] for name in FIGURES} for each in wanted]
    assert said["byDirectory"] == len([n for n in range(1, 7) if n >= min(described)])
    made = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    assert {name: data for name, data in made.items() if not name.startswith(".")} == golden


def test_scala_reads_the_golden_lists_and_appends_to_each(tmp_path: Path) -> None:
    """Lists in one record among them: version 1 has these."""
    put(tmp_path / "0" / "0", log_in(FOLDER / lists.NAME), [])
    found = run_jvm("lists", root=tmp_path, last=len(lists.LISTS))
    assert len(lists.LISTS) == found["appended"] == 5
    for number, said in enumerate(found["versions"], 1):
        wanted = {k: [[n, lists.text_of(n)] for n in ns] for k, ns in lists.LISTS[number].items()}
        assert said["lists"] == wanted, number
        assert [tuple(each) for each in said["told"]] == [
            (how, key, None if n is None else [n, lists.text_of(n)])
            for how, key, n in lists.TOLD[number]
        ], number


def test_scala_reads_the_golden_variables_in_avro(tmp_path: Path) -> None:
    """Rows of an older form come in the newest one."""
    put(tmp_path / "0" / "0", log_in(FOLDER / variables.NAME), [])
    found = run_jvm("variables", root=tmp_path, last=len(variables.ROWS))
    assert len(variables.ROWS) == 3
    for number, said in enumerate(found["versions"], 1):
        assert {name: sorted(rows, key=repr) for name, rows in said.items()} == {
            name: sorted(rows, key=repr) for name, rows in variables.ROWS[number].items()
        }, number


@pytest.mark.parametrize("kept", [(0,), (1,), ()], ids=["no last", "no first", "none"])
def test_scala_refuses_a_list_that_lacks_a_chunk(tmp_path: Path, kept: tuple[int, ...]) -> None:
    folder = MemoryFolder({})
    chunks = {lists.chunk_key("a", n): lists.chunk(0, n) for n in kept}
    changes = {**lists.names(chunks=True), lists.list_key("a"): lists.head(2), **chunks}
    Writer(folder, Random(1)).commit(EMPTY, changes)
    put(tmp_path / "0" / "0", folder, [])
    said = run_jvm("refusedLists", root=tmp_path)["said"]
    assert re.search(r"CecLogException: .*operator 0, partition 0.* lacks .*verify", said), said


def wanted_of(grown: Grown) -> Wanted:
    by_number: Wanted = [(number, expected(each)) for number, each in grown.versions().items()]
    return by_number + [(each.unique_id, expected(each)) for each in grown.attempts]


@pytest.mark.quick
def test_scala_reads_what_python_writes(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Trees with retries, twins, rolls, commits in several frames, and merged segments."""
    logs: dict[str, Wanted] = {}
    merged = twins = 0
    for seed in range(crash_count(30, 1500)):
        folder = MemoryFolder({})
        grown = grow(folder, Random(seed), 14)
        logs[f"{seed}"] = wanted_of(grown)
        put(tmp_path / f"{seed}", folder, logs[f"{seed}"])
        merged += bool(grown.merged)
        twins += len(grown.versions()) < len(grown.attempts)
    assert merged > 5
    assert twins > 5
    found = found_by_scala(tmp_path, logs)
    for name, wanted in logs.items():
        assert found[name] == figures(wanted), f"seed {name}"


def by_family(log: StateLog, at: At) -> tuple[dict[str, dict[str, str]], int]:
    """Keys and values by the name of their column family, and how many names are in the log."""
    found = log.rebuild(at=at)
    rows = list(zip(found.keys.to_pylist(), found.states.to_pylist(), strict=True))
    names = {1: "default"}
    for key, state in rows:
        if key["family"] == 0 and key["key"]:  # the empty name: the highest number given up
            names[int.from_bytes(state["value"], "little")] = key["key"].decode()
    content: dict[str, dict[str, str]] = {name: {} for name in names.values()}
    for key, state in rows:
        if key["family"]:
            content[names[key["family"]]][key["key"].hex()] = state["value"].hex()
    assert found.open_windows == len(rows)
    return content, sum(key["family"] == 0 for key, _ in rows)


@pytest.mark.parametrize("v2", [False, True], ids=["V1", "V2"])
def test_python_reads_what_scala_writes(
    tmp_path: Path, crash_count: Callable[[int, int], int], v2: bool
) -> None:
    seeds = crash_count(2, 200)
    run_jvm(
        "model", root=tmp_path, families=True, v2=v2, maintenance=True, until=seeds, dump=True,
        timeout_s=60 + 5 * seeds,
    )  # fmt: skip
    versions = families = 0
    for seed in range(seeds):
        folder = tmp_path / f"seed-{seed}"
        log = open_queue(folder / "0" / "0")
        assert isinstance(log, StateLog)
        for each in json.loads((folder / "expected.json").read_text("utf-8")):
            at = each["id"] or each["version"]
            content, named = by_family(log, at)
            assert content == each["families"], (seed, at)
            assert each["id"] in (None, log.unique_id(at))
            extent = log.extent(at)
            assert (extent.open_windows, extent.records) == (each["open_windows"], each["extent"])
            assert each["open_windows"] == named + sum(map(len, content.values()))
            versions += 1
            families += named
        assert verify(LocalFolder(folder / "0" / "0")).is_sound, seed
    assert versions > 8 * seeds
    assert families > versions


@pytest.mark.quick
def test_scala_judges_the_end_of_a_segment_as_python_does(tmp_path: Path) -> None:
    """Each case of the table of docs/format.md, which tests/format/test_ends.py holds to it."""
    lines = []
    for kind, _, facts in CASES:
        words = ["-" if value is None else str(value).lower() for value in facts]
        lines.append(" ".join((kind.value.title(), *words)))
    (tmp_path / "cases").write_text("\n".join(lines), encoding="utf-8")
    found = run_jvm("ends", cases=tmp_path / "cases")["verdicts"]
    for (kind, _, facts), said in zip(CASES, found, strict=True):
        verdict, byte = judge(kind, facts)
        assert said == f"{verdict.name.title().replace('_', '')} {byte}", (kind, facts)


QUEUES = ("queue", "queue-steps")


def files_of(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (FOLDER / name).iterdir()}


def put_files(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def wounds_of(files: dict[str, bytes], every: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Each file lost, longer, with a frame of another number, and hurt at each such byte."""
    for name, data in files.items():
        yield f"lost {name}", {other: files[other] for other in files if other != name}
        yield f"longer {name}", {**files, name: data + b"CECF" + bytes(50)}
        for match in re.finditer(b"CECF", data):
            at = match.start()
            if at > SEGMENT_HEADER_BYTES:
                head = bytearray(data[at : at + FRAME_HEADER_BYTES])
                head[16] += 1
                renumbered = data[:at] + with_crc(bytes(head)) + data[at + FRAME_HEADER_BYTES :]
                yield f"number {name} {at}", {**files, name: renumbered}
        schema = decode_frame_header(data, SEGMENT_HEADER_BYTES) if name.endswith("seg") else None
        for at in range(0, len(data), every):
            # A segment's SCHEMA is what Python decodes its rows by; Scala has that of the newest.
            inside = 0 if schema is None else at - SEGMENT_HEADER_BYTES - FRAME_HEADER_BYTES
            if schema is None or not -64 < inside < schema.body_bytes:
                flipped = bytes([data[at] ^ 1 << at % 8])
                yield f"flip {name} {at}", {**files, name: data[:at] + flipped + data[at + 1 :]}
                zeros = bytes(min(64, len(data) - at))
                yield f"zero {name} {at}", {**files, name: data[:at] + zeros + data[at + 64 :]}
            yield f"cut {name} {at}", {**files, name: data[:at]}
            yield f"fill {name} {at}", {**files, name: data[:at] + bytes(len(data) - at)}


def shown_by_python(folder: Path) -> dict[str, Any] | None:
    """Return what a queue shows with all bodies proven, and None where it is refused."""
    try:
        chain = Chain(LocalFolder(folder))
        frames = list(chain.frames())
        for frame in frames:
            chain.records(frame)
    except (CorruptLog, UnsupportedVersion, NotAQueue):
        return None
    offsets = [frame.header.first_offset for frame in frames]
    return {
        "offsets": offsets, "first": chain.first_offset(), "end": chain.end.offset,
        "written": chain.written_offset,
    }  # fmt: skip


@pytest.mark.quick
def test_scala_shows_of_a_damaged_queue_what_python_shows(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    every = crash_count(61, 3)
    for queue in QUEUES:
        put_files(tmp_path / f"{queue} whole", files_of(queue))
        for words, files in wounds_of(files_of(queue), every):
            put_files(tmp_path / f"{queue} {words}", files)
    found = run_jvm("plainLogs", logs=tmp_path, timeout_s=900)
    refused = 0
    for words, shown in found.items():
        by_scala = {name: shown.get(name) for name in ("offsets", "first", "end", "written")}
        by_python = shown_by_python(tmp_path / words)
        assert by_python == (None if "refused" in shown else by_scala), (words, shown)
        refused += by_python is None
    assert len(found) > refused > len(found) // 10


LATER = {
    "version": (0, 8, "<H", 2),
    "segment flags": (0, 84, "<I", 2),
    "type": (-1, 4, "<B", 9),
    "codec": (-1, 5, "<B", 9),
    "flags": (-1, 6, "<H", 8),
}
"""Header (0 the segment's, -1 the last frame's), place and form of a number, and a later value."""


def of_a_later_format(data: bytes, change: str) -> bytes:
    header, place, form, value = LATER[change]
    at = data.rindex(b"CECF") if header else 0
    head = bytearray(data[at : at + FRAME_HEADER_BYTES])
    struct.pack_into(form, head, place, value)
    return data[:at] + with_crc(bytes(head)) + data[at + FRAME_HEADER_BYTES :]


@pytest.mark.quick
def test_scala_refuses_by_name_what_a_later_format_has_written(tmp_path: Path) -> None:
    """A sound header with a flag, type, codec or version that is unknown is no damage."""
    changed = {}
    commit = (FOLDER / "commit-append.bin").read_bytes()
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for number, change in enumerate(LATER):
        head = commit[:32] + number.to_bytes(8, "little") + commit[40:SEGMENT_HEADER_BYTES]
        whole = of_a_later_format(with_crc(head) + commit[SEGMENT_HEADER_BYTES:], change)
        (tmp_path / "in" / f"{number}.commit").write_bytes(whole)
    said = run_jvm("logObjects", **{"in": tmp_path / "in", "out": tmp_path / "out"})
    for number, change in enumerate(LATER):
        check_refusal(said[f"{number}.commit"]["refused"], f"{number}.commit", change)
    for case, change in product((*QUEUES, "state-python"), LATER):
        files = files_of(case)
        file = max(name for name in files if name.endswith(".seg"))
        put_files(
            tmp_path / "logs" / f"{case} {change}",
            {**files, file: of_a_later_format(files[file], change)},
        )
        changed[f"{case} {change}"] = (file, change)
        if case == "state-python":
            (state,) = [each for each in STATE_CASES if each["name"] == case]
            newest = state["expect"]["versions"][-1]["version"]
            (tmp_path / "logs" / f"{case} {change}" / "wanted").write_text(f"{newest}\n")
    found = run_jvm("plainLogs", logs=tmp_path / "logs")
    assert found.keys() == changed.keys()
    for name, (file, change) in changed.items():
        assert found[name].get("condition") == "CEC_LOG", (name, found[name])
        check_refusal(found[name]["refused"], file, change)


def check_refusal(text: str, file: str, change: str) -> None:
    assert file in text
    assert change in text
    assert "upgrade cec-store" in text
    assert re.search(r"damage|Restore this", text) is None, text


@pytest.mark.parametrize(
    ("last", "condition"), [(b"", "CEC_VERSION_MISSING"), (b"x", "CEC_DAMAGED")]
)
def test_scala_takes_nothing_but_zeros_for_an_unfinished_write(
    tmp_path: Path, last: bytes, condition: str
) -> None:
    """However many there are."""
    (state,) = [case for case in STATE_CASES if case["name"] == "state-python"]
    files = files_of(state["name"])
    name = max(files)
    folder = tmp_path / "logs" / "state"
    put_files(folder, {**files, name: files[name] + bytes((1 << 20) + 500) + last})
    wanted = state["expect"]["versions"][-1]["version"] + 1
    (folder / "wanted").write_text(f"{wanted}\n")
    found = run_jvm("plainLogs", logs=folder.parent)["state"]
    assert found["condition"] == condition, found
