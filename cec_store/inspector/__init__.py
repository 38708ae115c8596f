"""Looks at queues, damaged ones too, and changes nothing, not even a lock or an index."""

from cec_store.inspector.damage.faults import ADVICE, Fault, Note
from cec_store.inspector.decoding.keys import KeyTest
from cec_store.inspector.decoding.plain_values import records_as_rows
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.measuring.extents import (
    ExtentReport,
    OpenWindow,
    OperatorState,
    inspect_extent,
)
from cec_store.inspector.measuring.totals import LogTotals
from cec_store.inspector.places.places import place_at
from cec_store.inspector.places.points import PointInTime, seq_at, version_at, version_before
from cec_store.inspector.showing.differences import Change, DiffSide, LogDiff, differences
from cec_store.inspector.showing.dump_filter import DumpFilter, parse_kinds
from cec_store.inspector.showing.dump_rows import DamageRow, FrameRow, NoteRow, Row
from cec_store.inspector.showing.dumping import dump
from cec_store.inspector.showing.place_dump import PlaceDump
from cec_store.inspector.showing.states import PlaceRows, StoreReader, WindowReader
from cec_store.inspector.verifying.place import (
    PlaceVerification,
    VerifiedLog,
    verify_place,
)
from cec_store.inspector.verifying.queue import Verification
from cec_store.inspector.verifying.state_log import verify

__all__ = [
    "ADVICE",
    "Change",
    "DamageRow",
    "DiffSide",
    "DumpFilter",
    "ExtentReport",
    "Fault",
    "FrameRow",
    "KeyTest",
    "LogDiff",
    "LogTotals",
    "Note",
    "NoteRow",
    "OpenWindow",
    "OperatorState",
    "PlaceDump",
    "PlaceRows",
    "PlaceVerification",
    "PointInTime",
    "RecordRow",
    "Row",
    "StoreReader",
    "Verification",
    "VerifiedLog",
    "WindowReader",
    "differences",
    "dump",
    "inspect_extent",
    "parse_kinds",
    "place_at",
    "records_as_rows",
    "seq_at",
    "verify",
    "verify_place",
    "version_at",
    "version_before",
]
