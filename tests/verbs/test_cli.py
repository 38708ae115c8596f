"""Every verb: exit status, text pinned by snapshots, documented JSON, and nothing written.

`CEC_SNAPSHOTS=write` writes the snapshots anew; read the difference before keeping it.
"""

import csv
import io
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from cec_store import open_queue
from cec_store.cli import app
from cec_store.format.frame import FRAME_HEADER_BYTES
from cec_store.values import Position
from cec_store.verbs.arguments import moment_of
from support.command_line.snapshots import pinned
from support.paths import DOCS, SNAPSHOT_QUEUE, SNAPSHOTS
from support.places import damaged_queues as made
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint

CLI_PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def json_of(*arguments: object, status: int = 0) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def lines_of(*arguments: object, status: int = 0) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(autouse=True)
def _no_rates_of_this_machine(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden queue: 300 rows in two lives, three segments."""
    return made.copy(SNAPSHOT_QUEUE, tmp_path / "queue")


@pytest.fixture
def damaged(golden: Path) -> Path:
    """With a flipped bit in a body, a lost segment and a torn tail."""
    byte, _ = made.batches(made.segment(golden, 0))[2]
    made.flip(made.segment(golden, 0), byte + FRAME_HEADER_BYTES + 5)
    made.segment(golden, 1).unlink()
    newest = made.segments(golden)[-1]
    newest.write_bytes(newest.read_bytes() + b"CECF and then the power went")
    return golden


def pin(name: str, result: Result, folder: Path) -> None:
    text = f"{result.output.replace(str(folder), 'QUEUE')}exit status {result.exit_code}\n"
    pinned(SNAPSHOTS / f"{name}.txt", text)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("extent", ("extent", "--top", 4, "--counts")),
        ("extent-what-if", ("extent", "--quick", "--what-if", "Q=40", "--what-if", "Q=3x,U=200")),
        ("verify", ("verify", "--records")),
        ("dump", ("dump", "--segment", 0)),
        ("dump-frames", ("dump", "--frames-only")),
        ("dump-checks", ("dump", "--kinds", "check", "--since-offset", 60)),
        ("dump-last", ("dump", "--last", 3)),
        ("state", ("state", "--limit", 6)),
        ("changes", ("changes", "@60", "@100", "--limit", 8)),
        ("diff", ("diff", "--from", "@60", "--top", 4)),
        ("replay", ("replay", "--metadata", "--limit", 12)),
    ],
)
def test_text_is_as_pinned(golden: Path, damaged_or_not: str, request, name, arguments) -> None:
    if damaged_or_not == "damaged":
        request.getfixturevalue("damaged")
        name += "-damaged"
    before = made.hash_of(golden)
    verb, *options = arguments
    result = run(verb, golden, *options)
    assert result.exit_code == (damaged_or_not == "damaged"), result.output
    assert made.hash_of(golden) == before, "reading writes nothing"
    pin(name, result, golden)


def test_a_checkpoints_extents_are_as_pinned(tmp_path: Path) -> None:
    key = pa.struct([("plane", pa.string())])
    query = MadeCheckpoint(tmp_path / "c", key, pa.struct([("flights", pa.int64())]))
    for batch in range(6):
        query.batch({(f"N{batch % 4}",): (batch,)}, {("N7",): None if batch == 3 else (batch,)})
    query.close()
    result = run("extent", query.path, "--top", 3, "--cores", 2, "--what-if", "Q=1")
    pin("extent-checkpoint", result, query.path)


@pytest.fixture(params=["sound", "damaged"])
def damaged_or_not(request) -> str:
    return str(request.param)


def test_golden_queue_is_sound(golden: Path) -> None:
    found = json_of("verify", golden, "--records")
    assert found["sound"]
    assert found["totals"]["segments"] >= 3
    assert found["totals"]["recounted_frames"] > 10


# -- JSON -------------------------------------------------------------------------------------


def keys_of(value: Any) -> set[str]:
    """All names in a document but those of keys, states and rows, which are the user's."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    users = {"key", "data"} | ({"state"} if "offset" in value else set())
    inner = [keys_of(item) for name, item in value.items() if name not in users]
    return set(value).union(*inner)


def test_documents_have_the_documented_keys(golden: Path, damaged: Path) -> None:
    documents = [
        json_of("reindex", SNAPSHOT_QUEUE),
        json_of("consumers", SNAPSHOT_QUEUE),
        json_of("trim", SNAPSHOT_QUEUE),
        *lines_of("dump", damaged, status=1),
    ]
    documented = set(re.findall(r"`([\w.]+)`", CLI_PAGE))
    documented |= {name.rpartition(".")[2] for name in documented}
    for document in documents:
        assert keys_of(document) <= documented


def test_extent_json(golden: Path) -> None:
    document = json_of("extent", golden, "--top", 3)
    assert document["sound"] is True
    (log,) = document["logs"]
    state = log["state"]
    assert len(state["oldest_windows"]) == 3
    oldest = state["oldest_windows"][0]
    assert oldest["records_back"] == state["extent"]["records"]
    assert oldest["replay_rows"] == state["replay_rows"]
    assert set(oldest["key"]) == {"plane"}
    assert log["totals"]["kinds"] is None
    (counted,) = json_of("extent", golden, "--counts")["logs"]
    assert sum(counted["totals"]["kinds"].values()) == document["totals"]["records"]
    assert json_of("extent", golden, "--quick")["oldest_windows"] == []


def test_verify_json(damaged: Path) -> None:
    document = json_of("verify", damaged, status=1)
    assert document["sound"] is False
    kinds = [fault["kind"] for fault in document["faults"]]
    assert kinds == ["body-checksum", "segment-missing"]
    for fault in document["faults"]:
        assert fault["acknowledged"]
        assert fault["advice"]
        assert fault["first_offset"] < fault["end_offset"]
    assert any("torn tail" in note["what"] for note in document["notes"])


def test_dump_json(golden: Path) -> None:
    rows = lines_of("dump", golden)
    records = [row for row in rows if row["row"] == "record"]
    assert [row["offset"] for row in records] == list(range(len(records)))
    assert {row["type"] for row in rows if row["row"] == "frame"} == {"BATCH", "SCHEMA"}
    results = [row for row in records if row["kind"] == "RESULT"]
    assert all(set(row["data"]) == {"plane", "delay", "trips"} for row in results)
    assert all(row["data"] is None for row in records if row["kind"] != "RESULT")
    first, *five, end = lines_of("dump", golden, "--limit", 5)
    assert (first["row"], len(five), end["row"]) == ("log", 5, "end")


# -- replay -----------------------------------------------------------------------------------


def test_formats_agree(golden: Path) -> None:
    options = ("--since", "@40", "--metadata")
    rows = lines_of("replay", golden, *options)
    assert rows
    assert rows == [
        json.loads(line)
        for line in run("replay", golden, *options, "--format", "jsonl").stdout.splitlines()
    ]
    table = list(
        csv.DictReader(io.StringIO(run("replay", golden, *options, "--format", "csv").stdout))
    )
    assert [float(row["delay"]) for row in table] == [row["delay"] for row in rows]
    stream = pa.ipc.open_stream(run("replay", golden, *options, "--format", "arrow").stdout_bytes)
    arrow = stream.read_all()
    assert arrow.column("plane").to_pylist() == [row["plane"] for row in rows]
    assert arrow.schema.names == list(rows[0])
    lines = run("replay", golden, *options).stdout.splitlines()
    assert len(lines) == len(rows) + 1
    assert lines[0].split() == list(rows[0])


def test_since_and_until(golden: Path) -> None:
    rows = lines_of("replay", golden, "--metadata")
    middle = rows[len(rows) // 2]
    moment = middle["_timestamp"]
    after = lines_of("replay", golden, "--metadata", "--since", moment)
    assert after == [row for row in rows if row["_timestamp"] >= moment]
    before = lines_of("replay", golden, "--metadata", "--until", moment)
    assert before == [row for row in rows if row["_timestamp"] < moment]
    offset = f"@{middle['_offset']}"
    assert lines_of("replay", golden, "--metadata", "--since", offset)[0] == middle
    assert lines_of("replay", golden, "--metadata", "--until", offset)[-1] != middle
    assert lines_of("replay", golden, "--limit", 3) == lines_of("replay", golden)[:3]
    footprints = lines_of("replay", golden, "--metadata", "--kinds", "open,check")
    assert {row["_kind"] for row in footprints} == {"OPEN", "CHECK"}


def test_rows_of_a_time_are_found_where_timestamps_go_backward(tmp_path: Path) -> None:
    with open_queue(tmp_path / "q", "x", schema=pa.schema({"n": pa.int64()})) as queue:
        times = [5, 1, 9, 7, 2**63 - 1]
        queue.append(pa.record_batch({"n": pa.array(range(5))}), pa.array(times), sync=True)

    def numbers(verb: str, *options: object) -> list[int]:
        rows = lines_of(verb, tmp_path / "q", *options)
        return [row["n"] for row in rows]

    assert numbers("replay", "--since", 5, "--until", 9) == [0, 3]
    assert numbers("replay", "--from-moment", 9) == [2, 3, 4]
    assert numbers("replay", "--from-moment", 9, "--until", 9) == [3]
    assert numbers("replay", "--since", 9) == [2, 4]
    offsets = [row["offset"] for row in lines_of("dump", tmp_path / "q", "--since", 9)
               if row.get("offset") is not None]  # fmt: skip
    assert offsets == [2, 4]


def test_an_empty_replay_still_has_columns(golden: Path) -> None:
    options = ("--since", "2100-01-01")
    assert run("replay", golden, *options, "--format", "csv").stdout == "plane,delay,trips\n"
    stream = run("replay", golden, *options, "--format", "arrow").stdout_bytes
    assert pa.ipc.open_stream(stream).read_all().num_rows == 0
    assert lines_of("replay", golden, *options) == []


def test_values_that_json_lacks(tmp_path) -> None:
    schema = pa.schema([("x", pa.float64()), ("b", pa.binary()), ("t", pa.timestamp("ns"))])
    columns = [[float("nan"), float("inf")], [b"\xff", None], [1_500, None]]
    batch = pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        queue.append(batch, pa.array([1, 2**63 - 1]))
    first, second = lines_of("replay", tmp_path / "q", "--metadata")
    assert (first["x"], first["b"]) == (None, "ff")
    assert first["t"] == "1970-01-01T00:00:00.000001500Z"
    assert (second["x"], second["_timestamp"]) == ("inf", str(2**63 - 1))
    assert run("dump", tmp_path / "q").exit_code == 0
    assert run("extent", tmp_path / "q").exit_code == 0


def test_a_log_cannot_talk_to_the_terminal(tmp_path) -> None:
    schema = pa.schema([("text", pa.string())])
    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        evil = pa.record_batch([pa.array(["\x1b[31mred\x9b2J\nnext [/bold]"])], schema=schema)
        queue.append(evil, pa.array([0]))
    for verb in ("dump", "replay"):
        text = run(verb, tmp_path / "q").stdout
        assert "red" in text
        assert text.replace("\n", "").isprintable()


def test_follow_sees_what_is_appended(tmp_path) -> None:
    schema = pa.schema([("x", pa.int64())])

    def batch(x: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array([x])], schema=schema)

    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        queue.append(batch(1), sync=True)
        late = threading.Timer(0.3, lambda: queue.append(batch(2), sync=True))
        late.start()
        rows = lines_of("replay", tmp_path / "q", "--follow", "--limit", 2)
        late.join()
    assert rows == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("@17", Position(17)),
        ("1500", 1500),
        ("-1500", -1500),
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        ("1970-01-01 00:00:01.5", 1_500_000),
        ("1767225600s", 1_767_225_600_000_000),
        ("1500ms", 1_500_000),
        ("1500us", 1500),
        ("1500ns", 1),
    ],
)
def test_moments(text: str, moment: object) -> None:
    assert moment_of(text) == moment


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment",
    ["tomorrow", "-1y", "1h", "@", "@-1", "2013-13-01", "9" * 30, "-" + "9" * 18 + "w", ""],
)
def test_bad_moments_are_wrong_use(golden: Path, moment: str) -> None:
    result = run("replay", golden, "--since", moment)
    assert result.exit_code == 2
    assert "no moment" in result.stderr


