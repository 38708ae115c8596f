"""What every test shares: how much a crash suite does, and hypothesis without surprises."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support.paths import TESTS, below_tests
from support.runs import counts, suites, tiers

# Files, relative to this folder, whose tests start Spark, or a JVM for half a minute. `make test`
# runs them after the others, those first that take longest, so that no worker is left alone with
# one in the end.
SPARK_FILES = (
    "connectors/provider/test_operators.py",
    "faults/test_watermarks.py",
    "connectors/provider/test_transforms.py",
    "connectors/transforms/test_avro.py",
    "connectors/moving/test_moves.py",
    "connectors/moving/test_moved_transforms.py",
    "connectors/moving/test_partitions.py",
    "connectors/moving/test_refusals.py",
    "connectors/moving/test_killed_moves.py",
    "connectors/moving/test_comparing.py",
    "connectors/moving/test_sparks_repartition.py",
    "connectors/moving/test_moves_in_stores.py",
    "connectors/moving/test_large_moves.py",
    "inspector/test_built_in.py",
    "connectors/queues/test_queue.py",
    "connectors/queues/test_faults.py",
    "connectors/queues/test_jvm_faults.py",
    "connectors/queues/test_jvm_sink.py",
    "connectors/fleet/test_in_store.py",
    "connectors/fleet/test_correlated_failures.py",
    "connectors/fleet/test_members_killed.py",
    "connectors/takeover/test_passive.py",
    "connectors/takeover/test_active.py",
    "connectors/takeover/test_on_hdfs.py",
    "connectors/setup/test_on_yarn.py",
    "connectors/executors/test_cluster_events.py",
    "connectors/executors/test_replicas_in_stores.py",
    "connectors/executors/test_task_loads.py",
    "connectors/executors/test_local_sessions.py",
    "connectors/queues/test_jvm_stores.py",
    "connectors/queues/test_jvm_refusals.py",
    "connectors/fleet/test_running.py",
    "connectors/fleet/test_members.py",
    "connectors/fleet/test_redeploy_on_spark.py",
    "connectors/fleet/test_pools.py",
    "connectors/fleet/test_order.py",
    "connectors/queues/test_jvm_upkeep.py",
    "connectors/queues/test_jvm_logs.py",
    "connectors/queues/test_jvm_real_stores.py",
    "connectors/queues/test_jvm_store_faults.py",
    "connectors/provider/test_kills.py",
    "tidy/test_tutorials.py",
    "tidy/test_spark_examples.py",
    "connectors/provider/test_damage.py",
    "connectors/queues/test_jvm_damage.py",
    "connectors/queues/test_jvm_source.py",
    "connectors/queues/test_jvm_streams.py",
    "connectors/queues/test_jvm_options.py",
    "connectors/queues/test_jvm_plain.py",
    "connectors/queues/test_chains.py",
    "connectors/queues/test_relative_paths.py",
    "connectors/queues/test_sql.py",
    "connectors/progress/test_lineage.py",
    "connectors/setup/test_pipelines.py",
    "connectors/setup/test_configure.py",
    "connectors/setup/test_unmet_target.py",
    "connectors/provider/test_calls.py",
    "connectors/provider/test_readers.py",
    "connectors/queues/test_spark_partitions.py",
    "connectors/provider/test_folders.py",
    "connectors/checkpoint/test_spark_read_state.py",
    "connectors/checkpoint/test_spark_key_directories.py",
    "connectors/provider/test_vectors.py",
    "connectors/provider/test_races.py",
    "connectors/provider/test_replicas.py",
    "connectors/provider/test_replica_orders.py",
    "connectors/provider/test_rules.py",
    "connectors/provider/test_due_rows.py",
    "connectors/provider/test_sizes.py",
    "connectors/provider/test_reads.py",
    "connectors/provider/test_feed.py",
    "connectors/provider/test_what_if.py",
    "connectors/provider/test_cluster.py",
    "connectors/checkpoint/test_spark_fork.py",
    "connectors/provider/test_checkpoint_damage.py",
    "connectors/provider/test_lost_state.py",
)

HAS_SPARK = find_spec("pyspark") is not None
if HAS_SPARK:
    from support.runs import minors
collect_ignore = list(minors.left_out() if HAS_SPARK else SPARK_FILES)

# Programs that tests start, and Spark's Python workers, import `support` as well.
if str(TESTS) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])
    )

# No deadline: a busy machine is not a defect. The blob makes a failure elsewhere repeatable here.
settings.register_profile("quick", deadline=None, print_blob=True, max_examples=25)
settings.register_profile("full", deadline=None, print_blob=True, max_examples=2_000)
settings.register_profile("quarter", deadline=None, print_blob=True, max_examples=500)
settings.load_profile(counts.SIZE)


def pytest_configure() -> None:
    if os.environ.get("CEC_PLANT"):
        from support.runs import planted_bugs

        planted_bugs.plant_what_is_asked_for()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", choices=suites.SUITES, help="run this fault suite alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if below_tests(item.path) in SPARK_FILES:
            item.add_marker(pytest.mark.spark)
        # What counts higher at full size is run by what runs the full sizes.
        if "crash_count" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.crash)
    tiers.mark(items)
    items.sort(key=lambda item: _place_of(below_tests(item.path)))
    suites.choose(config, items)


def _place_of(name: str) -> int:
    return SPARK_FILES.index(name) if name in SPARK_FILES else -1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [r for kind in ("passed", "failed", "skipped", "error")
               for r in terminalreporter.stats.get(kind, ())]  # fmt: skip
    found = suites.results(reports)
    if not counts.CRASH_QUICK and found:
        terminalreporter.section("fault suites")
        for line in suites.lines(found):
            terminalreporter.line(line)


def pytest_report_header() -> str:
    spark = "" if HAS_SPARK else "; no pyspark here, so no tests with Spark"
    return f"CEC_CRASH={counts.SIZE} (crash suites' counts){spark}"


@pytest.fixture(scope="session")
def crash_count() -> Callable[[int, int], int]:
    """How many crashes to take: `crash_count(quick, full)` is one of the two, or a quarter."""
    return counts.crash_count


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> suites.Tally:
    """A test of a fault suite says how many cases it has tried; the suite's line has their sum."""
    return lambda cases: request.node.user_properties.append(("cases", cases))


