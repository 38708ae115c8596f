"""Looks at queues, damaged ones too, and changes nothing, not even a lock or an index."""

from cec_store.inspector.damage.faults import ADVICE, Fault, Note
from cec_store.inspector.measuring.extents import (
    ExtentReport,
    OpenWindow,
    OperatorState,
    inspect_extent,
)
from cec_store.inspector.measuring.totals import Totals
from cec_store.inspector.places.places import place_at
from cec_store.inspector.places.points import Point, frame_at, version_at, version_before
from cec_store.inspector.showing.differences import Change, LogDiff, Side, differences
from cec_store.inspector.showing.dump_rows import DamageRow, FrameRow, NoteRow, RecordRow, Row
from cec_store.inspector.showing.dumping import dump
from cec_store.inspector.showing.place_dump import PlaceDump
from cec_store.inspector.showing.rows import records_as_rows
from cec_store.inspector.showing.selecting import DumpFilter, KeyTest, parse_kinds
from cec_store.inspector.showing.states import PlaceRows, StoreReader, WindowReader
from cec_store.inspector.verifying.place_verification import (
    LogVerification,
    PlaceVerification,
    verify_place,
)
from cec_store.inspector.verifying.state_verification import verify
from cec_store.inspector.verifying.verification import Verification

__all__ = [
    "ADVICE",
    "Change",
    "DamageRow",
    "DumpFilter",
    "ExtentReport",
    "Fault",
    "FrameRow",
    "KeyTest",
    "LogDiff",
    "LogVerification",
    "Note",
    "NoteRow",
    "OpenWindow",
    "OperatorState",
    "PlaceDump",
    "PlaceRows",
    "PlaceVerification",
    "Point",
    "RecordRow",
    "Row",
    "Side",
    "StoreReader",
    "Totals",
    "Verification",
    "WindowReader",
    "differences",
    "dump",
    "frame_at",
    "inspect_extent",
    "parse_kinds",
    "place_at",
    "records_as_rows",
    "verify",
    "verify_place",
    "version_at",
    "version_before",
]
