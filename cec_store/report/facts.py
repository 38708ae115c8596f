"""Facts of a report about one log: its history, its open windows, and its damage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cec_store.errors import CecError, CorruptLog, OutOfRange
from cec_store.format.frame import FrameHeader
from cec_store.inspector.built_in.figures import StoreFigures, figures_of
from cec_store.inspector.built_in.store_files import StoreFiles
from cec_store.inspector.damage.faults import EFFECTS, Fault, is_note, located
from cec_store.inspector.decoding.records import Names, RecordDecoder
from cec_store.inspector.measuring.crash_costs import LogLoad
from cec_store.inspector.measuring.extents import extent_of, names_for, reader_at
from cec_store.inspector.measuring.footprint_statistics import (
    FootprintStatistics,
    footprint_statistics,
)
from cec_store.inspector.measuring.log_history import LogHistory, read_log_history
from cec_store.inspector.measuring.place_extents import At
from cec_store.inspector.measuring.reference_totals import reference_history
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.log.chain import QueueChain
from cec_store.queues.lags import ConsumerState, consumer_states
from cec_store.state_logs.key_directories import DirectoryLead, directory_to

_LOOKS = 4


@dataclass(frozen=True)
class Damage:
    """Damage that keeps something from being read."""

    log: str
    """Name of the log; empty for what belongs to none."""
    path: str
    byte: int
    what: str
    effect: str
    advice: str

    @classmethod
    def of_fault(cls, log: str, fault: Fault) -> Damage:
        """Return the damage that a fault of a verification is."""
        effect = fault.effect or EFFECTS[fault.kind]
        return cls(log, fault.path, fault.byte, fault.what, effect, fault.advice)

    @classmethod
    def of_error(cls, log: str, path: str, error: Exception) -> Damage:
        """Return the damage that an error names, or ``path`` where it names none."""
        advice = "`cec-store verify` lists all damage"
        effect = "this log is left out of the figures"
        if isinstance(error, CorruptLog):
            effect, advice = "readers stop here", error.advice or advice
        return cls(log, *located(error, path), effect, advice)


@dataclass
class LogFacts:
    """One log."""

    log: Log
    is_state: bool = False
    """True for the log of a state store."""
    at: At = None
    """Point in the log that the report is about, as the log calls it; ``None``: its end."""
    history: LogHistory = field(default_factory=LogHistory)
    last: FrameHeader | None = None
    """Header of the frame there."""
    footprints: FootprintStatistics | None = None
    """``None`` where no operator keeps windows in this log, or damage hides them."""
    is_operators: bool = False
    """True if an operator writes this log."""
    consumers: list[ConsumerState] = field(default_factory=list)
    """Present consumers of a queue."""
    decoder: RecordDecoder = field(default_factory=lambda: RecordDecoder(None))
    """Decoder of its keys, which are left in hex where what Spark noted cannot be read."""
    names: Names | None = None
    """Names of column families, where keys are decoded by them."""
    damage: list[Damage] = field(default_factory=list)
    directory: DirectoryLead | None = None
    """Key directory by which a state store is loaded; ``None``: the extent is read."""
    store: StoreFigures | None = None
    """Figures of the store, where one of Spark's own providers keeps it."""
    notes: list[str] = field(default_factory=list)
    """Reasons that keys are shown as they are stored though nothing is damaged."""

    @property
    def open_windows(self) -> int:
        """N; 0 where damage hides them."""
        return self.last.open_windows if self.last and self.footprints else 0

    @property
    def windows_max(self) -> int:
        """The largest N in the headers of the log."""
        counted = (s.open_windows for s in self.history.buckets)
        return max((n for n in counted if n is not None), default=0)

    @property
    def extent_records(self) -> int:
        """q; 0 where a part of it cannot be read."""
        return self.last.extent_records if self.last and self.footprints else 0

    @property
    def has_windows(self) -> bool:
        """True if its frames say how many windows are open."""
        last = self.last
        return self.is_operators and last is not None and last.is_counted

    @property
    def extent_bytes(self) -> int:
        """Stored bytes that a rebuild reads."""
        return sum(segment.extent_bytes for segment in self.history.segments)

    @property
    def extent_raw_bytes(self) -> int:
        """Bytes that a rebuild reads, after decompression."""
        return sum(segment.extent_raw_bytes for segment in self.history.segments)

    @property
    def load(self) -> LogLoad | None:
        """Load of the whole extent; ``None`` without windows, or where damage hides them."""
        if self.footprints is None:
            return None
        return LogLoad(
            self.log.operator, self.log.partition, self.extent_bytes, self.extent_raw_bytes,
            self.extent_records, self.replay_rows,
        )  # fmt: skip

    @property
    def restart_load(self) -> LogLoad | None:
        """Load of a restart, which may be by a key directory."""
        walk = self.load
        return None if walk is None else walk.by_directory(self.directory, self.open_windows)

    @property
    def replay_rows(self) -> int:
        """u; 0 of a state store, whose state at a version needs no input."""
        if self.footprints is None or self.is_state or not self.open_windows:
            return 0
        return int(self.footprints.replay_rows[0])