@pytest.fixture(scope="session", autouse=True)
def jvms_start_fast(request: pytest.FixtureRequest) -> None:
    """Where tests with Spark are run, all that they start takes Spark's classes from an archive."""
    if any(item.get_closest_marker("spark") for item in request.session.items):
        from support.spark import archive

        os.environ["SPARK_SUBMIT_OPTS"] = archive.submit_options()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session in local[2], one in each process. Queries choose their provider by `spark.conf`."""
    from support.spark import session as sessions

    session = sessions.start_session("local[2]")
    yield session
    sessions.stop_session(session)


@pytest.fixture(scope="session")
def references(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from support.spark.runs import References

    return References(spark, tmp_path_factory.mktemp)


@pytest.fixture
def unfenced(spark: Any) -> Iterator[None]:
    """A session that holds a lease fences what it writes from then on; afterwards it does not."""
    from cec_store.connectors.spark.takeover.tenure import FENCE_KEY

    yield
    spark.conf.unset(FENCE_KEY)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real HDFS of this machine; skips, or fails, where its jar is missing."""
    from support.stores.hdfs_cluster import hdfs_cluster

    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    """Of a real S3 server with a bucket; skips, or fails, where its packages are missing."""
    from support.stores.s3_server import s3_server

    with s3_server() as address:
        yield address


@pytest.fixture(params=["local", "s3"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Opens the store of an empty place: local files, or a bucket of a real S3 server."""
    from cec_store.storage.stores.by_url import store_at

    if request.param == "local":
        return lambda: store_at(tmp_path)
    from support.stores.s3_server import BUCKET, options_of

    address = request.getfixturevalue("s3_address")
    url = f"s3://{BUCKET}/{tmp_path.name}"
    return lambda: store_at(url, options_of(address))


@pytest.fixture
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty place for a queue of the layout that the test is run over."""
    from support.contract.layouts import layout_at

    return layout_at(request.param, tmp_path, lambda: request.getfixturevalue("s3_address"))
