"""Sources and sinks of a fleet's queries that are no queues: what is known of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cec_store.connectors.spark.fleet.costs import is_caught_up
from cec_store.connectors.spark.fleet.declaration import Graph, Query
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.going_back import (
    check_consent,
    not_taken_back,
    shared_outputs,
)
from cec_store.connectors.spark.fleet.lags import QueryLag, with_outer
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint, QueryNotes
from cec_store.connectors.spark.fleet.outer import OuterLag, Sink, Source, outer_effects, outer_lag
from cec_store.connectors.spark.fleet.toml_file import read_toml
from cec_store.errors import BadFleet, OutputNotTakenBack
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, ProgressDouble, SourceDouble, driver_of

PLACE = "support.fleets.diamond:even"
KAFKA = Source("kafka", {"kafka.bootstrap.servers": "h:1", "subscribe": "orders"})
RATE = Source("rate")
FILES = Source("parquet", {"path": "/in"}, "v bigint")


def query(name: str, **more: Any) -> Query:
    return Query(**{"name": name, "function": PLACE, "reads": (), "writes": "", **more})


# -- what is declared -------------------------------------------------------------------------


def test_queries_with_other_sources_and_sinks_are_members_of_the_graph() -> None:
    graph = Graph.of(
        [
            query("saved", reads=("/q/a",), sink=Sink(foreach_batch="m:f")),
            query("a", sources=(KAFKA,), writes="/q/a"),
            query("alone", sources=(RATE,), sink=Sink("noop"), priority=4),
        ]
    )
    assert list(graph.queries).index("a") < list(graph.queries).index("saved")
    assert graph.upstream("saved") == ("a",)
    assert graph.inputs == ()
    assert graph.writers == {"/q/a": "a"}
    topology = graph.topology({})
    outputs = {str(topology.partitions[place]) for place in topology.outputs.tolist()}
    assert outputs == {"saved/0", "alone/0"}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Source("socket"), "socket cannot be replayed: Spark's socket source keeps nothing"),
        (Source("socket", replayable=True), "keeps nothing"),
        (Source("kinesis"), "nothing is known of its format; declare it with replayable=True"),
        (Source("kinesis", replayable=False), "declared as one that is not replayable"),
        (Source("kafka", {"subscribe": "t"}, replayable=False), "kafka t cannot be replayed"),
        (Source("json", {"path": "/x", "cleanSource": "DELETE"}), "cleanSource=delete"),
        (Source("json", {"path": "/x", "cleansource": "archive"}), "takes its files away"),
    ],
)
def test_a_source_that_cannot_be_replayed_is_refused_before_anything_starts(
    tmp_path: Path, source: Source, why: str
) -> None:
    with pytest.raises(BadFleet, match=f"a: its source .*{why}"):
        Fleet(tmp_path / "fleet").query("a", PLACE, sources=[source], writes="/q/a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "source",
    [KAFKA, RATE, FILES, Source("kinesis", replayable=True), Source("delta", {"path": "/d"}),
     Source("json", {"path": "/x", "cleanSource": "off"})],
)  # fmt: skip
def test_a_source_that_can_be_replayed_is_taken(source: Source) -> None:
    assert query("a", sources=(source,), writes="/q/a").sources == (source,)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"writes": "/o", "sink": Sink("noop")}, r"a queue \(writes\) or what is none \(sink\)"),
        ({}, r"a queue \(writes\) or what is none"),
        ({"sink": Sink("noop"), "write_options": {"a": "b"}}, "give them to its sink"),
    ],
)
def test_no_such_output(more: dict[str, Any], what: str) -> None:
    with pytest.raises(BadFleet, match=f"a: .*{what}"):
        query("a", reads=("/i",), **more)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda: Sink(), "one of them"),
        (lambda: Sink("noop", foreach_batch="m:f"), "one of them"),
        (lambda: Sink(foreach_batch="nowhere"), "foreach_batch 'nowhere'"),
        (lambda: Sink("cec", {"path": "/q"}), "give its queue as writes"),
        (lambda: Source("cec", {"path": "/q"}), "give its queue in reads"),
        (lambda: Source(""), "format ''"),
        (lambda: Sink("parquet"), "give the option path"),
    ],
)
def test_no_such_sink_or_source(made: Any, what: str) -> None:
    with pytest.raises(BadFleet, match=what):
        made()


def test_queries_that_meet_where_no_plan_sees_it_are_refused() -> None:
    files = Sink("parquet", {"path": "/out/"})
    one = query("one", reads=("/i",), sink=files)
    with pytest.raises(BadFleet, match="one and two both write files in /out"):
        Graph.of([one, query("two", reads=("/j",), sink=Sink("parquet", {"PATH": "/out"}))])
    reader = query("two", sources=(Source("parquet", {"path": "/out"}),), writes="/q")
    with pytest.raises(BadFleet, match=r"two reads parquet /out, which one writes: .*join them by"):
        Graph.of([reader, one])
    topic = query("one", reads=("/i",), sink=Sink("kafka", {"topic": "orders"}))
    with pytest.raises(BadFleet, match="two reads kafka orders, which one writes"):
        Graph.of([query("two", sources=(KAFKA,), writes="/q"), topic])


def test_a_file_declares_what_python_declares(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        'folder = "f"\n[queries.a]\nfunction = "m:f"\nwrites = "q"\n'
        '[[queries.a.sources]]\nformat = "json"\nschema = "v int"\n'
        'options = { path = "/in", maxFilesPerTrigger = 3 }\n'
        '[queries.b]\nfunction = "m:f"\nreads = ["q"]\nsink = { foreach_batch = "m:g" }\n'
    )
    options = {"path": "/in", "maxFilesPerTrigger": "3"}
    queue = str(tmp_path / "q")
    assert read_toml(path).queries == (
        query("a", function="m:f", sources=(Source("json", options, "v int"),), writes=queue),
        query("b", function="m:f", reads=(queue,), sink=Sink(foreach_batch="m:g")),
    )
    for old, new, what in (
        ("format", "fromat", "queries.a.sources: 'fromat' is no key; those are format, options"),
        ('format = "json"\n', "", "queries.a.sources: 'format' is missing"),
        ("foreach_batch", "for_each", "queries.b.sink: 'for_each' is no key"),
        ('sink = { foreach_batch = "m:g" }', "", "queries.b: 'writes' is missing"),
        ('"json"', '"socket"', "a: its source socket /in cannot be replayed"),
    ):
        text = path.read_text()
        assert old in text
        (tmp_path / "bad.toml").write_text(text.replace(old, new))
        with pytest.raises(BadFleet, match=what):
            read_toml(tmp_path / "bad.toml")


def test_a_query_goes_on_with_its_own_sources_and_sink_alone(tmp_path: Path) -> None:
    def declared(source: Source, sink: Sink) -> Fleet:
        return Fleet(tmp_path / "fleet").query("a", PLACE, sources=[source], sink=sink)

    first = declared(KAFKA, Sink(foreach_batch="m:f"))
    first.folder.write(first.noted(Graph.of(first._queries)))
    for source, sink, what in (
        (KAFKA, Sink(foreach_batch="m:g"), None),
        (RATE, Sink(foreach_batch="m:f"), "reads other sources"),
        (KAFKA, Sink("noop"), "writes another queue or sink"),
    ):
        again = declared(source, sink)
        if what is None:
            again.noted(Graph.of(again._queries))
        else:
            with pytest.raises(BadFleet, match=f"a: {what}"):
                again.noted(Graph.of(again._queries))


# -- what Spark says of a lag -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "latest", "metrics", "records"),
    [
        ('{"logOffset": 3}', "null", {}, None),
        ('{"logOffset": 3}', None, None, None),
        ("54", "54", {}, 0),
        ("54", "60", {}, None),  # of the rate source these are seconds
        ('{"t":{"0":5,"1":7}}', '{"t":{"1":9,"0":5}}', {}, 2),
        ('{"t":{"0":5}}', '{"t":{"0":5,"1":4}}', {}, None),
        ('{"t":{"0":5}}', '{"t":{"0":5},"u":{"0":1}}', {}, None),
        ('{"a":1}', '{"a":2}', {}, None),
        ("x", "y", {"maxOffsetsBehindLatest": "0"}, 0),
        ("x", "y", {"maxOffsetsBehindLatest": "8"}, None),
        ("x", "y", {"recordsBehindLatest": "8"}, 8),
    ],
)
def test_a_lag_is_what_spark_says_and_unknown_where_it_says_nothing(
    end: str, latest: str | None, metrics: dict[str, str] | None, records: int | None
) -> None:
    source = SourceDouble("Kafka", metrics=metrics or {}, endOffset=end, latestOffset=latest)
    assert outer_lag(source) == OuterLag("Kafka", records)


OFFSETS = some.dictionaries(
    some.sampled_from("tu"),
    some.dictionaries(some.sampled_from("012"), some.integers(0, 99), min_size=1),
    min_size=1,
)


@given(OFFSETS, some.data())
def test_records_behind_are_those_that_came_since(end: dict[str, Any], data: Any) -> None:
    came = {
        (topic, number): data.draw(some.integers(0, 50))
        for topic, partitions in end.items()
        for number in partitions
    }
    latest = {
        topic: {number: offset + came[topic, number] for number, offset in partitions.items()}
        for topic, partitions in end.items()
    }
    source = SourceDouble("x", 0, {}, "null", json.dumps(end), json.dumps(latest))
    assert outer_lag(source).records == sum(came.values())


LAG = QueryLag(5, 1000)


@pytest.mark.parametrize(
    ("lags", "is_active", "is_driven", "records", "since_us", "problem"),
    [
        ((OuterLag("K", 0),), True, True, 5, 1000, ""),
        ((OuterLag("K", 7),), True, True, 12, None, ""),
        ((OuterLag("K", None),), True, True, None, None, "Spark does not say it of K"),
        ((), True, True, None, None, "no batch has told of kafka orders yet"),
        ((OuterLag("K", 7),), False, True, None, None, "this query does not run"),
        ((OuterLag("K", 7),), True, False, None, None, "this query does not run"),
    ],
)
def test_a_lag_of_queues_and_others(
    lags: tuple[OuterLag, ...], is_active: bool, is_driven: bool,
    records: int | None, since_us: int | None, problem: str,
) -> None:  # fmt: skip
    member = query("a", sources=(KAFKA,), writes="/q/a")
    lag = with_outer(LAG, member, QueryNotes(is_active=is_active, outer_lags=lags), is_driven)
    assert (lag.records_waiting, lag.waiting_since_us, lag.outer_lags) == (records, since_us, lags)
    assert problem in lag.lag_problem
    assert bool(lag.lag_problem) == (records is None)
    assert with_outer(LAG, query("b", reads=("/i",), writes="/o"), QueryNotes(), False) == LAG


@pytest.mark.parametrize(
    ("source", "takes_all", "caught_up"),
    [
        (SourceDouble("Kafka", 10, {}, "null", '{"t":{"0":5}}', '{"t":{"0":15}}'), False, True),
        (SourceDouble("Kafka", 9, {}, "null", '{"t":{"0":5}}', '{"t":{"0":15}}'), True, False),
        (SourceDouble("Files", 9, {}), False, False),
        (SourceDouble("Files", 9, {}), True, True),
    ],
)
def test_costs_count_once_a_source_has_no_more_than_a_batch_takes(
    source: SourceDouble, takes_all: bool, caught_up: bool
) -> None:
    assert is_caught_up(ProgressDouble(3, [source]), takes_all=takes_all) is caught_up


@pytest.mark.parametrize(
    ("source", "takes_all"),
    [
        (FILES, True),
        (Source("json", {"path": "/x", "MaxFilesPerTrigger": "1"}), False),
        (KAFKA, False),
    ],
)
def test_files_without_a_limit_are_taken_whole(source: Source, takes_all: bool) -> None:
    assert source.takes_all is takes_all


# -- what going back cannot take back ---------------------------------------------------------

BATCHES = some.none() | some.integers(0, 9)
SINKS = some.sampled_from(
    [Sink("noop"), Sink("kafka", {"topic": "t"}), Sink("delta", {"path": "/d"}),
     Sink(foreach_batch="m:f")]
)  # fmt: skip


@given(some.dictionaries(some.sampled_from("abc"), some.tuples(SINKS, BATCHES, BATCHES)))
def test_each_batch_that_a_sink_has_had_and_gets_again_is_named(
    queries: dict[str, tuple[Sink, int | None, int | None]],
) -> None:
    effects = outer_effects(
        {name: sink for name, (sink, _, _) in queries.items()},
        {name: cut for name, (_, cut, _) in queries.items()},
        {name: begun for name, (_, _, begun) in queries.items()},
    )
    named = {
        (effect.query, batch)
        for effect in effects
        for batch in range(effect.first_batch, (effect.last_batch or 0) + 1)
    }
    assert named == {
        (name, batch)
        for name, (sink, cut, begun) in queries.items()
        for batch in range(10)
        if sink.format != "noop"
        and (begun is not None and batch <= begun)
        and (cut is None or batch > cut)
    }


def test_what_becomes_of_the_batches_is_said() -> None:
    said = {
        sink.format or "function": (sink.again(), sink.shared())
        for sink in (
            Sink("parquet", {"path": "/p"}), Sink("kafka"), Sink(foreach_batch=print), Sink("noop")
        )
    }  # fmt: skip
    assert "takes no batch of these numbers again" in said["parquet"][0]
    assert "drops batches whose numbers the other had" in said["parquet"][1]
    assert "gets them once more" in said["kafka"][0]
    assert "is called again" in said["function"][0]
    assert said["noop"] == ("", "")


def begun(folder: Path, query: str, batches: int) -> None:
    """What Spark leaves of so many batches that were begun, as far as going back asks for it."""
    for name in ("offsets", "commits"):
        (folder / "fleet" / "queries" / query / "0" / name).mkdir(parents=True)
    checkpoint = folder / "fleet" / "queries" / query / "0"
    (checkpoint / "metadata").write_text('{"id": "1"}')
    for batch in range(batches):
        (checkpoint / "offsets" / str(batch)).write_text("v1")


def test_what_a_rollback_and_a_fork_would_do_again_is_told_by_the_checkpoints(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path / "fleet")
    fleet.query("told", PLACE, reads=["/q/in"], sink=Sink(foreach_batch="m:f"))
    fleet.query("kept", PLACE, reads=["/q/in"], sink=Sink("delta", {"path": "/d"}))
    fleet.query("idle", PLACE, reads=["/q/in"], sink=Sink("kafka", {"topic": "t"}))
    notes = fleet.noted(Graph.of(fleet._queries))
    begun(tmp_path, "told", 7)
    begun(tmp_path, "kept", 3)
    checkpoint = GlobalCheckpoint(4, 0, 0, {"told": 4, "kept": 2, "idle": None}, {}, {}, {})
    effects = not_taken_back(fleet.folder, notes, checkpoint)
    assert [(e.query, e.first_batch, e.last_batch) for e in effects] == [("told", 5, 6)]
    with pytest.raises(OutputNotTakenBack, match=r"told: foreachBatch m:f has had batches 5 to 6"):
        check_consent(notes, effects, ["kept"], "/fleet")
    check_consent(notes, effects, ["told"], "/fleet")
    with pytest.raises(BadFleet, match="no query 'other' with a sink"):
        check_consent(notes, effects, ["told", "other"], "/fleet")
    shared = shared_outputs(notes, checkpoint)
    assert [(e.query, e.first_batch, e.last_batch) for e in shared] == [
        ("told", 5, None), ("kept", 3, None), ("idle", 0, None)
    ]  # fmt: skip


# -- how they are driven ----------------------------------------------------------------------


def test_they_are_held_back_paused_and_started_like_others(tmp_path: Path) -> None:
    diamond.make_input(tmp_path)
    fleet = Fleet(tmp_path / "fleet")
    fleet.query("landed", PLACE, sources=[FILES], writes=str(tmp_path / "landed"), cost=1.0)
    told = Sink(foreach_batch="support.fleets.diamond:even")
    fleet.query("told", PLACE, reads=[str(tmp_path / "input")], sink=told, priority=9, cost=2.0)
    engine = EngineDouble(4)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    assert engine.running() == {"landed", "told"}
    landed = engine.queries["landed"]
    landed.outer = (SourceDouble("FileStreamSource[file:/in]", metrics={}),)
    landed.does(0)
    driver.look(1.0)
    assert driver.notes.of("landed").outer_lags == (OuterLag("FileStreamSource[file:/in]", None),)
    assert driver.notes.of("landed").sources == ("",)
    assert driver.notes.of("landed").cost.caught_up_at_s == 1.0
    engine.lose(0)
    driver.look(2.0)
    engine.lose(1)
    driver.look(3.0)
    assert driver.notes.situation.outage is not None
    assert engine.running() == {"landed"}
    fleet.pause("landed")
    driver.look(4.0, asked=fleet.folder.requests())
    assert engine.running() == set()
    assert fleet.folder.read().declared == driver.notes.declared