@pytest.mark.parametrize("verb", ["verify", "dump", "replay", "reindex", "consumers", "trim"])
def test_what_is_no_queue_is_wrong_use(tmp_path, verb: str) -> None:
    (tmp_path / "file").write_text("x")
    for path, said in (
        (tmp_path, "neither a queue, nor a state store, nor a checkpoint of a Spark query"),
        (tmp_path / "missing", "does not exist"),
        (tmp_path / "file", "is a file and no folder"),
    ):
        result = run(verb, path)
        assert result.exit_code == 2
        assert result.stderr == f"cec-store: {path}: {said}\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize(
    "arguments",
    [("replay", "--since", "@99999"), ("dump", "--kinds", "foo"), ("replay", "--limit", "0"),
     ("replay", "--format", "xml"), ("extent", "--top", "-1"), ("frobnicate",)],
)  # fmt: skip
def test_wrong_use(golden: Path, arguments) -> None:
    result = run(arguments[0], golden, *arguments[1:])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_refusal_is_one_line_and_no_usage(golden: Path) -> None:
    result = run("extent", golden, "--version", 3)
    assert result.exit_code == 2
    assert result.stderr == f"cec-store: {golden}: a queue has no versions; give --at\n"
    kept = run("trim", golden, "--keep", "whenever")
    assert "Invalid value for '--keep'" in kept.stderr
    assert "7d" in kept.stderr, "the reason, and not the word alone"
    typed = run("dump", golden, "--kinds", "foo")
    assert "Invalid value for '--kinds'" in typed.stderr, "the parser says which option it was"


