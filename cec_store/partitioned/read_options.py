"""The options of who reads a queue, by name and as texts: the Kafka source's, and so its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cec_store.format.schema import RecordKind
from cec_store.log.positions import Behind
from cec_store.log.selection import OUTPUT_KINDS
from cec_store.partitioned.offsets import BEHIND, EARLIEST, LATEST, Bound
from cec_store.storage.given_options import nested, value_of
from cec_store.values import to_timestamp_us

STORAGE = "storageoption."
"""Prefix of the options of a URL's file system, which follow as fsspec names them."""
_MAX_RECORDS_PER_PARTITION = 1_000_000
_DELAY_UNITS_S = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_KNOWN = (
    "path", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
    "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets",
    "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "consumer",
    "kinds", "includeMetadata", "followCheckpoint",
)  # fmt: skip
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_MOMENT = re.compile(
    r"[+-][0-9]{1,18}(?:us|ms|s|m|min|h|d|w)|[0-9]{1,18}(?:s|ms|us|ns)|now|today|yesterday"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]"
    r"(?::[0-5][0-9](?:\.[0-9]{1,9})?)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?",
    re.IGNORECASE | re.ASCII,
)
"""Moments that the source in the JVM reads as well: of ISO 8601 what most write."""
_SPARKS_OWN = {"checkpointlocation", "queryname", "outputmode"}


@dataclass(frozen=True)
class ReadOptions:
    """Options of a read, checked as far as they can be without the queue."""

    path: str
    storage: dict[str, Any]
    starting: Bound
    ending: Bound
    start_without_match_is_latest: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_s: float
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int
    consumer: str | None
    kinds: frozenset[RecordKind]
    include_metadata: bool
    follow_checkpoint: str | None
    """Checkpoint of another driver whose batches a stream takes; only for the source in the JVM."""

    @property
    def has_control_records(self) -> bool:
        return bool(self.kinds - OUTPUT_KINDS)


