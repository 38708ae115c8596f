"""Giving the settings to a session: jars that are there already stay, a running JVM gets ours."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from cec_store.connectors.spark.setup.compiler import GROUP, find_spark
from cec_store.connectors.spark.setup.compiler import jar as compiled_jar
from cec_store.connectors.spark.setup.environment import VARIABLES, Variables
from cec_store.connectors.spark.setup.java import prepare_variables
from cec_store.connectors.spark.setup.settings import (
    DATA_SOURCE,
    EXTENSION,
    EXTENSIONS,
    JARS,
    PACKAGES,
    PLUGIN,
    PLUGINS,
    PREFIX,
    PROVIDER,
    PUSHDOWN_KEY,
    SETTINGS,
    TARGETS,
    check_names,
)
from cec_store.errors import CompilationFailed, SparkUnavailable
from cec_store.storage.mounts import warn_of_mount

SUBMIT = "PYSPARK_SUBMIT_ARGS"
"""A variable with the words that pyspark gives to spark-submit."""
_CONF_OPTIONS = ("--conf", "-c")
_PROPERTIES = "--properties-file"
_LOADS_DEFAULTS = "--load-spark-defaults"
SUBMIT_OPTIONS = {
    "--jars": JARS,
    "--master": "spark.master",
    "--deploy-mode": "spark.submit.deployMode",
    "--packages": PACKAGES,
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--num-executors": "spark.executor.instances",
}
"""Options of spark-submit that stand for a setting."""
_GROWING_LOADER = "org.apache.spark.util.MutableURLClassLoader"
# Spark names a jar that it took by --packages after its group as well.
_OURS = re.compile(rf"(?:{re.escape(GROUP)}_)?cec-store-spark-[^/]*\.jar")
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_IN_PIPELINE = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"
_log = logging.getLogger(__name__)

Builder = TypeVar("Builder")


def is_our_jar(path: str, *, anywhere: bool = False) -> bool:
    """Return True for the path of a jar of ours; ``anywhere``: for a list that has one in it."""
    if anywhere:
        return _OURS.search(path) is not None
    return _OURS.fullmatch(path.rsplit("/", 1)[-1]) is not None


def with_jar(jars: str, jar: str) -> str:
    """A value of `spark.jars` with our jar at its end, and no other version of it."""
    others = [path.strip() for path in jars.split(",")]
    kept = [path for path in others if path and not is_our_jar(path)]
    return ",".join([*kept, jar])


def with_class(classes: str, ours: str) -> str:
    """A value of `spark.plugins` or `spark.sql.extensions` with ours at its end, once."""
    others = [name.strip() for name in classes.split(",")]
    return ",".join([*[name for name in others if name and name != ours], ours])


def submit_arguments_with_jar(arguments: str, jar: str) -> str:
    """`PYSPARK_SUBMIT_ARGS` with our jar in the jars that it names; as it was if it names none.

    They stand behind what the builder sets on the launcher's command line, so they would win.
    """
    words = shlex.split(arguments)
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if before == "--jars":
            words[place] = with_jar(word, jar)
        elif word.startswith("--jars="):
            words[place] = "--jars=" + with_jar(word.removeprefix("--jars="), jar)
        elif word.startswith(f"--conf={JARS}="):
            words[place] = f"--conf={JARS}=" + with_jar(word.removeprefix(f"--conf={JARS}="), jar)
        elif before in ("--conf", "-c") and word.startswith(f"{JARS}="):
            words[place] = f"{JARS}=" + with_jar(word.removeprefix(f"{JARS}="), jar)
    changed = shlex.join(words)
    return arguments if changed == shlex.join(shlex.split(arguments)) else changed


def submitted_settings(arguments: str) -> dict[str, str]:
    """Return the settings that `PYSPARK_SUBMIT_ARGS` gives, by Spark's names.

    Raises:
        ValueError: quotes that do not end.
    """
    settings: dict[str, str] = {}
    words = iter(shlex.split(arguments))
    for word in words:
        option, equals, value = word.partition("=")
        if option in _CONF_OPTIONS:
            name, _, value = (value if equals else next(words, "")).partition("=")
            settings[name] = value
        elif option in SUBMIT_OPTIONS:
            settings[SUBMIT_OPTIONS[option]] = value if equals else next(words, "")
    return settings


def properties_file(variables: Variables) -> Path:
    """Path of the file of Spark's properties, there or not: that of `PYSPARK_SUBMIT_ARGS`, else
    `spark-defaults.conf`.

    Raises:
        SparkUnavailable: no Spark is installed, and no `SPARK_CONF_DIR` says where it is.
        ValueError: quotes that do not end in `PYSPARK_SUBMIT_ARGS`.
    """
    words = shlex.split(variables.get(SUBMIT, ""))
    for place, word in enumerate(words):
        if word == _PROPERTIES and place + 1 < len(words):
            return Path(words[place + 1])
        if word.startswith(f"{_PROPERTIES}="):
            return Path(word.removeprefix(f"{_PROPERTIES}="))
    return _defaults_file(variables)


def _defaults_file(variables: Variables) -> Path:
    folder = variables.get("SPARK_CONF_DIR") or find_spark(variables).jars.parent / "conf"
    return Path(folder) / "spark-defaults.conf"


def default_properties(variables: Variables) -> dict[str, str]:
    """Read the properties that Spark begins with, of :func:`properties_file`.

    Those of `spark-defaults.conf` stand behind those of another file only where
    `--load-spark-defaults` says so, as with spark-submit.
    """
    path, defaults = properties_file(variables), {}
    if _LOADS_DEFAULTS in shlex.split(variables.get(SUBMIT, "")):
        defaults = _properties_in(_defaults_file(variables))
    return defaults | _properties_in(path)


def _properties_in(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    # A backslash at the end of a line goes on in the next one, as in Java's properties.
    # Not in a comment, and not behind two backslashes, which are one.
    text = re.sub(r"(?m)^[ \t]*[#!].*$", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    lines = [line.strip() for line in text.splitlines()]
    pairs = [re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line[:1] not in "#!"]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def apply(
    builder: Builder,
    settings: dict[str, str],
    variables: MutableMapping[str, str] = VARIABLES,
) -> Builder:
    """Set them on a `SparkSession.builder`, and prepare what its JVM will need.

    Raises:
        ValueError: the builder holds a misspelt setting of ours, or another target.
        SparkUnavailable: a JVM is running already and cannot be made to load the provider; or, with
            replicas, a session that began without them.
    """
    options: dict[str, Any] = dict(getattr(builder, "_options", {}))
    defaults = default_properties(variables)
    ours = {name: value for name, value in defaults.items() if name.startswith(PREFIX)}
    check_names({**ours, **options, **settings})
    if PLUGINS in settings:
        _check_no_context_runs()
    prepare_variables(variables)
    jar = settings[JARS]
    _add_to_running_jvm(jar, variables)
    _forget_other_targets(settings)
    # What a builder sets hides the same name in spark-defaults.conf, and in spark-submit's words.
    defaults |= _submitted(variables)
    inherited = options.get(JARS) or defaults.get(JARS, "")
    for name in (PLUGINS, EXTENSIONS):
        if name in settings:
            others = options.get(name) or defaults.get(name, "")
            settings = {**settings, name: with_class(str(others), settings[name])}
    if EXTENSIONS in settings:
        _warn_if_context_lacks_extension()
    _warn_of_mount(str(options.get(_CHECKPOINTS) or defaults.get(_CHECKPOINTS, "")))
    if SUBMIT in variables:
        variables[SUBMIT] = submit_arguments_with_jar(variables[SUBMIT], jar)
    for name, value in {**settings, JARS: with_jar(str(inherited), jar)}.items():
        builder.config(name, value)  # type: ignore[attr-defined]
    return builder


def _submitted(variables: Variables) -> dict[str, str]:
    """Return the settings that spark-submit has or will have, where a JVM runs those that it has.

    pyspark sets a builder's options over them.
    """
    from pyspark import SparkContext

    if SparkContext._jvm is None:
        return submitted_settings(variables.get(SUBMIT, ""))
    conf: Any = SparkContext._jvm.SparkConf(True)
    names = (JARS, PLUGINS, EXTENSIONS)
    return {name: value for name in names if (value := conf.get(name, ""))}


def _forget_other_targets(settings: dict[str, str]) -> None:
    """Take back what an earlier call in this process has set as the extent's target.

    A session that is asked for again gets new settings and loses none, and its JVM keeps those that
    it was started with: two targets would be refused once a query starts.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    targets = {PREFIX + setting.name for setting in SETTINGS if setting.keyword in TARGETS}
    if not targets & settings.keys() or SparkContext._jvm is None:
        return
    running = SparkSession.getActiveSession()
    for name in targets - settings.keys():
        SparkContext._jvm.java.lang.System.clearProperty(name)
        if running is not None:
            running.conf.unset(name)