PartitionConsumers = Callable[[], Callable[[int], list[ConsumerState]]]
"""Reads a partitioned queue's consumers when first called, and gives those of a partition."""


def read_facts(place: Place, log: Log, at: At, consumers: PartitionConsumers) -> LogFacts:
    """Everything that can be read of one log; of a damaged one the sound rest.

    ``at`` as :func:`cec_store.inspector.measuring.overview.at_point` gives it.
    """
    facts = LogFacts(log)
    for looks_left in reversed(range(_LOOKS)):
        facts = LogFacts(log, place.has_versions)
        try:
            _read(facts, place, at, consumers)
        except (OutOfRange, FileNotFoundError) as error:
            if looks_left:
                continue  # trimmed or forgotten by a writer beside this inspection: look again
            facts.damage.append(Damage.of_error(log.name, log.folder.path, error))
        except CecError as error:
            facts.damage.append(Damage.of_error(log.name, log.folder.path, error))
        break
    facts.damage = without_repeats(facts.damage)
    return facts


def _read(facts: LogFacts, place: Place, at: At, consumers: PartitionConsumers) -> None:
    log = facts.log
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        facts.history, facts.last = reference_history(place, int(log.partition or 0))
        facts.damage += [Damage.of_fault(log.name, fault) for fault in facts.history.damage]
        facts.consumers = consumers()(int(log.partition or 0))
        return
    if place.is_built_in:
        facts.at = _named(facts, place, at)
        files = StoreFiles(log.folder)
        facts.store = figures_of(files)
        version = at if isinstance(at, int) else None
        unique_id = None if facts.at == version else str(facts.at)
        facts.store = facts.store.restarted(files, version, unique_id)
        return
    log_reader, last = None, None
    try:
        facts.at = _named(facts, place, at)
        log_reader, last = reader_at(log.folder, facts.at)
        facts.last = last.header if last is not None else None
        facts.is_operators = log_reader.schema().inputs > 0
        if last is not None and facts.has_windows:
            facts.footprints = footprint_statistics(log_reader, last)
            if facts.is_state:
                facts.directory = directory_to(log_reader, extent_of(log_reader, last))
    except OutOfRange:
        raise
    except CecError as error:
        facts.damage.append(Damage.of_error(log.name, log.folder.path, error))
    try:
        if isinstance(log_reader, QueueChain):  # a queue's
            facts.consumers = consumer_states(log_reader)
    except OutOfRange:
        raise
    except CecError as error:
        facts.damage.append(Damage.of_error(log.name, log.folder.path, error))
    try:
        facts.decoder = RecordDecoder(log.row_decoder)
        if facts.decoder.needs_names and log_reader is not None and facts.footprints is not None:
            keys = facts.footprints.keys()
            facts.names = names_for(facts.decoder, log_reader, last, keys)
    except CecError as error:  # keys are shown as they are stored
        if is_note(error):
            facts.notes.append(str(error))
        else:
            facts.damage.append(Damage.of_error("", place.path, error))
    extent_from = 2**63
    if facts.last is not None and facts.footprints is not None:
        extent_from = facts.last.end_offset - facts.last.extent_records
    facts.history = read_log_history(log.folder, log_reader, last, extent_from)
    facts.damage += [Damage.of_fault(log.name, fault) for fault in facts.history.damage]


def _named(facts: LogFacts, place: Place, at: At) -> At:
    """Return the log's name of a version of the place."""
    try:
        return place.at(facts.log, at)
    except CorruptLog as error:  # what Spark noted is damaged, but the log need not be
        facts.damage.append(Damage.of_error("", place.path, error))
        return at


def without_repeats(damage: list[Damage]) -> list[Damage]:
    """Return the damage with only the first entry for each position."""
    by_position: dict[tuple[str, int, str], Damage] = {}
    for item in damage:
        position = (item.path, item.byte, "" if item.path.endswith(".seg") else item.what)
        by_position.setdefault(position, item)
    return list(by_position.values())