def parse(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Read the options of ``spark.read`` or ``spark.readStream``; names in any case.

    Raises:
        ValueError: an unknown name, or a value that is not allowed here; says what is.
    """
    given, storage = by_lower_name(options, _KNOWN)
    low, high = _number(given, "minOffsetsPerTrigger"), _number(given, "maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise ValueError(f"minOffsetsPerTrigger={low} is above maxOffsetsPerTrigger={high}")
    for name in _ENDS:
        if is_stream and name.lower() in given:
            raise ValueError(f"{name} is not valid in streaming queries")
    if not is_stream and "followcheckpoint" in given:
        raise ValueError("followCheckpoint is for streaming queries")
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy={strategy!r}: 'error' or 'latest'")
    starting = _bound(given, "starting", LATEST if is_stream else EARLIEST)
    ending = _bound(given, "ending", LATEST)
    if not is_stream:
        _refuse(starting, LATEST, "starting offset can't be latest for batch queries")
        _refuse(ending, EARLIEST, "ending offset can't be earliest for batch queries")
    return ReadOptions(
        given["path"], storage, starting, ending, strategy == "latest", high, low,
        _delay_s(given.get("maxtriggerdelay", "15m")), _flag(given, "failOnDataLoss", True),
        _number(given, "minPartitions"),
        _number(given, "maxRecordsPerPartition") or _MAX_RECORDS_PER_PARTITION,
        given.get("consumer"), _kinds(given.get("kinds", "data,result")),
        _flag(given, "includeMetadata", False), given.get("followcheckpoint"),
    )  # fmt: skip


def parse_for_columns(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a batch or a stream of which only the columns are wanted."""
    ends = {name.lower() for name in _ENDS}
    return parse({n: v for n, v in options.items() if n.lower() not in ends}, is_stream=True)


def by_lower_name(
    options: Mapping[str, str], known: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the options by lower-case name, a path among them, and those of its file system.

    Raises:
        ValueError: an option that there is not, or no path.
    """
    given = {name.lower(): value for name, value in options.items()}
    storage = [name for name in given if name.startswith(STORAGE)]
    values = nested((n.removeprefix(STORAGE), value_of(given.pop(n))) for n in storage)
    unknown = sorted(given.keys() - _SPARKS_OWN - {name.lower() for name in known})
    if unknown:
        raise ValueError(f"no option {unknown[0]!r}; there are {', '.join(known)}")
    if "path" not in given:
        raise ValueError("there is no path: give one by .option('path', path)")
    return given, values


_QUEUE_ID = re.compile("[0-9a-f]{32}")


def _bound(given: Mapping[str, str], side: str, default: int) -> Bound:
    """The most precise that is given wins: a timestamp, one for each partition, offsets."""
    name = f"{side}Timestamp"
    if name.lower() in given:
        return Bound(timestamp_us=_moment(name, given[name.lower()]))
    name = f"{side}OffsetsByTimestamp"
    if name.lower() in given:
        text = given[name.lower()]
        moments = _partitions(name, text, _parsed(text), given["path"])
        return Bound(timestamps_us={n: _moment(name, ms) for n, ms in moments.items()})
    name = f"{side}Offsets"
    text = given.get(name.lower(), "").strip()
    if text.lower() in ("earliest", "latest"):
        return Bound(everywhere=EARLIEST if text.lower() == "earliest" else LATEST)
    if not text:
        return Bound(everywhere=default)
    offsets, queue, behind = _position(name, text, given["path"])
    if any(offset < EARLIEST for offset in offsets.values()):
        raise ValueError(f"{name}: offsets are 0 or more, -1 for latest, -2 for earliest")
    return Bound(offsets=offsets, queue=queue, behind=behind)


def _position(name: str, text: str, path: str) -> tuple[dict[int, int], str, Behind | None]:
    """Return offsets, the queue's id and the commit, as far as the text says them."""
    parsed, behind = _parsed(text), None
    if isinstance(parsed, dict) and BEHIND in parsed:
        with suppress(ValueError, TypeError):  # then it is no partition either
            behind = Behind.of(parsed[BEHIND])
            del parsed[BEHIND]
    offsets = _partitions(name, text, parsed, path)
    outer = next(iter(parsed)) if len(parsed) == 1 else ""
    return offsets, outer if _QUEUE_ID.fullmatch(outer) else "", behind


def _refuse(bound: Bound, word: int, message: str) -> None:
    if bound.everywhere == word or word in (bound.offsets or {}).values():
        raise ValueError(message)


def _parsed(text: str) -> Any:
    """Return the JSON; ``None`` where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _partitions(name: str, text: str, parsed: Any, path: str) -> dict[int, int]:
    """Return numbers by partition; ``text`` is what was parsed, for the error.

    They may stand under the id of the queue or the last part of its path, as in Kafka under the
    name of a topic.
    """
    message = f'{name} is earliest, latest or JSON like {{"0":23,"1":-1}}, not {text!r}'
    if name.endswith("Timestamp"):
        message = f'{name} is JSON like {{"0":1000,"1":2000}}, not {text!r}'
    if (
        isinstance(parsed, dict)
        and len(parsed) == 1
        and isinstance(next(iter(parsed.values())), dict)
    ):
        ((outer, parsed),) = parsed.items()
        here = path.rstrip("/").rpartition("/")[2]
        if outer != here and not _QUEUE_ID.fullmatch(outer):
            raise ValueError(
                f"{name} is of {outer!r}, and this queue is {here!r}: name that, or its id, or "
                'give the partitions alone, {"0":23}'
            )
    if not isinstance(parsed, dict) or not all(
        re.fullmatch(r"\d+", number) and type(value) is int for number, value in parsed.items()
    ):
        raise ValueError(message)
    return {int(number): value for number, value in parsed.items()}


def _moment(name: str, value: str | int) -> int:
    """Microseconds of a moment, which is in milliseconds where it is a number alone."""
    text = str(value).strip()
    if re.fullmatch("[0-9]{1,15}", text):
        return int(text) * 1000
    if _MOMENT.fullmatch(text):
        with suppress(ValueError):
            return to_timestamp_us(text)
    raise ValueError(
        f"{name}: milliseconds since 1970, or a moment like -1h, yesterday or "
        f"2013-01-31T12:00:00Z, not {value!r}"
    )


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\s*0*[1-9]\d{0,17}\s*", text):
        raise ValueError(f"{name} is a whole number above 0, not {text!r}")
    return int(text)


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {text!r}")
    return text == "true"


def _delay_s(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] or "ms") not in _DELAY_UNITS_S:
        raise ValueError(f"maxTriggerDelay is a time like 30s or 15m, not {text!r}")
    return int(match[1]) * _DELAY_UNITS_S[match[2] or "ms"]


def _kinds(text: str) -> frozenset[RecordKind]:
    names = [name.strip().upper() for name in text.split(",")]
    if names == ["ALL"]:
        return frozenset(RecordKind)
    if not all(name in RecordKind.__members__ for name in names):
        known = ", ".join(kind.name.lower() for kind in RecordKind)
        raise ValueError(f"kinds={text!r}: all, or some of {known}")
    return frozenset(RecordKind[name] for name in names)
