"""Rows that a join waits with as tables, without Spark: what is left out, and what is refused."""

import json
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import read_state
from support.command_line.state import run
from support.places.checkpoints import JOIN
from support.places.made_checkpoints import JOIN_FORMAT, MadeCheckpoint
from support.places.made_joins import made_join


def test_sides_of_a_join_come_without_what_the_join_notes_for_itself(tmp_path: Path) -> None:
    key = pa.struct([("field0", pa.string()), ("index", pa.int64())])
    value = pa.struct([("user", pa.string()), ("n", pa.int64()), ("matched", pa.bool_())])
    made = MadeCheckpoint(tmp_path, key, value, JOIN, partitions=1, format=2)
    made.batch({("ann", 0): ("ann", 4, True), ("ann", 1): ("ann", 5, False)})
    made.close()
    for side in ("left", "right"):
        rows = read_state(made.path, store=side).to_pylist()
        assert [row["key"] for row in rows] == [{"field0": "ann"}] * 2
        assert [row["value"] for row in rows] == [{"user": "ann", "n": n} for n in (4, 5)]
        store = read_state(made.path, store=f"{side}-keyWithIndexToValue")
        assert store["value"].to_pylist()[0] == {"user": "ann", "n": 4, "matched": True}
    with pytest.raises(ValueError, match=r"no store 'default'; .*store='left' and store='right'"):
        read_state(made.path)


@pytest.mark.parametrize("how", [{}, {"store": "left"}, {"variable": "left-keyWithIndexToValue"}])
def test_join_with_column_families_is_left_to_sparks_reader(
    tmp_path: Path, how: dict[str, str]
) -> None:
    made = made_join(tmp_path)
    with pytest.raises(ValueError, match=r"a join of state format 3 or 4.*`statestore`"):
        read_state(made.path, **how)


@pytest.mark.parametrize("format", [1, 2])
def test_a_column_named_matched_is_a_rows_own(tmp_path: Path, format: int) -> None:
    """Spark adds one of its own behind it, by the same name."""
    key = pa.struct([("field0", pa.string()), ("index", pa.int64())])
    value = pa.struct([("user", pa.string()), ("matched", pa.int64()), ("matched", pa.bool_())])
    made = MadeCheckpoint(tmp_path, key, value, JOIN, partitions=1, format=format)
    made.batch({("ann", 0): ("ann", 4, True)})
    made.close()
    found = read_state(tmp_path, store="left").schema.field("value").type
    assert found == pa.struct([("user", pa.string()), ("matched", pa.int64())])


def test_join_of_state_format_1_keeps_a_column_named_matched(tmp_path: Path) -> None:
    """Spark adds a column from format 2 on; format 1 is that of offset logs that name none."""
    key = pa.struct([("field0", pa.string()), ("index", pa.int64())])
    value = pa.struct([("user", pa.string()), ("matched", pa.bool_())])
    made = MadeCheckpoint(tmp_path, key, value, JOIN, partitions=1, conf={JOIN_FORMAT: "1"})
    made.batch({("ann", 0): ("ann", True)})
    del made.conf[JOIN_FORMAT]
    made.batch({("bob", 0): ("bob", False)})
    made.close()
    rows = [{"user": "ann", "matched": True}, {"user": "bob", "matched": False}]
    for version in (1, 2):
        found = read_state(tmp_path, store="left", version=version)["value"].to_pylist()
        assert sorted(found, key=itemgetter("user")) == rows[:version]
    shown = run("state", tmp_path, "--store", "left", "--json")
    found = [row["value"] for row in json.loads(shown.stdout)["rows"]]
    assert sorted(found, key=itemgetter("user")) == rows
