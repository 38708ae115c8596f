"""Options of the source in the JVM mean what they mean in Python, in the same words."""

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from cec_store import values
from cec_store.errors import CecError
from cec_store.log.positions import Behind, Range
from cec_store.partitioned.offsets import Bound, Positions, cut, limited
from cec_store.partitioned.read_options import ReadOptions, parse
from support.runs.counts import crash_count
from support.vectors.moments import MOMENTS, NOW_US

pytestmark = pytest.mark.crash
MANY = settings(
    max_examples=crash_count(25, 1_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NAMES = (
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "consumer",
    "kinds",
    "includeMetadata",
    "followCheckpoint",
    "queryName",
    "startingOffset",
)
TEXTS = (
    "",
    " ",
    "0",
    "1",
    "7",
    " 12 ",
    "007",
    "-1",
    "1.5",
    "now",
    "true",
    "FALSE",
    "no",
    "latest",
    "Earliest",
    "error",
    '{"0":23,"1":-1}',
    '{"0":-2}',
    '{"0":-3}',
    '{"t":{"0":5}}',
    '{"q":{"0":5}}',
    '{"0123456789abcdef0123456789abcdef":{"0":5}}',
    '{"0123456789abcdef0123456789abcdef":{"0":5},"behind":"7-00000000000000ff"}',
    '{"t":{"0":5},"behind":"7-00000000000000ff"}',
    '{"t":{"0":5},"behind":"7"}',
    '{"behind":"7-00000000000000ff"}',
    '{"0":5,"behind":"7-00000000000000ff"}',
    '{"a":1}',
    '{"0":"1"}',
    '{"0":true}',
    "{}",
    "[]",
    "{",
    '{"0":1}x',
    "data",
    "open, CHECK",
    "all",
    "data,result",
    "datum",
    "it's",
    'a"b',
    "30s",
    "250 ms",
    "15m",
    "soon",
    "1700000000123",
    "9999999999999999",
    "name",
    "all,data",
    *MOMENTS,
)


def places(found: Any) -> dict[int, int]:
    """A map of Scala."""
    pairs = found.toSeq()
    return {int(pairs.apply(n)._1()): int(pairs.apply(n)._2()) for n in range(pairs.size())}


def option(found: Any) -> Any:
    return found.get() if found.isDefined() else None


def bound(found: Any) -> Bound:
    offsets, moments = option(found.offsets()), option(found.timestampsUs())
    return Bound(
        None if offsets is None else places(offsets),
        None if moments is None else places(moments),
        option(found.everywhere()),
        option(found.timestampUs()),
        found.queue(),
        None if (behind := option(found.behind())) is None else Behind.of(behind.toString()),
    )


@pytest.fixture(scope="module")
def source(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.cecstore.source


@pytest.fixture(scope="module", autouse=True)
def now() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(values, "_now_us", lambda: NOW_US)
        yield


CONDITION = "[CEC_OPTION] "
"""Before what Python says, as in every error of Spark's own kinds."""


def in_jvm(source: Any, options: dict[str, str], is_stream: bool) -> ReadOptions | str:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import IllegalArgumentException

    try:
        found = source.SourceOptions.parse(options, is_stream, NOW_US)
    except (IllegalArgumentException, Py4JJavaError) as error:
        is_plain = isinstance(error, Py4JJavaError)
        said = str(error.java_exception.getMessage() if is_plain else error._desc)
        assert said.startswith(CONDITION)
        return said.removeprefix(CONDITION)
    kinds = found.kinds().toSeq()
    return ReadOptions(
        found.path(),
        {},
        bound(found.starting()),
        bound(found.ending()),
        found.startWithoutMatchIsLatest(),
        option(found.maxOffsetsPerTrigger()),
        option(found.minOffsetsPerTrigger()),
        found.maxTriggerDelayS(),
        found.failOnDataLoss(),
        option(found.minPartitions()),
        found.maxRecordsPerPartition(),
        option(found.consumer()),
        frozenset(kinds.apply(n) for n in range(kinds.size())),
        found.includeMetadata(),
        option(found.followCheckpoint()),
    )


@given(
    options=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=3),
    is_stream=st.booleans(),
)
@MANY
def test_options_mean_what_they_mean_in_python(
    source: Any, options: dict[str, str], is_stream: bool
) -> None:
    try:
        expected: ReadOptions | str = parse({"path": "/q", **options}, is_stream=is_stream)
    except ValueError as error:
        expected = str(error)
    assert in_jvm(source, {"path": "/q", **options}, is_stream) == expected


def test_moments_are_what_they_are_in_python(source: Any) -> None:
    for text, moment_us in MOMENTS.items():
        found = in_jvm(source, {"path": "/q", "startingTimestamp": text}, True)
        if moment_us is None:
            assert isinstance(found, str), text
        else:
            assert isinstance(found, ReadOptions), (text, found)
            assert found.starting == Bound(timestamp_us=moment_us), text


@pytest.mark.parametrize("is_stream", [False, True])
def test_of_two_bad_values_the_same_one_is_told(source: Any, is_stream: bool) -> None:
    for pair in combinations(NAMES, 2):
        options = {"path": "/q", **dict.fromkeys(pair, "soon")}
        try:
            expected: ReadOptions | str = parse(options, is_stream=is_stream)
        except ValueError as error:
            expected = str(error)
        assert in_jvm(source, options, is_stream) == expected


@pytest.mark.parametrize("name", [*NAMES[:18], "PATH"])
def test_names_are_taken_in_any_case(source: Any, name: str) -> None:
    options = {"Path": "/q", name.upper(): "7"} if name != "PATH" else {"PATH": "/q"}
    try:
        expected: ReadOptions | str = parse(options, is_stream=False)
    except ValueError as error:
        expected = str(error)
    assert in_jvm(source, options, False) == expected


def test_a_path_is_needed(source: Any) -> None:
    assert in_jvm(source, {}, True) == "there is no path: give one by .option('path', path)"


def offsets(source: Any, values: dict[int, int]) -> Any:
    text = ", ".join(f'"{number}": {offset}' for number, offset in sorted(values.items()))
    found = source.QueueOffset.parse(f'{{"a1": {{{text}}}}}')
    assert found.json() == f'{{"a1": {{{text}}}}}' == json.dumps(Positions("a1", values).said())
    said = json.dumps(Positions("a1", values, Behind(12, 2**64 - 1)).said())
    assert said == f'{{"a1": {{{text}}}, "behind": "12-ffffffffffffffff"}}'
    assert source.QueueOffset.parse(said).json() == said
    return found.offsets()


counts = st.dictionaries(st.integers(0, 9), st.integers(0, 10**9), min_size=1)


NO_POSITIONS = ['{"0": 5}', '{"a": {"0": -1}}', '{"a": {"x": 1}}', "7", "[3]", '{"a": {"0": 1.5}}',
                '{"a": {"0": 1}, "b": {"0": 1}}', '{"a": {"0": 1}, "behind": "7"}',
                '{"a": {"0": 1}, "behind": 7}', '{"behind": "7-0000000000000000"}']  # fmt: skip


@pytest.mark.parametrize("text", NO_POSITIONS)
def test_what_is_no_position_of_a_queue_is_refused_as_in_python(source: Any, text: str) -> None:
    with pytest.raises(Py4JJavaError, match="is none of a queue"):
        source.QueueOffset.parse(text)
    with pytest.raises(CecError, match="is none of a queue"):
        Positions.of(json.loads(text))


@given(counts, st.integers(1, 2 * 10**9))
@MANY
def test_a_maximum_is_shared_as_in_python(source: Any, waiting: dict[int, int], most: int) -> None:
    begin = dict.fromkeys(waiting, 7)
    ends = {number: 7 + size for number, size in waiting.items()}
    found = source.AvailableOffsets.limited(offsets(source, begin), offsets(source, ends), most)
    assert places(found) == limited(begin, ends, most)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10**4)), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.integers(1, 10**4),
)
@MANY
def test_ranges_are_cut_for_tasks_as_in_python(
    spark: Any, source: Any, sizes: list[tuple[int, int]], least: int | None, most: int
) -> None:
    ranges = [Range(n, first, first + size) for n, (first, size) in enumerate(sizes)]
    given_ranges = spark._jvm.java.util.ArrayList()
    for one in ranges:
        given_ranges.add(source.OffsetRange(one.partition, one.start, one.stop))
    as_scala = spark._jvm.scala.jdk.javaapi.CollectionConverters.asScala(given_ranges).toSeq()
    options = {"path": "/q"} if least is None else {"path": "/q", "minPartitions": str(least)}
    partitions_min = source.SourceOptions.parse(options, False).minPartitions()
    found = source.AvailableOffsets.cut(as_scala, partitions_min, most)
    pieces = [found.apply(n) for n in range(found.size())]
    got = [Range(piece.partition(), piece.start(), piece.stop()) for piece in pieces]
    assert got == cut(ranges, least, most)