def _warn_of_mount(checkpoints: str) -> None:
    """Say once what is known of the mount of checkpoints, where the builder says where they are."""
    path = checkpoints.removeprefix("file:")
    if path.startswith("/"):
        warn_of_mount(path)


def _is_missing_in_context(name: str, ours: str) -> bool:
    """Return True if a session runs in this process and its setting ``name`` lacks ``ours``."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    return context is not None and ours not in context.getConf().get(name, "")


def _warn_if_context_lacks_extension() -> None:
    if _is_missing_in_context(EXTENSIONS, EXTENSION):
        _log.warning(
            "transformWithState needs %s, which Spark reads when a session begins, and one without "
            "it runs already: stop it first if a query needs that operator, or has a watermark: "
            "its batches read all of their state without",
            EXTENSIONS,
        )


def _check_no_context_runs() -> None:
    if _is_missing_in_context(PLUGINS, PLUGIN):
        raise SparkUnavailable(
            "replicas need a plugin, which Spark loads when a session begins, and one without it "
            "runs already: stop it first"
        )


def _add_to_running_jvm(jar: str, variables: Variables) -> None:
    """Make the provider known to a JVM that is up: `spark.jars` comes too late for its driver.

    So it is below spark-submit, and after an earlier session of this process, stopped or not.
    """
    from pyspark import SparkContext  # takes a while, and `conf` does not need it

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in variables:
        return
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    is_loadable = jvm.org.apache.spark.util.Utils.classIsLoadable
    if not is_loadable(PROVIDER):
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        if jvm.java.lang.Class.forName(_GROWING_LOADER).isInstance(loader):
            loader.addURL(jvm.java.io.File(jar).toURI().toURL())
        if not is_loadable(PROVIDER):
            raise SparkUnavailable(
                f"a Spark JVM is running already and does not know {PROVIDER}: start the process "
                "anew, or give spark-submit what `cec-store spark conf` prints"
            )
    context: Any = SparkContext._active_spark_context
    if context is not None:
        context._jsc.addJar(jar)  # to its executors; one that starts now takes spark.jars


def has_source_of_jar(session: Any, variables: Variables = VARIABLES) -> bool:
    """Return True if `format("cec")` of this session is the one in the jar.

    A JVM that runs without it is given it, if that is possible; a server of Spark Connect is not.
    """
    if not hasattr(session, "_jsparkSession"):
        return _is_known_to_server(session)
    is_loadable = session._jvm.org.apache.spark.util.Utils.classIsLoadable
    if is_loadable(DATA_SOURCE):
        return True
    if is_loadable(PROVIDER):
        _log.warning("Spark has an older jar of cec-store, without queues: leave it out")
        return False
    try:
        _add_to_running_jvm(str(compiled_jar(variables)), variables)
    except (SparkUnavailable, CompilationFailed) as error:
        _log.warning('format("cec") is the one in Python, as there is no jar: %s', error)
        return False
    return True


def has_python_sources(*, is_needed: bool) -> bool:
    """Return True if this pyspark takes streaming sources in Python with limits of a batch's rows.

    Raises:
        SparkUnavailable: they cannot, and are needed.
    """
    if find_spec("pyspark.sql.streaming.datasource") is not None:
        return True
    if is_needed:
        raise SparkUnavailable(
            'format("cec") in Python needs Spark 4.2 or newer: here it is in the jar alone, which '
            "this session lacks; start Spark with what `cec-store spark jar` prints"
        )
    return False


def _is_known_to_server(session: Any) -> bool:
    """Asked by a table that cannot be: only whoever does not know the format says nothing of it."""
    from pyspark.errors import PySparkException

    try:
        _ = session.read.format(DATA_SOURCE).load().schema
    except PySparkException as error:
        return error.getCondition() != "DATA_SOURCE_NOT_FOUND"
    return True


def allow_pushdown(session: Any) -> None:
    """Let Spark hand filters to sources in Python, which it does not do by default.

    The file of a declarative pipeline may not change its session: there a line in the log names the
    setting.
    """
    from pyspark.errors import PySparkException

    try:
        session.conf.set(PUSHDOWN_KEY, "true")
    except PySparkException as error:
        if not (error.getCondition() or "").startswith(_IN_PIPELINE):
            raise
        _log.info(
            "a pipeline's file sets nothing: for filters on time in cec_python put %s: true under "
            "configuration in its spark-pipeline.yml",
            PUSHDOWN_KEY,
        )
