"""Rules of docs/spark.md for the settings of a Spark session, which tell what is wrong early."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import GROUP, coordinates, jar_name
from cec_store.connectors.spark.setup.session import is_our_jar
from cec_store.connectors.spark.setup.settings import (
    BUILT_IN,
    EXTENSION,
    EXTENSIONS,
    JARS,
    PACKAGES,
    PLUGIN,
    PLUGINS,
    PREFIX,
    PROVIDER,
    PROVIDER_KEY,
    PUSHDOWN_KEY,
    STORE_PREFIX,
    check_names,
    check_texts,
    has_effect,
)
from cec_store.connectors.spark.takeover.passive import STANDBY_OF
from cec_store.connectors.spark.takeover.tenure import FENCE, FENCE_KEY
from cec_store.doctor.diagnoses import Diagnosis, fault, note, sound
from cec_store.doctor.spark_session import CHECKPOINTS, DEPLOY_MODE, MASTER, SparkSession
from cec_store.storage.mounts import mount_of
from cec_store.storage.paths import is_url

_PRINTS = "`cec-store spark conf` prints all that is needed"
_CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_REPORTS = f"{STORE_PREFIX}coordinatorReportSnapshotUploadLag"
_FORCED = f"{STORE_PREFIX}forceSnapshotUploadOnLag"
_ALLOCATION = "spark.dynamicAllocation"
_HADOOP_WITH_CREATES = (3, 4, 2)


def session_lines(session: SparkSession, standby_of: str | None) -> Iterator[Diagnosis]:
    """Yield the lines about a session; ``standby_of``: the checkpoint that it is a standby of."""
    if session.problem:
        yield fault("settings", session.problem, "mend that file or variable")
    yield from _own_settings(session)
    yield from _provider(session)
    if session.is_ours:
        for rule in (_jar, _extension, _replicas, _foreign_settings):
            yield from rule(session)
    yield from _checkpoints(session)
    yield from _standby(session, standby_of)
    yield from _metrics(session)


def _set_by(session: SparkSession, name: str) -> str:
    return f"{name}={session.value(name)} (set by {session.source(name)})"


# -- the provider -----------------------------------------------------------------------------


def _own_settings(session: SparkSession) -> Iterator[Diagnosis]:
    """Yield what the provider would refuse when a query starts."""
    texts = {name: setting.value for name, setting in session.settings.items()}
    for check in (check_names, check_texts):
        try:
            check(texts)
        except ValueError as error:
            advice = "set it as docs/spark.md says, or leave it out: no query starts with it"
            yield fault("settings", str(error), advice)
    own = [name for name in texts if name.startswith(PREFIX)]
    if own and not session.is_ours:
        what = f"{', '.join(sorted(own))}: set, but {PROVIDER_KEY} is not {PROVIDER}"
        yield fault("settings", what, f"set {PROVIDER_KEY}={PROVIDER}; {_PRINTS}")
    if texts.get(f"{PREFIX}syncMode") == "none":
        what = "commits do not wait for the disk: a power cut may cost the last ones"
        advice = "set it to commit, unless the query can begin from an earlier batch"
        yield note("settings", f"{_set_by(session, f'{PREFIX}syncMode')}: {what}", advice)
    if texts.get(f"{PREFIX}checkTimeMs", "").strip() == "0":
        what = "nothing bounds what a restart reads"
        yield note(
            "settings",
            f"{_set_by(session, f'{PREFIX}checkTimeMs')}: {what}",
            "leave it at its default of 100",
        )


def _provider(session: SparkSession) -> Iterator[Diagnosis]:
    provider = session.value(PROVIDER_KEY, BUILT_IN["hdfs"])
    if session.is_ours:
        yield sound("settings", f"new queries keep their state in cec-store ({PROVIDER_KEY})")
    elif provider in BUILT_IN.values():
        by = f", set by {session.source(PROVIDER_KEY)}" if PROVIDER_KEY in session.settings else ""
        what = f"new queries keep their state in {provider.rsplit('.', 1)[-1]}{by}"
        yield note("settings", what, f"call spark.configure in the program; or {_PRINTS}")
    else:
        advice = f"set it to {PROVIDER}, or leave it out"
        what = f"{_set_by(session, PROVIDER_KEY)}: neither cec-store's provider nor one of Spark's"
        yield fault("settings", what, advice)


def _foreign_settings(session: SparkSession) -> Iterator[Diagnosis]:
    """Yield settings of Spark's own stores that change nothing, or go only together."""
    is_reported = session.value(_REPORTS, "true").strip().lower() != "false"
    if not is_reported and session.value(_FORCED, "true").strip().lower() != "false":
        what = f"{_set_by(session, _REPORTS)}: Spark 4.3 takes that only with {_FORCED}=false"
        yield fault("settings", what, f"set {_FORCED}=false as well, or leave it out")
    if session.value(PUSHDOWN_KEY, "true").strip().lower() == "false":
        what = f"{_set_by(session, PUSHDOWN_KEY)}: cec_python reads all rows where a time is asked"
        yield note("settings", what, f"set {PUSHDOWN_KEY}=true")
    without = sorted(
        name for name, setting in session.settings.items() if not has_effect(name, setting.value)
    )
    if without:
        what = f"{', '.join(without)}: of Spark's own stores, and without effect here"
        yield note("settings", what, "leave them out; docs/spark.md says what stands for each")