def test_places_around_and_inside_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "streams"
    for name in ("b", "a"):
        made.make_operator_queue(folder / name, 30)
    checkpoint = MadeCheckpoint(folder / "c", KEY, VALUE)
    checkpoint.batch({("ann", 1): (1, "")})
    checkpoint.close()
    said = run("verify", folder)
    assert said.exit_code == 2
    assert said.stderr == (
        f"cec-store: {folder}: a folder with places in it: name one of "
        "a (queue), b (queue), c (checkpoint)\n"
    )
    for inside in ("offsets", "commits", "state", "state/0/_metadata"):
        said = run("extent", folder / "c" / inside)
        around = f"cec-store: {folder}/c/{inside}: lies inside the checkpoint {folder}/c"
        assert said.stderr == f"{around}: give that path\n"


def test_damage_ends_a_replay_with_one_line(golden: Path) -> None:
    byte, header = made.batches(made.segment(golden, 1))[2]
    made.flip(made.segment(golden, 1), byte + FRAME_HEADER_BYTES + 5)
    result = run("replay", golden, "--kinds", "open,check,result", "--metadata", "--json")
    assert result.exit_code == 1
    offsets = [json.loads(line)["_offset"] for line in result.stdout.splitlines()]
    assert offsets == list(range(header.first_offset)), "what stands before the damage"
    (line,) = result.stderr.splitlines()
    assert re.match(rf"cec-store: .*1\.seg: damage at byte {byte}: ", line)


