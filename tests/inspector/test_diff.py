"""`cec-store diff` against the arithmetic of sets in plain Python."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cec_store import open_queue
from cec_store.inspector.showing.differences import LogDiff, _compare, _Rows
from support.command_line.state import as_state, document, rows_of, run
from support.places import damaged_queues as made
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint, Model, grown, random_rows

COUNTS = ("added", "removed", "changed", "same")


def arithmetic(old: dict[Any, Any], new: dict[Any, Any]) -> dict[str, int]:
    both = old.keys() & new.keys()
    changed = sum(old[key] != new[key] for key in both)
    return {
        "added": len(new.keys() - old.keys()), "removed": len(old.keys() - new.keys()),
        "changed": changed, "same": len(both) - changed,
    }  # fmt: skip


def listed(old: dict[Any, Any], new: dict[Any, Any]) -> set[Any]:
    keys = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return {(key, old.get(key), new.get(key)) for key in keys}


def said(rows: list[dict[str, Any]]) -> set[Any]:
    def cells(value: Any) -> Any:
        return None if value is None else tuple(value.values())

    return {(cells(row["key"]), cells(row["before"]), cells(row["after"])) for row in rows}


def check(found: Any, old: Model, new: Model) -> None:
    sums = dict.fromkeys(COUNTS, 0)
    due = set()
    for log in found["logs"]:
        number = log["partition"]
        counts = arithmetic(old.get(number, {}), new.get(number, {}))
        assert {name: log[name] for name in COUNTS} == counts
        sums = {name: sums[name] + counts[name] for name in COUNTS}
        due |= listed(old.get(number, {}), new.get(number, {}))
    assert found["totals"] == {"logs": len(found["logs"]), **sums}
    assert found["equal"] is (not due)
    assert said(found["rows"]) == due
    assert found["rows_left_out"] == 0


@pytest.mark.parametrize("format", [1, 2])
def test_versions_differ_as_their_sets_of_keys_do(tmp_path: Path, format: int) -> None:
    _, states, _ = grown(tmp_path, format=format)
    before = made.hash_of(tmp_path)
    for old, new in ((1, 6), (2, 3), (6, 1), (4, 4)):
        found = document("diff", tmp_path, "--from", old, "--to", new, "--top", 1000)
        assert (found["from"], found["to"], found["other"]) == (old, new, None)
        check(found, states[old - 1], states[new - 1])
    check(document("diff", tmp_path, "--from", 5, "--top", 1000), states[4], states[5])
    assert made.hash_of(tmp_path) == before


def test_checkpoints_differ_as_their_sets_of_keys_do(tmp_path: Path) -> None:
    random = Random(8)
    models: list[list[Model]] = []
    for name in "ab":
        checkpoint = MadeCheckpoint(tmp_path / name, KEY, VALUE)
        state: Model = {0: {}, 1: {}}
        models.append([])
        for _ in range(4):
            rows = [random_rows(random) for _ in range(2)]
            checkpoint.batch(*rows)
            for number, each in enumerate(rows):
                new = {**state[number], **each}
                state[number] = {k: v for k, v in new.items() if v is not None}
            models[-1].append({number: dict(part) for number, part in state.items()})
        checkpoint.close()
    check(
        document("diff", tmp_path / "a", tmp_path / "b", "--top", 999), models[0][3], models[1][3]
    )
    found = document("diff", tmp_path / "a", tmp_path / "b", "--at", 2, "--top", 999)
    check(found, models[0][1], models[1][1])
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    result = run("diff", tmp_path / "a", tmp_path / "copy")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("equal: 0 added, 0 removed, 0 changed, ")


def test_other_numbers_of_partitions_are_compared_as_a_whole(tmp_path: Path) -> None:
    rows = {("ann", n): (n, "x") for n in range(9)}
    for name, parts in (("one", 1), ("three", 3)):
        checkpoint = MadeCheckpoint(tmp_path / name, KEY, VALUE, partitions=parts)
        items = [*rows.items()]
        checkpoint.batch(*(dict(items[part::parts]) for part in range(parts)))
        checkpoint.close()
    found = document("diff", tmp_path / "one", tmp_path / "three")
    assert (found["equal"], found["totals"]["same"], len(found["logs"])) == (True, 9, 1)


def test_operator_that_only_one_has_is_added_or_removed(tmp_path: Path) -> None:
    left, right = "left-keyToNumValues", "right-keyToNumValues"
    for name, stores in (("a", (left,)), ("b", (left, right))):
        checkpoint = MadeCheckpoint(tmp_path / name, KEY, VALUE, stores, partitions=1)
        checkpoint.batch({("ann", 1): (1, "a")})
        checkpoint.close()
    found = document("diff", tmp_path / "a", tmp_path / "b")
    assert [(log["store"], log["added"], log["same"]) for log in found["logs"]] == [
        (left, 0, 1), (right, 1, 0),
    ]  # fmt: skip
    assert document("diff", tmp_path / "b", tmp_path / "a")["totals"]["removed"] == 1


def test_windows_of_a_queue_differ_as_their_sets_do(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "queue", 600)

    def windows(at: str) -> dict[Any, Any]:
        return {key[2]: state for key, (state, _) in as_state(
            rows_of("state", path, "--at", at)).items()}  # fmt: skip

    for old, new in (("@60", "@180"), ("@0", "@90"), ("@150", "@20")):
        found = document("diff", path, "--from", old, "--to", new, "--top", 1000)
        assert {n: found["totals"][n] for n in COUNTS} == arithmetic(windows(old), windows(new))
        assert said(found["rows"]) == listed(windows(old), windows(new))


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_any_kind_are_compared_as_values(seed: int) -> None:
    random = Random(seed)
    kinds = {
        "int": (pa.int64(), [None, 0, 1, -(2**62)]),
        "float": (pa.float64(), [None, 0.5, float("inf"), 1e300]),
        "text": (pa.string(), [None, "", "a", "ß"]),
        "bytes": (pa.binary(), [b"", b"\0", b"ab", b"abc"]),
        "list": (pa.list_(pa.int64()), [None, [], [1], [1, None]]),
        "struct": (pa.struct([("x", pa.int64())]), [None, {"x": None}, {"x": 1}]),
        "flag": (pa.bool_(), [None, True, False]),
    }

    def some() -> dict[str, Any]:
        return {name: random.choice(values) for name, (_, values) in kinds.items()}

    kind = pa.struct([(name, each) for name, (each, _) in kinds.items()])
    keys = [*{repr(key): key for key in (some() for _ in range(60))}.values()]
    sides, models, shown_as = [], [], []

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        """As it is told: floats as they are, bytes in hex."""
        return {**row, "bytes": row["bytes"].hex()}

    for _ in range(2):
        chosen = random.sample(keys, random.randrange(len(keys)))
        states = [some() for _ in range(4)]
        model = {repr(key): (key, random.choice(states)) for key in chosen}
        pairs = [*model.values()]
        sides.append(_Rows(*(pa.array([pair[n] for pair in pairs], kind) for n in (0, 1))))
        shown_as.append(pairs)
        models.append({name: repr(state) for name, (_, state) in model.items()})
    diff = LogDiff(None)  # type: ignore[arg-type]
    _compare(diff, sides[0], sides[1], 10**6)
    assert {name: getattr(diff, name) for name in COUNTS} == arithmetic(models[0], models[1])
    plain = [{repr(shown(key)): repr(shown(state)) for key, state in model} for model in shown_as]
    assert {(repr(r.key), _repr(r.before), _repr(r.after)) for r in diff.rows} == listed(*plain)


def _repr(state: Any) -> str | None:
    return None if state is None else repr(state)


def test_list_is_bounded_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    grown(tmp_path)
    whole = document("diff", tmp_path, "--from", 1, "--top", 1000)
    some = document("diff", tmp_path, "--from", 1, "--top", 3)
    assert some["rows"] == whole["rows"][:3]
    assert some["rows_left_out"] == len(whole["rows"]) - 3 > 0
    assert some["totals"] == whole["totals"]
    text = run("diff", tmp_path, "--from", 1, "--top", 3).stdout
    assert f"… and {some['rows_left_out']} more" in text
    assert sum(line[:2] in ("+ ", "~ ") or line.startswith("- key") for line in
               text.splitlines()[2:]) == 3  # fmt: skip


def test_damaged_partition_is_told_and_the_others_are_compared(tmp_path: Path) -> None:
    _, states, _ = grown(tmp_path, partitions=3)
    for segment in (tmp_path / "state" / "0" / "1").glob("*.seg"):
        made.flip(segment, segment.stat().st_size - 3)
    before = made.hash_of(tmp_path)
    found = document("diff", tmp_path, "--from", 2, "--top", 1000, status=1)
    assert (found["sound"], found["equal"]) == (False, False)
    assert [bool(log["problem"]) for log in found["logs"]] == [False, True, False]
    for log in (found["logs"][0], found["logs"][2]):
        counts = arithmetic(states[1][log["partition"]], states[5][log["partition"]])
        assert {name: log[name] for name in COUNTS} == counts
    assert made.hash_of(tmp_path) == before


def test_wrong_use(tmp_path: Path) -> None:
    a, queue = tmp_path / "a", tmp_path / "queue"
    grown(a)
    made.make_operator_queue(queue, 100)
    with open_queue(tmp_path / "plain", "x", schema=pa.schema([("n", pa.int64())])):
        pass
    for arguments, text in (
        ((a,), "give two places"),
        ((a, a, "--from", 1), "give two places"),
        ((a, "--from", 1, "--at", 2), "--at is for two places"),
        ((a, queue), "cannot be compared"),
        ((a, "--from", 77), "1 to 6"),
        ((a, "--from", "@4"), "is an offset"),
        ((a, tmp_path / "none"), "does not exist"),
        ((tmp_path / "plain", "--from", "@0"), ""),
    ):
        result = run("diff", *arguments)
        assert (result.exit_code, text in " ".join(result.stderr.split())) == (2, True), arguments
        assert "Traceback" not in result.output


def test_document_and_text_say_the_same(tmp_path: Path) -> None:
    grown(tmp_path)
    found = json.loads(run("diff", tmp_path, "--from", 3, "--json").stdout)
    last = run("diff", tmp_path, "--from", 3).stdout.splitlines()[-1]
    totals = ", ".join(f"{found['totals'][name]:,} {name}" for name in COUNTS)
    assert last == f"differs: {totals}"
