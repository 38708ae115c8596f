"""The provider's settings: names, defaults, what is allowed, and how they are given to Spark.

The provider checks names and ranges at query start; here a mistake is met where it is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from operator import index

from cec_store.state_logs.sizing import EXTENT_FACTORS
from cec_store.values import SPARKS_SIZE_UNITS, parse_size

PROVIDER = "org.apache.spark.sql.cecstore.CecStateStoreProvider"
DATA_SOURCE = "org.apache.spark.sql.cecstore.CecDataSource"
"""Class of `format("cec")` in a JVM with our jar."""
BUILT_IN = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
"""Classes of Spark's own providers, by the names that options take."""
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
PREFIX = "spark.sql.streaming.stateStore.cec."
JARS = "spark.jars"
PACKAGES = "spark.jars.packages"
PLUGIN = "org.apache.spark.sql.cecstore.CecPlugin"
PLUGINS = "spark.plugins"
EXTENSION = "org.apache.spark.sql.cecstore.CecExtensions"
EXTENSIONS = "spark.sql.extensions"
PUSHDOWN_KEY = "spark.sql.python.filterPushdown.enabled"
"""Setting by which Spark hands filters to Python data sources: time filters narrow our reads."""
_RECORDS_MAX = 2**63 // 4 - 1  # room for sums of them


@dataclass(frozen=True)
class Setting:
    """One setting: its keyword in Python, its name in Spark, and the text of a value for Spark."""

    keyword: str
    name: str
    allowed: str
    as_text: Callable[[object], str | None]
    """None: not allowed. May raise TypeError, ValueError or OverflowError to say the same."""
    is_flag: bool = False
    """True where the value is True or False, which all others refuse."""

    def text(self, value: object) -> str:
        """The value as Spark gets it.

        Raises:
            ValueError: it is not allowed; says what is.
        """
        try:
            text = self.as_text(value) if isinstance(value, bool) == self.is_flag else None
        except (TypeError, ValueError, OverflowError):
            text = None
        if text is None:
            raise ValueError(f"{self.keyword} must be {self.allowed}, not {value!r}")
        return text

    def check(self, text: str) -> None:
        """Check a text that Spark has for it, which the provider would refuse at query start.

        Raises:
            ValueError: it is not allowed; says what is.
        """
        read = _FROM_TEXT.get(self.name, int)
        try:
            value = read(text.strip())
        except ValueError:
            raise ValueError(f"{self.keyword} must be {self.allowed}, not {text!r}") from None
        self.text(value)


def _whole(least: int, most: int) -> Callable[[object], str | None]:
    def as_text(value: object) -> str | None:
        number = index(value)  # type: ignore[arg-type]  # a TypeError is what it is for
        return str(number) if least <= number <= most else None

    return as_text


def _factor(value: object) -> str | None:
    number = float(value)  # type: ignore[arg-type]
    return str(number) if EXTENT_FACTORS[0] <= number <= EXTENT_FACTORS[1] else None


def _milliseconds(value: object) -> str | None:
    ms = math.floor(float(value) * 1000)  # type: ignore[arg-type]  # rather too early than too late
    return str(ms) if 100 <= ms <= 24 * 3600 * 1000 else None


def _bytes(least: int, most: int) -> Callable[[object], str | None]:
    def as_text(value: object) -> str | None:
        if isinstance(value, str):
            value = parse_size(value, SPARKS_SIZE_UNITS)
        return _whole(least, most)(value)

    return as_text


def _sparks_size(text: str) -> str:
    """The text, which Spark reads without blanks, fractions and exponents."""
    if re.fullmatch("[0-9]+[A-Za-z]*", text) is None:
        raise ValueError(f"{text!r} is no size to Spark")
    return text


def _mode(value: object) -> str | None:
    return str(value) if value in ("commit", "none") else None


def _flag(value: object) -> str:
    return str(value).lower()


