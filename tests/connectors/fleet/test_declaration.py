"""What a fleet may be declared as, in Python and in TOML: refused before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from cec_store import open_queue
from cec_store.connectors.spark.fleet.declaration import Graph, Query
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.connectors.spark.fleet.toml_file import read_toml
from cec_store.errors import BadFleet
from support.fleets import diamond

PLACE = "support.fleets.diamond:even"


def query(name: str, reads: tuple[str, ...], writes: str, **more: Any) -> Query:
    return Query(name, PLACE, reads, writes, **more)


def test_the_graph_follows_from_the_queues() -> None:
    graph = Graph.of(
        [
            query("last", ("/q/left", "/q/right"), "/q/last"),
            query("left", ("/q/in",), "/q/left", priority=3),
            query("right", ("/q/./in", "/q/more"), "/q/right"),
        ]
    )
    assert list(graph.queries)[-1] == "last"
    assert graph.upstream("last") == ("left", "right")
    assert set(graph.inputs) == {"/q/in", "/q/more"}
    topology = graph.topology({"left": 0.5})
    outputs = {str(topology.partitions[each]) for each in topology.outputs.tolist()}
    assert outputs == {"left/0", "last/0"}  # right is read, and nobody else waits for it


@pytest.mark.parametrize(
    ("queries", "what"),
    [
        ([], "no query"),
        ([("a", "/i", "/o"), ("a", "/i", "/p")], "two queries are called a"),
        ([("a", "/i", "/o"), ("b", "/i", "/x/../o")], "a and b both write /o"),
        ([("a", "/o", "/o")], "circle: a -> a"),
        ([("a", "/c", "/a"), ("b", "/a", "/b"), ("c", "/b", "/c")], "circle: .* -> .* -> .* -> "),
    ],
)
def test_no_such_graph(queries: list[tuple[str, str, str]], what: str) -> None:
    with pytest.raises(BadFleet, match=what):
        Graph.of(query(name, (reads,), writes) for name, reads, writes in queries)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"priority": 0}, "priority 0; give a whole number from 1 to 10"),
        ({"priority": 11}, "priority 11"),
        ({"priority": 2.5}, "priority 2.5"),
        ({"priority": True}, "priority True"),
        ({"name": ""}, "'' is no name"),
        ({"name": "../up"}, "is no name"),
        ({"reads": ()}, "reads no queue, and no source"),
        ({"writes": ""}, "a queue \\(writes\\) or what is none \\(sink\\)"),
        ({"cost": -1.0}, "cost -1.0"),
        ({"cost": float("nan")}, "cost nan"),
        ({"every_s": -1}, "every_s=-1"),
        ({"output_mode": "all"}, "output mode 'all'"),
        ({"function": "nowhere"}, "function 'nowhere'"),
        ({"function": None}, "function None"),
    ],
)
def test_no_such_query(changed: dict[str, Any], what: str) -> None:
    said = {"name": "a", "function": PLACE, "reads": ("/i",), "writes": "/o", **changed}
    with pytest.raises(BadFleet, match=what):
        Query(**said)


@pytest.mark.parametrize(
    "changed",
    [{"cap": 1.5}, {"cap": 0}, {"lost_executors": 1.5}, {"checkpoint_s": "10"}, {"cap": True}],
)
def test_no_such_rules(changed: dict[str, Any]) -> None:
    with pytest.raises(BadFleet, match=f"rules.{next(iter(changed))}"):
        Rules(**changed)


def test_nothing_is_made_by_a_fleet_that_cannot_start(tmp_path: Path) -> None:
    fleet = diamond.declared(tmp_path)
    with pytest.raises(BadFleet, match=r"parsed: reads .*input, which is no queue"):
        fleet.checked()
    diamond.make_input(tmp_path)
    assert next(iter(fleet.checked().queries)) == "parsed"
    fleet.query("lost", "support.fleets.diamond:gone", reads=["in"], writes=str(tmp_path / "lost"))
    with pytest.raises(BadFleet, match=r"lost: no function support\.fleets\.diamond:gone"):
        fleet.checked()
    with pytest.raises(BadFleet, match="give a list"):
        fleet.query("text", PLACE, reads="in", writes="out")
    assert [each.name for each in tmp_path.iterdir()] == ["input"]


@pytest.mark.parametrize("name", ["in", "out"])
def test_a_queue_without_partitions_is_named_as_such(tmp_path: Path, name: str) -> None:
    diamond.make_queue(tmp_path / ("in" if name == "out" else "out"))
    with open_queue(tmp_path / name, "x", schema=diamond.ROWS, timestamp_column="at"):
        pass
    fleet = Fleet(tmp_path / "fleet")
    fleet.query("even", PLACE, reads=[str(tmp_path / "in")], writes=str(tmp_path / "out"))
    with pytest.raises(BadFleet, match=rf"/{name}: a queue without partitions"):
        fleet.checked()


def test_options_of_stores_are_refused_where_a_fleet_has_none(tmp_path: Path) -> None:
    options = {"endpoint_url": "http://127.0.0.1:9"}
    local = Fleet(tmp_path / "fleet", storage_options=options)
    local.query("even", PLACE, reads=[str(tmp_path / "in")], writes=str(tmp_path / "out"))
    with pytest.raises(BadFleet, match="fleet: local files have no storage_options"):
        local.checked()
    local.query("odd", PLACE, reads=[str(tmp_path / "in")], writes="memory://queues/odd")
    with pytest.raises(BadFleet, match=r"even, odd: reads .*in, which is no queue"):
        local.checked()
    assert not list(tmp_path.iterdir())


def test_queues_are_known_by_their_whole_path_wherever_the_notes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    monkeypatch.chdir(tmp_path)
    fleet = Fleet("state").query("a", PLACE, reads=["in", "s3://bucket/in"], writes="out")
    fleet.folder.write(fleet.noted(Graph.of(fleet._queries)))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    graph = Fleet.at(tmp_path / "state")._queries
    assert graph[0].reads == (str(tmp_path / "in"), "s3://bucket/in")
    assert graph[0].writes == str(tmp_path / "out")


def test_a_queue_is_one_by_whichever_scheme_its_store_is_reached() -> None:
    pytest.importorskip("s3fs")
    writer = Query("a", PLACE, ("s3://bucket/in",), "s3://bucket/parsed")
    reader = Query("b", PLACE, ("s3a://bucket/parsed",), "s3a://bucket/counts")
    graph = Graph.of([reader, writer])
    assert graph.upstream("b") == ("a",)
    assert len(graph.inputs) == 1
    with pytest.raises(BadFleet, match="b and c both write s3a://bucket/counts"):
        Graph.of([reader, Query("c", PLACE, ("s3://bucket/in",), "s3://bucket/counts")])


@pytest.mark.parametrize(
    ("name", "reads", "writes", "what"),
    [
        ("a", "in", "out", None),
        ("a", "more", "out", "reads other queues"),
        ("a", "in", "elsewhere", "writes another queue"),
        ("gone", "in", "new", "an earlier query"),
        ("b", "in", "new", None),
    ],
)
def test_a_query_goes_on_with_its_own_queues_alone(
    tmp_path: Path, name: str, reads: str, writes: str, what: str | None
) -> None:
    def declared(name: str, reads: str, writes: str) -> Fleet:
        fleet = Fleet(tmp_path / "state")
        return fleet.query(
            name, PLACE, reads=[str(tmp_path / reads)], writes=str(tmp_path / writes)
        )

    first = declared("a", "in", "out")
    first.folder.write(first.noted(Graph.of(first._queries)))
    (tmp_path / "state" / "queries" / "gone" / "0").mkdir(parents=True)
    again = declared(name, reads, writes)
    if what is None:
        again.noted(Graph.of(again._queries))
    else:
        with pytest.raises(BadFleet, match=f"{name}: {what}"):
            again.noted(Graph.of(again._queries))


TOML = """
folder = "state"
[rules]
cap = 0.7
[spark]
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = 4
[queries.counts]
function = "support.fleets.diamond:counts"
reads = ["q/trades", "s3://bucket/more"]
writes = "file:///data/counts"
priority = 9
read_options = { maxOffsetsPerTrigger = 100, failOnDataLoss = false }
"""


def test_a_file_says_what_python_says(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(TOML)
    said = read_toml(path)
    assert said.folder == str(tmp_path / "state")
    assert said.rules == Rules(cap=0.7)
    assert said.spark == {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"}
    options = {"maxOffsetsPerTrigger": "100", "failOnDataLoss": "false"}
    assert said.queries == (
        Query(
            "counts", "support.fleets.diamond:counts",
            (str(tmp_path / "q/trades"), "s3://bucket/more"), "file:///data/counts",
            priority=9, read_options=options,
        ),
    )  # fmt: skip
    assert Fleet.of_toml(path).folder.path == said.folder


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("priority", "prioritty", "queries.counts: 'prioritty' is no key; those are cost, every_s"),
        ("[rules]", "[rule]", "'rule' is no key"),
        ("cap", "cup", "rules: 'cup' is no key"),
        ('folder = "state"', "", "'folder' is missing"),
        ('writes = "file:///data/counts"', "", "queries.counts: 'writes' is missing"),
        ('reads = ["q/trades", "s3://bucket/more"]', 'reads = "q"', "a list of queues, not 'q'"),
        ("priority = 9", "priority = 90", "priority 90"),
        ("100", "[1]", "maxOffsetsPerTrigger: a text, a number or a truth"),
        ("priority = 9", "priority = ", "Invalid value"),
    ],
)
def test_a_file_is_refused_by_name(tmp_path: Path, old: str, new: str, what: str) -> None:
    path = tmp_path / "fleet.toml"
    assert old in TOML
    path.write_text(TOML.replace(old, new))
    with pytest.raises(BadFleet, match=what) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)