# -- the jar ----------------------------------------------------------------------------------


def _jar(session: SparkSession) -> Iterator[Diagnosis]:
    jars = [jar.strip() for jar in session.value(JARS).split(",") if jar.strip()]
    ours = [jar for jar in jars if is_our_jar(jar)]
    add = f"add it to {JARS}: {_PRINTS}"
    packages = [package.strip() for package in session.value(PACKAGES).split(",")]
    if ours_by_name := [name for name in packages if name.startswith(f"{GROUP}:cec-store-spark-")]:
        yield from _packages(session, ours_by_name, ours)
        return
    if not ours:
        by_class_path = [n for n in _CLASS_PATHS if is_our_jar(session.value(n), anywhere=True)]
        hidden = session.hidden.get(JARS)
        if hidden is not None and is_our_jar(hidden.value, anywhere=True):
            what = (
                f"{JARS} of {session.source(JARS)} hides that of {hidden.source}, which has "
                "cec-store's jar"
            )
            yield fault("jar", what, "add $(cec-store spark jar) to the list that is taken")
        elif by_class_path == ["spark.driver.extraClassPath"]:
            what = f"{by_class_path[0]} has cec-store's jar, and executors do not get it"
            yield fault("jar", what, add)
        elif len(by_class_path) < len(_CLASS_PATHS):
            what = f"no jar of cec-store in {JARS}: the driver ends with ClassNotFoundException"
            yield fault("jar", what, add)
        return
    if len(ours) > 1:
        what = f"{JARS} has several jars of cec-store: {', '.join(ours)}"
        yield fault("jar", what, "leave the one for this Spark")
    for jar in ours:
        yield from _one_jar(session, jar)


def _packages(session: SparkSession, names: list[str], jars: list[str]) -> Iterator[Diagnosis]:
    """Yield what is wrong with jars of ours that Spark takes from a Maven repository."""
    if len(names) + len(jars) > 1:
        what = f"several jars of cec-store: {', '.join([*names, *jars])}"
        yield fault("jar", what, f"leave the one for this Spark, in {PACKAGES} or in {JARS}")
    if session.spark is None:
        return
    due = coordinates(session.spark.version)
    for name in names:
        if name.split(":")[1] != due.split(":")[1]:
            what = (
                f"{name}, in {PACKAGES}, is for another Spark than the {session.spark.version} here"
            )
            yield fault("jar", what, f"take {due}")


def _one_jar(session: SparkSession, jar: str) -> Iterator[Diagnosis]:
    path = jar.removeprefix("file://").removeprefix("file:")
    if not is_url(jar) and not path.startswith("local:") and not Path(path).is_file():
        what = f"{jar}, in {JARS} of {session.source(JARS)}: there is no such file"
        yield fault("jar", what, f"`cec-store spark jar --into {Path(path).parent}` makes it")
        return
    if session.spark is not None and (due := jar_name(session.spark)) != jar.rpartition("/")[2]:
        what = f"{jar}, in {JARS}, is for another Spark than the {session.spark.version} here"
        yield fault("jar", what, f"take {due}: `cec-store spark jar --into FOLDER` makes it")


def _extension(session: SparkSession) -> Iterator[Diagnosis]:
    if EXTENSION not in [name.strip() for name in session.value(EXTENSIONS).split(",")]:
        what = f"{EXTENSIONS} lacks {EXTENSION}: Spark refuses transformWithState, and batches with"
        advice = f"add it, before the session begins; {_PRINTS}"
        yield fault("settings", f"{what} a watermark read all of their state", advice)


# -- replicas ---------------------------------------------------------------------------------


def _replicas(session: SparkSession) -> Iterator[Diagnosis]:
    replicas = session.value(f"{PREFIX}replicas", "0").strip()
    if replicas == "0":
        if session.is_on("spark.decommission.enabled"):
            what = "spark.decommission.enabled without replicas: state of an executor that goes is "
            yield note("settings", f"{what}loaded again", "set replicas=1, see docs/spark-replicas")
        return
    what = f"{PREFIX}replicas={replicas}"
    if PLUGIN not in [name.strip() for name in session.value(PLUGINS).split(",")]:
        advice = f"add {PLUGIN} to {PLUGINS} before the application begins; {_PRINTS}"
        yield fault("settings", f"{what} without its plugin: no query starts", advice)
    if session.is_on(f"{STORE_PREFIX}unloadOnCommit.enabled"):
        advice = f"leave out {STORE_PREFIX}unloadOnCommit.enabled"
        yield fault("settings", f"{what} and unloadOnCommit: there are no replicas then", advice)
    if not session.is_on_cluster and session.value(MASTER):
        advice = "leave replicas out, or use a cluster"
        yield note("settings", f"{what} with {session.value(MASTER)}: no replica there", advice)
    allocates = session.is_on(f"{_ALLOCATION}.enabled")
    kept = {f"{_ALLOCATION}.minExecutors", f"{_ALLOCATION}.executorIdleTimeout"}
    if allocates and not kept & session.settings.keys():
        advice = f"set {_ALLOCATION}.minExecutors to as many as hold state and replicas"
        yield fault(
            "settings",
            f"{what} with dynamic allocation: executors that hold only replicas are taken away",
            advice,
        )