def _sparks_flag(text: str) -> bool:
    """True or False, of Spark's text."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


SETTINGS = (
    Setting("recovery_time_s", "recoveryTimeMs", "0.1 to 86,400 (seconds)", _milliseconds),
    Setting("extent_factor", "extentFactor", "1.25 to 1000", _factor),
    Setting(
        "extent_max_records", "extentMaxRecords", "1 or more (records)", _whole(1, _RECORDS_MAX)
    ),
    Setting("check_time_ms", "checkTimeMs", "0 to 3,600,000 (milliseconds)", _whole(0, 3_600_000)),
    Setting("sync_mode", "syncMode", "'commit' or 'none'", _mode),
    Setting("compression_level", "compressionLevel", "0 (none) to 19", _whole(0, 19)),
    Setting(
        "segment_bytes",
        "segmentBytes",
        "64 KiB to 1 GiB, in bytes or like '64m' or '64MiB'",
        _bytes(64 << 10, 1 << 30),
    ),
    Setting(
        "memory_bytes",
        "memoryBytes",
        "0 to 1 PiB, in bytes or like '512m' or '512MiB'",
        _bytes(0, 1 << 50),
    ),
    Setting("key_directories", "keyDirectories", "True or False", _flag, is_flag=True),
    Setting("check_directories", "checkDirectories", "True or False", _flag, is_flag=True),
    Setting("replicas", "replicas", "0 to 100 (executors)", _whole(0, 100)),
    Setting(
        "replica_memory_bytes",
        "replicaMemoryBytes",
        "0 to 1 PiB, in bytes or like '512m' or '512MiB'",
        _bytes(0, 1 << 50),
    ),
    Setting(
        "replica_warm_lag_versions",
        "replicaWarmLagVersions",
        "0 to 1,000,000 (versions)",
        _whole(0, 1_000_000),
    ),
    Setting("replica_warm_ups", "replicaWarmUps", "0 to 10,000 (replicas)", _whole(0, 10_000)),
)
_FROM_TEXT: dict[str, Callable[[str], object]] = {
    "recoveryTimeMs": lambda text: int(text) / 1000,
    "extentFactor": float,
    "syncMode": str,
    "segmentBytes": _sparks_size,
    "memoryBytes": _sparks_size,
    "keyDirectories": _sparks_flag,
    "checkDirectories": _sparks_flag,
    "replicaMemoryBytes": _sparks_size,
}
"""Values that Python takes, from Spark's texts of them; whole numbers are not named."""
STORE_PREFIX = "spark.sql.streaming.stateStore."
ENCODING_KEY = f"{STORE_PREFIX}encodingFormat"
AVRO = "avro"
"""Value of :data:`ENCODING_KEY` with which the rows of a `transformWithState` are in Avro."""
WITHOUT_EFFECT = (
    "compression.codec",
    "rowChecksum.enabled",
    "rowChecksum.readVerificationRatio",
    "fileChecksumThreadPoolSize",
    "autoSnapshotRepair.enabled",
    "autoSnapshotRepair.numFailuresBeforeActivating",
    "autoSnapshotRepair.maxChangeFileReplay",
    "forceSnapshotUploadOnLag",
)
"""Settings of Spark's own stores that change nothing, as `rocksdb.…` do; SparksSettings.scala."""
_IN_MEMORY = "spark.sql.streaming.maxBatchesToRetainInMemory"
TARGETS = ("recovery_time_s", "extent_factor", "extent_max_records")


def spark_settings(given: Mapping[str, object]) -> dict[str, str]:
    """Spark's names and values for the keywords that are not None.

    Raises:
        ValueError: an unknown keyword, a value that is not allowed, or two targets for one extent.
    """
    by_keyword = {setting.keyword: setting for setting in SETTINGS}
    for keyword in given:
        if keyword not in by_keyword:
            raise ValueError(f"{keyword} is no setting{_suggestion(keyword, by_keyword)}")
    chosen = {keyword: value for keyword, value in given.items() if value is not None}
    targets = [keyword for keyword in TARGETS if keyword in chosen]
    if len(targets) > 1:
        raise ValueError(f"{' and '.join(targets)} each bound the extent: give one of them")
    return {
        PREFIX + setting.name: setting.text(chosen[setting.keyword])
        for setting in SETTINGS
        if setting.keyword in chosen
    }


def session_settings(
    jar: str, chosen: Mapping[str, str], has_extension: bool = True, by: str = JARS
) -> dict[str, str]:
    """All that a session needs: the provider, its jar, what is chosen for it, and the source.

    ``jar`` is the value of the setting ``by``: a path, or with ``PACKAGES`` Maven's coordinates.

    The extension for `transformWithState` and watermarks, where the jar has it. With replicas the
    plugin as well. Only a session that is not there yet can load these two.
    """
    needed = {PROVIDER_KEY: PROVIDER, by: jar, PUSHDOWN_KEY: "true", **chosen}
    if has_extension:
        needed[EXTENSIONS] = EXTENSION
    if chosen.get(PREFIX + "replicas", "0") != "0":
        needed[PLUGINS] = PLUGIN
    return needed


def check_names(names: Iterable[str]) -> None:
    """Refuse what a builder holds and the provider would refuse only when a query starts.

    Raises:
        ValueError: a misspelt name, with the one that was probably meant, or two targets.
    """
    names = set(names)
    targets = [s.name for s in SETTINGS if s.keyword in TARGETS and PREFIX + s.name in names]
    if len(targets) > 1:
        raise ValueError(f"{' and '.join(targets)} each bound the extent: give one of them")
    known = {PREFIX + setting.name for setting in SETTINGS}
    for name in sorted(names):
        if name.lower().startswith(PREFIX.lower()) and name not in known:
            raise ValueError(f"{name} is no setting{_suggestion(name, known)}")


def check_texts(texts: Mapping[str, str]) -> None:
    """Refuse texts of our settings that the provider would refuse only when a query starts.

    Raises:
        ValueError: a text that is not allowed; says what is.
    """
    for setting in SETTINGS:
        if PREFIX + setting.name in texts:
            setting.check(texts[PREFIX + setting.name])


def has_effect(name: str, value: str) -> bool:
    """Return False for a setting of Spark's own stores that asks our provider for nothing."""
    if name == _IN_MEMORY:
        return False
    own = name.removeprefix(STORE_PREFIX)
    is_without = own in WITHOUT_EFFECT or own.startswith("rocksdb.")
    return not (name.startswith(STORE_PREFIX) and is_without) or value.lower() == "false"


def _suggestion(name: str, known: Iterable[str]) -> str:
    by_lower = {known_name.lower(): known_name for known_name in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]}?" if close else f"; there are {', '.join(known)}"
