"""Rows of `transformWithState` in `dump`, `diff` and `verify --deep`, in both encodings."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastavro")

from cec_store.cli import app
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.places.places import place_at
from cec_store.inspector.showing.differences import require_keys_alone
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import NoteRow
from cec_store.inspector.showing.following import StateFollower
from support.command_line import state as states
from support.command_line import verify
from support.places.made_checkpoints import java_text
from support.places.made_joins import made_join
from support.places.made_variables import CHUNKS, MadeVariables, every_kind
from support.places.state_logs import EMPTY, Key
from support.vectors.variables import FAMILIES, INDEX, NUMBERS

in_both = pytest.mark.parametrize("in_avro", [False, True], ids=["plain", "avro"])
ANN, BOB = {"k": "ann"}, {"k": "bob"}
ONE, TWO = {"since": None, "n": 1}, {"since": 5, "n": 2**40}
SHOWN = [
    ({"variable": "count", "key": ANN}, ONE),
    ({"variable": "items", "key": ANN}, [ONE, TWO]),
    ({"variable": "items", "key": BOB, "chunk": 0}, {"said_bytes": 0, "list_element": [ONE]}),
    ({"variable": "items", "key": BOB, "chunk": 1}, {"said_bytes": 0, "list_element": [TWO, ONE]}),
    ({"variable": "items", "key": BOB}, {"chunks": 2}),
    (
        {"variable": "parts", "key": {"key": ANN, "userKey": {"part": -3}}},
        {"amount": "-1.50", "tags": ["x"]},
    ),
    ({"variable": INDEX, "key": {"expirationMs": -7, "elementKey": BOB}}, {"__empty__": None}),
]


def dumped(path: Path, *options: str) -> tuple[list[tuple[Any, Any]], list[str]]:
    """Keys and states of the records, and what notes say."""
    result = CliRunner().invoke(app, ["dump", str(path), "--json", *options])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    records = [(line["key"], line["state"]) for line in lines if line["row"] == "record"]
    return records, [line["what"] for line in lines if line["row"] == "note"]


def whole(path: Path, *, in_avro: bool) -> Path:
    made = MadeVariables(path, in_avro)
    made.batch(every_kind(made))
    return made.close()


def notes_of(document: Any) -> str:
    return "\n".join(note["what"] for note in document["notes"])


@in_both
def test_dump_shows_each_kind_of_row_by_its_schema(tmp_path: Path, in_avro: bool) -> None:
    path = whole(tmp_path / "c", in_avro=in_avro)
    records, notes = dumped(path)
    names = [({"family": 0, "name": name}, {"number": NUMBERS[name]}) for name in NUMBERS]
    assert (records, notes) == (names + SHOWN, [])
    raw, _ = dumped(path, "--raw")
    assert {key["family"] for key, _ in raw} == {0, *NUMBERS.values()}
    assert verify.document(path, "--deep")["notes"] == []


@in_both
@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("bob", [2, 3, 4, 6]),
        ('{"variable": "items"}', [1, 2, 3, 4]),
        ('{"variable": "items", "chunk": 1}', [3]),
        ('{"key": {"k": "ann"}}', [0, 1]),
        ("items", []),
    ],
)
def test_dump_finds_rows_by_key_and_by_variable(
    tmp_path: Path, in_avro: bool, key: str, rows: list[int]
) -> None:
    path = whole(tmp_path / "c", in_avro=in_avro)
    assert dumped(path, "--key", key) == ([SHOWN[row] for row in rows], [])


def test_dump_shows_values_as_they_were_written(tmp_path: Path) -> None:
    made = MadeVariables(tmp_path / "c", True)
    old = made.value("count", {"n": 1, "gone": "x"}, form=0)
    made.batch({**made.names("count"), made.key("count", ANN): old})
    made.batch({made.key("count", ANN): made.value("count", TWO)})
    records, _ = dumped(made.close(), "--key", "ann")
    assert [state for _, state in records] == [{"n": 1, "gone": "x"}, TWO]
    [row] = states.document("diff", made.path, "--from", 1, "--to", 2)["rows"]
    assert (row["before"], row["after"]) == ({"n": 1, "gone": "x"}, TWO)


@in_both
def test_names_are_found_that_stand_in_older_frames(tmp_path: Path, in_avro: bool) -> None:
    made = MadeVariables(tmp_path / "c", in_avro)
    made.batch(every_kind(made))
    made.batch({made.key("count", BOB): made.value("count", TWO)})
    # A variable and its name go, and all others are written again: only the version before says
    # what number it had.
    rows = {key: row for key, row in every_kind(made).items() if key[1] != b"count"}
    gone = (made.key("count", BOB), made.key("count", ANN))
    made.batch({**rows, (0, b"count"): None, **dict.fromkeys(gone)})
    path = made.close()
    removed = [({"variable": "count", "key": key}, None) for key in (ANN, BOB)]
    assert dumped(path, "--since-version", "3", "--key", '{"variable": "count"}') == (removed, [])
    assert dumped(path, "--last", "1")[0] == removed[1:]
    assert verify.document(path, "--deep")["notes"] == []


@in_both
def test_attempts_may_give_families_other_numbers(tmp_path: Path, in_avro: bool) -> None:
    """Which family is the second is a matter of the order in which rows come."""
    made = MadeVariables(tmp_path / "c", in_avro)
    other = dict(zip(NUMBERS, [*NUMBERS.values()][::-1], strict=True))
    first = made.batch(every_kind(made))
    made.numbers = other
    made.attempt(every_kind(made), EMPTY)
    made.numbers = dict(NUMBERS)
    made.attempt({made.key("count", BOB): made.value("count", TWO)}, first)
    path = made.close()
    records, notes = dumped(path)
    later = ({"variable": "count", "key": BOB}, TWO)
    assert [row for row in records if "variable" in row[0]] == [*SHOWN, *SHOWN, later]
    assert notes == []
    assert "decoded" not in notes_of(verify.document(path, "--deep"))


def spoilt(
    made: MadeVariables, family: str, *, of_key: bool
) -> tuple[int, dict[Key, bytes | None]]:
    """Return the changes of `every_kind` with a row of a family that is none, and its number."""
    rows = [*every_kind(made).items()]
    place = max(at for at, (key, _) in enumerate(rows) if key[0] == made.numbers[family])
    key, value = rows[place]
    assert value is not None
    cut = value[:-1] if len(value) > 3 else b"\1"
    rows[place] = ((key[0], key[1][:2]), value) if of_key else (key, cut)
    return place, dict(rows)


@in_both
@pytest.mark.parametrize("of_key", [True, False], ids=["key", "value"])
@pytest.mark.parametrize("family", [*NUMBERS])
def test_verify_names_the_record_that_is_not_of_its_schema(
    tmp_path: Path, in_avro: bool, family: str, of_key: bool
) -> None:
    made = MadeVariables(tmp_path / "c", in_avro)
    place, changes = spoilt(made, family, of_key=of_key)
    made.batch(changes)
    path = made.close()
    assert verify.document(path)["sound"]
    [fault] = verify.document(path, "--deep", status=1)["faults"]
    [segment] = made.folder.glob("*.seg")
    assert (fault["kind"], fault["path"], fault["byte"]) == ("rows", str(segment), made.last.byte)
    assert f"record {place} of {family.removeprefix(CHUNKS[0])!r}: " in fault["what"]
    assert "these rows are not of the schema in " in fault["what"]
    records, notes = dumped(path)
    assert len(records) == len(changes)
    assert "hex" in notes[0]


def test_without_its_library_avro_is_named_as_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain = (whole(tmp_path / str(at), in_avro=at == 0) for at in (0, 1))
    monkeypatch.setitem(sys.modules, "fastavro", None)
    found = verify.document(path, "--deep")
    assert "rows of variables were not decoded" in notes_of(found)
    assert "pip install 'cec-store[avro]'" in notes_of(found)
    assert notes_of(verify.document(plain, "--deep")) == ""
    records, notes = dumped(path)
    assert [key for key, _ in records if "variable" in key] == []
    assert "pip install 'cec-store[avro]'" in notes[-1]


@in_both
def test_names_are_found_in_segments_that_come_while_it_follows(
    tmp_path: Path, in_avro: bool
) -> None:
    made = MadeVariables(tmp_path / "c", in_avro)
    made.batch(every_kind(made))
    [log] = place_at(made.path).logs
    follower = StateFollower(log.folder, DumpFilter(), log.row_decoder)
    assert [*follower.poll()]
    made.roll()
    made.batch({made.key("count", BOB): made.value("count", TWO)})
    rows = [row for row in follower.poll() if isinstance(row, (RecordRow, NoteRow))]
    made.close()
    [record] = rows
    assert isinstance(record, RecordRow)
    assert (record.key, record.state) == ({"variable": "count", "key": BOB}, TWO)


@in_both
def test_a_store_that_stands_alone_is_named_as_not_decoded(tmp_path: Path, in_avro: bool) -> None:
    path = whole(tmp_path / "c", in_avro=in_avro)
    store = path / "state" / "0" / "0"
    assert verify.document(store, "--deep")["notes"] == []
    assert [row for row in dumped(store)[0] if "variable" in row[0]] == SHOWN
    (path / "offsets").rename(path / "gone")  # these say which encoding it is
    told = "keys and values were not decoded: what Spark notes of them is not here"
    assert notes_of(verify.document(store, "--deep")) == told
    assert {len(key) for key, _ in dumped(store)[0]} == {2}
    assert not any("variable" in key for key, _ in dumped(store)[0])


@in_both
def test_verify_says_which_rows_no_schema_file_is_for(tmp_path: Path, in_avro: bool) -> None:
    """Spark keeps rows of a variable that the last run has not declared."""
    made = MadeVariables(tmp_path / "c", in_avro, families=("items", "parts", INDEX))
    made.batch(every_kind(made))
    path = made.close()
    # Spark's metadata names a variable that its schema file lacks: that is a fault of its own.
    result = verify.run("verify", path, "--json", "--deep")
    found = json.loads(result.stdout)
    assert [fault["kind"] for fault in found["faults"]] == ["spark-schema"]
    assert "no schema file of the query's last run has 'count'" in notes_of(found)
    shown = [row for row in dumped(path)[0] if "variable" in row[0]]
    assert shown == SHOWN[1:]


@in_both
@pytest.mark.parametrize("ordinals", [[2], [-1], [0, 0]], ids=str)
def test_verify_names_a_schema_file_of_fields_that_are_not_there(
    tmp_path: Path, in_avro: bool, ordinals: list[int]
) -> None:
    path = whole(tmp_path / "c", in_avro=in_avro)
    file = path / "state" / "0" / "_stateSchema" / "default" / "1_file"
    old, new = (java_text(json.dumps({"orderingOrdinals": at})) for at in ([0], ordinals))
    assert file.read_bytes().count(old) == 1
    file.write_bytes(file.read_bytes().replace(old, new))
    [fault] = verify.document(path, "--deep", status=1)["faults"]
    assert (fault["kind"], fault["path"]) == ("spark-schema", str(file))
    assert f"the encoder of {INDEX} names fields that its key has not" in fault["what"]


@in_both
def test_verify_names_a_family_without_a_name(tmp_path: Path, in_avro: bool) -> None:
    made = MadeVariables(tmp_path / "c", in_avro)
    changes = every_kind(made)
    made.batch({key: row for key, row in changes.items() if key != (0, b"count")})
    found = verify.document(made.close(), "--deep", status=1)
    assert {fault["kind"] for fault in found["faults"]} == {"rows"}
    assert "no record names family 2, which has rows here" in found["faults"][0]["what"]


@in_both
def test_verify_names_a_list_that_lacks_a_chunk(tmp_path: Path, in_avro: bool) -> None:
    made = MadeVariables(tmp_path / "c", in_avro)
    made.batch(every_kind(made))
    made.batch({made.chunk_key(BOB, 1): None})
    found = verify.document(made.close(), "--deep", status=1)
    [fault] = found["faults"]
    assert (fault["kind"], fault["first_version"], fault["last_version"]) == ("rows", 2, 2)
    assert "version 2: records of a list are not there" in fault["what"]


@in_both
def test_two_places_are_equal_whatever_numbers_and_chunks_they_have(
    tmp_path: Path, in_avro: bool
) -> None:
    one = whole(tmp_path / "one", in_avro=in_avro)
    made = MadeVariables(tmp_path / "two", in_avro)
    made.numbers = {name: 20 - number for name, number in NUMBERS.items()}
    changes = every_kind(made)
    lists = {number for name, number in made.numbers.items() if name in ("items", CHUNKS)}
    changes = {key: row for key, row in changes.items() if key[0] not in lists}
    made.batch(
        {
            **changes,
            **made.chunks(ANN, (ONE,), (TWO,)),
            made.key("items", BOB): made.list_of(ONE, TWO, ONE),
        }
    )
    made.batch({made.key("items", BOB): made.list_of(ONE), made.key("count", ANN): None})
    two = made.close()
    assert states.document("diff", one, two, "--at", 1)["equal"]
    rows = states.document("diff", one, two)["rows"]
    assert [(row["change"], row["key"], row["before"], row["after"]) for row in rows] == [
        ("removed", {"variable": "count", "key": ANN}, ONE, None),
        ("changed", {"variable": "items", "key": BOB}, [ONE, TWO, ONE], [ONE]),
    ]


def test_rows_in_avro_are_not_compared_with_plain_ones(tmp_path: Path) -> None:
    paths = [whole(tmp_path / str(at), in_avro=at == 0) for at in (0, 1)]
    result = states.run("diff", *paths)
    assert result.exit_code == 1
    assert "in Avro" in result.output
    assert "cec-store compare" in result.output


@in_both
def test_extent_and_report_name_variables_and_their_keys(tmp_path: Path, in_avro: bool) -> None:
    path = whole(tmp_path / "c", in_avro=in_avro)
    shown = states.document("extent", path, "--top", 20)["oldest_windows"]
    rows = [(window["key"], window["state"]) for window in shown]
    assert [row for row in rows if "variable" in row[0]] == SHOWN
    assert len(rows) == len(SHOWN) + len(NUMBERS)
    [busiest] = [section["busiest"] for section in windows_of(states.document("report", path))]
    keys = [window["key"] for window in busiest if "variable" in window["key"]]
    assert keys == [key for key, _ in SHOWN][:5]  # behind five names: a report has ten


@in_both
def test_state_shows_variables_by_name_and_lists_whole(tmp_path: Path, in_avro: bool) -> None:
    path = whole(tmp_path / "c", in_avro=in_avro)
    rows = [
        (row["variable"], json.loads(row["key"]), json.loads(row["value"]))
        for row in states.rows_of("state", path)
    ]
    assert rows == [
        (INDEX, {"expirationMs": -7, "elementKey": BOB}, {"__empty__": None}),
        ("count", ANN, ONE),
        ("items", ANN, [ONE, TWO]),
        ("items", BOB, [ONE, TWO, ONE]),
        (
            "parts",
            {"key": ANN, "userKey": {"part": -3}},
            {"amount": "-1.50", "tags": ["x"]},
        ),
    ]
    raw = states.rows_of("state", path, "--raw")
    assert {row["family"] for row in raw} == {0, *NUMBERS.values()}


def test_state_of_a_variable_without_a_schema_says_how_to_see_bytes(tmp_path: Path) -> None:
    families = tuple(name for name in FAMILIES if name != "count")
    made = MadeVariables(tmp_path / "c", in_avro=False, families=families)
    made.batch(every_kind(made))
    result = states.run("state", made.close())
    assert result.exit_code == 1
    assert "'count'; --raw shows bytes" in result.output


def windows_of(report: Any) -> list[Any]:
    """All sections of a report that name windows."""
    if isinstance(report, dict):
        inner = [section for part in report.values() for section in windows_of(part)]
        return [report, *inner] if "busiest" in report else inner
    return [s for part in report for s in windows_of(part)] if isinstance(report, list) else []


def test_join_with_column_families_is_sound_and_shown_by_family(tmp_path: Path) -> None:
    """Spark notes no variables of a join in state format 3 or 4."""
    key, value = {"user": "ann", "page": 0}, {"count": 4, "last": "home"}
    path = made_join(tmp_path, ("left-keyWithIndexToValue", key, value)).path
    assert verify.document(path)["faults"] == []
    records, _ = dumped(path)
    assert ({"variable": "left-keyWithIndexToValue", "key": key}, value) in records
    [row] = states.rows_of("state", path)
    assert row["variable"] == "left-keyWithIndexToValue"
    assert states.run("extent", path).exit_code == 0
    with pytest.raises(ValueError, match="it keeps the rows of a join, where a key may have many"):
        require_keys_alone(place_at(path).logs)
