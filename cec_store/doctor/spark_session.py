"""Settings that a Spark session would have here, and who has set each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import Spark, find_spark
from cec_store.connectors.spark.setup.environment import Variables
from cec_store.connectors.spark.setup.session import (
    SUBMIT,
    SUBMIT_OPTIONS,
    default_properties,
    properties_file,
    submitted_settings,
)
from cec_store.connectors.spark.setup.settings import (
    BUILT_IN,
    EXTENSIONS,
    JARS,
    PLUGINS,
    PROVIDER,
    PROVIDER_KEY,
)
from cec_store.connectors.spark.takeover.passive import STANDBY_OF
from cec_store.doctor.diagnoses import SettingInForce
from cec_store.errors import SparkUnavailable

_SHOWN = ("spark.sql.streaming.", "spark.dynamicAllocation.", "spark.decommission.", "spark.ui.")
_SHOWN_NAMES = {
    JARS, EXTENSIONS, PLUGINS, *SUBMIT_OPTIONS.values(), "spark.executor.extraClassPath",
    "spark.pyspark.python", "spark.sql.shuffle.partitions",
}  # fmt: skip
_VARIABLES = (
    "JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "XDG_CACHE_HOME", STANDBY_OF,
)  # fmt: skip
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
MASTER = "spark.master"
DEPLOY_MODE = "spark.submit.deployMode"


@dataclass(frozen=True)
class SparkSession:
    """Settings of a session that was not begun, as far as files, variables and options say them.

    What a program sets on its builder is not known; `--conf` of the verb stands for it.
    """

    settings: Mapping[str, SettingInForce]
    spark: Spark | None
    hidden: Mapping[str, SettingInForce] = field(default_factory=dict)
    """Settings of `spark-defaults.conf` in whose place others are."""
    problem: str = ""
    """Reason why a source of settings could not be read."""

    def value(self, name: str, default: str = "") -> str:
        """Return the value of a setting."""
        setting = self.settings.get(name)
        return default if setting is None else setting.value

    def source(self, name: str) -> str:
        """Return who has set a setting; it has to be set."""
        return self.settings[name].source

    def is_on(self, name: str) -> bool:
        """Return True if a setting that is off by default was set to true."""
        return self.value(name).strip().lower() == "true"

    @property
    def is_ours(self) -> bool:
        """True if new queries keep their state in cec-store."""
        return self.value(PROVIDER_KEY) == PROVIDER

    @property
    def is_on_cluster(self) -> bool:
        """True if executors are other processes, maybe on other machines."""
        master = self.value(MASTER)
        return bool(master) and not master.startswith("local")

    @property
    def cores(self) -> int | None:
        """Number of cores that load state at a restart; ``None`` where no setting says it."""
        if match := re.fullmatch(r"local\[(\d+)(,\d+)?\]", self.value(MASTER)):
            return int(match[1])
        per_executor, count = (
            self.value("spark.executor.cores"),
            self.value("spark.executor.instances"),
        )
        is_known = self.is_on_cluster and per_executor.isdecimal() and count.isdecimal()
        return int(per_executor) * int(count) if is_known else None

    def shown(self, variables: Variables) -> tuple[SettingInForce, ...]:
        """Return the settings and variables that matter here, in order of their names."""
        rows = [
            setting
            for name, setting in sorted(self.settings.items())
            if name.startswith(_SHOWN) or name in _SHOWN_NAMES
        ]
        if PROVIDER_KEY not in self.settings:
            rows.append(SettingInForce(PROVIDER_KEY, BUILT_IN["hdfs"], "Spark's default"))
        rows += [
            SettingInForce(name, variables[name], "the environment")
            for name in _VARIABLES
            if name in variables
        ]
        return tuple(rows)


def session_here(variables: Variables, given: Mapping[str, str]) -> SparkSession:
    """Return the settings of a session begun with these variables.

    `spark-defaults.conf` comes first, `PYSPARK_SUBMIT_ARGS` above it, and ``given`` above both.
    """
    spark, problem = None, ""
    with suppress(SparkUnavailable):
        spark = find_spark(variables)
    defaults: dict[str, str] = {}
    submitted: dict[str, str] = {}
    file = Path("spark-defaults.conf")
    try:
        file = properties_file(variables)
        defaults = default_properties(variables)
    except SparkUnavailable:
        problem = ""  # without Spark there is no such file, and nobody to read it
    except (OSError, ValueError) as error:
        problem = f"{file}: {error}"
    try:
        submitted = submitted_settings(variables.get(SUBMIT, ""))
    except ValueError as error:
        problem = f"{SUBMIT}: {error}"
    settings: dict[str, SettingInForce] = {}
    hidden: dict[str, SettingInForce] = {}
    for source, values in ((str(file), defaults), (SUBMIT, submitted), ("--conf", given)):
        for name, value in values.items():
            if name in settings and settings[name].value != value:
                hidden[name] = settings[name]
            settings[name] = SettingInForce(name, value, source)
    return SparkSession(settings, spark, hidden, problem)