# -- reindex ----------------------------------------------------------------------------------


def test_reindex_acts_only_when_told(golden: Path) -> None:
    before = made.hash_of(golden)
    assert json_of("reindex", golden)["done"] is False
    assert made.hash_of(golden) == before
    logs = {path.name: path.read_bytes() for path in made.segments(golden)}
    document = json_of("reindex", golden, "--yes")
    assert document["done"] is True
    frames = document["totals"]["frames"]
    found = json_of("verify", golden)
    assert frames == found["totals"]["frames"] > 0
    assert {path.name: path.read_bytes() for path in made.segments(golden)} == logs
    assert found["logs"][0]["figures"]["index"] == f"covers {frames} of {frames} frames"


def test_reindex_mends_a_damaged_index(golden: Path) -> None:
    json_of("reindex", golden, "--yes")
    (data,) = (golden / "index").glob("*.mdb")
    made.flip(data, 9000)
    assert [f["kind"] for f in json_of("verify", golden, status=1)["faults"]] == ["index"]
    json_of("reindex", golden, "--yes")
    assert json_of("verify", golden)["sound"]


def test_reindex_waits_for_no_writer(golden: Path) -> None:
    with open_queue(golden, "a"):
        result = run("reindex", golden, "--yes")
    assert result.exit_code == 2
    assert "this process has this queue open" in result.stderr


# -- as a program -----------------------------------------------------------------------------


def program(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    code = "from cec_store.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_version_and_help() -> None:
    assert re.fullmatch(r"cec-store \d+\.\d+\.\d+(a\d+)?\n", run("--version").stdout)
    text = run("--help").stdout
    for verb in ("demo", "extent", "verify", "dump", "replay", "report", "reindex"):
        assert f"`cec-store {verb}`" in CLI_PAGE
        assert verb in text


def test_demo_as_a_program_in_a_pipe(tmp_path: Path) -> None:
    mine = tmp_path / "cec-demo-report.html"
    mine.write_text("<!doctype html>mine")
    done = program("demo", "--embedded", "--rows", 20_000, "--seed", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("SIGKILL") == 2
    *_, verdict, last = done.stdout.splitlines()
    assert verdict.endswith("row for row those of the run that was never killed")
    page = tmp_path / "cec-demo-report-2.html"
    assert last == f"the report on the queue aircraft is in {page}: open it in a browser"
    assert "cec-store report</title>" in page.read_text("utf-8")
    assert mine.read_text() == "<!doctype html>mine", "what is not ours stays"
    assert "\x1b" not in done.stdout


def test_demo_keeps_sound_queues(tmp_path) -> None:
    document = json_of(
        "demo", "--embedded", "--rows", 20_000, "--seed", 5, "--keep", tmp_path / "kept"
    )
    assert document["equal"] is True
    assert keys_of(document) <= set(re.findall(r"`([\w.]+)`", CLI_PAGE))
    for operator in ("aircraft", "carriers"):
        found = json_of("verify", tmp_path / "kept" / "killed" / operator, "--records")
        assert found["sound"]
        assert found["totals"]["recounted_frames"] == found["totals"]["frames"]


def test_a_reader_that_has_enough_is_no_accident(golden: Path) -> None:
    command = (
        f"{sys.executable} -c 'from cec_store.cli import main; main()' dump {golden} | head -1"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