# -- checkpoints ------------------------------------------------------------------------------


def _checkpoints(session: SparkSession) -> Iterator[Diagnosis]:
    path = session.value(CHECKPOINTS)
    if not path:
        return
    what = _set_by(session, CHECKPOINTS)
    local = path.removeprefix("file://").removeprefix("file:")
    if not is_url(path):
        if not local.startswith("/"):
            advice = "give a whole path or a URL"
            whose = "user's folder of the cluster" if session.is_on_cluster else "working folder"
            severity = fault if session.is_on_cluster else note
            yield severity("path", f"{what}: relative, below the {whose}", advice)
        elif (line := not_seen_by_executors(session, local)) is not None:
            yield line
        mount = mount_of(local)
        if mount is not None and (risk := mount.risk()) is not None:
            severity = fault if mount.loses else note
            advice = "keep checkpoints on a disk, in HDFS or in an object store"
            yield severity("file system", f"{what}: on {mount}: {risk}", advice)
    elif path.startswith("s3a:"):
        yield from _s3a(session, what)


def not_seen_by_executors(session: SparkSession, path: str) -> Diagnosis | None:
    """Return a line where a path is on this machine's disk, and executors may be on others."""
    if not session.is_on_cluster or session.value(MASTER).startswith("local-cluster"):
        return None
    mount = mount_of(path)
    if mount is None or mount.is_remote:
        return None
    what = f"{path} is on a disk of this machine, and {MASTER} is {session.value(MASTER)}"
    advice = "put checkpoints and queues where all machines see them: HDFS, or an object store"
    return note("file system", f"{what}: executors on other machines do not see it", advice)


def _s3a(session: SparkSession, what: str) -> Iterator[Diagnosis]:
    jars = f"{session.value(JARS)},{session.value(PACKAGES)}"
    installed = [] if session.spark is None else [p.name for p in session.spark.jars.glob("*.jar")]
    if "hadoop-aws" not in jars and not any(n.startswith("hadoop-aws") for n in installed):
        version = _hadoop(installed)
        package = f"org.apache.hadoop:hadoop-aws:{'.'.join(map(str, version)) or 'VERSION'}"
        advice = f"give spark-submit --packages {package}"
        yield fault("spark", f"{what}: hadoop-aws is missing, by which Spark reaches S3", advice)
    if (version := _hadoop(installed)) and version < _HADOOP_WITH_CREATES:
        dotted = ".".join(map(str, version))
        why = f"Hadoop {dotted} creates no object on a condition, so that queues in S3 are refused"
        yield note("spark", why, "use Spark 4.1 or newer; or singleWriter=true, docs/stores.md")


def _hadoop(jars: list[str]) -> tuple[int, ...]:
    """Return the version of Hadoop among Spark's jars; empty where it is not known."""
    for name in jars:
        if match := re.fullmatch(r"hadoop-client-api-(\d+)\.(\d+)\.(\d+).*\.jar", name):
            return tuple(map(int, match.groups()))
    return ()


# -- standbys and metrics ---------------------------------------------------------------------


def _standby(session: SparkSession, standby_of: str | None) -> Iterator[Diagnosis]:
    fence = session.value(FENCE_KEY, FENCE)
    if fence != FENCE:
        severity = fault if standby_of else note
        what = f"{_set_by(session, FENCE_KEY)}: a query of that session can have no standby"
        yield severity("settings", what, f"leave {FENCE_KEY} out where it is to have one")
    if standby_of and session.value(DEPLOY_MODE) == "cluster":
        what = (
            f"{STANDBY_OF}={standby_of}, and the driver would run elsewhere (deploy mode cluster)"
        )
        yield fault("settings", what, "give its spark-submit --deploy-mode client")


def _metrics(session: SparkSession) -> Iterator[Diagnosis]:
    is_served = session.is_on("spark.ui.prometheus.enabled")
    if is_served and not session.is_on("spark.sql.streaming.metricsEnabled"):
        what = "spark.ui.prometheus.enabled without spark.sql.streaming.metricsEnabled: no figures "
        advice = "set spark.sql.streaming.metricsEnabled=true"
        yield note("settings", f"{what}of streaming queries are served", advice)
