"""Looks at queues, damaged ones too, and changes nothing, not even a lock or an index."""

from cec_store.inspector.dumping import (
    DamageRow,
    DumpFilter,
    FrameRow,
    RecordRow,
    dump,
    parse_kinds,
)
from cec_store.inspector.extents import ExtentReport, OperatorState, Totals, inspect_extent
from cec_store.inspector.faults import ADVICE, Fault, Note
from cec_store.inspector.rows import records_as_rows
from cec_store.inspector.state_verification import verify
from cec_store.inspector.verification import Verification

__all__ = [
    "ADVICE",
    "DamageRow",
    "DumpFilter",
    "ExtentReport",
    "Fault",
    "FrameRow",
    "Note",
    "OperatorState",
    "RecordRow",
    "Totals",
    "Verification",
    "dump",
    "inspect_extent",
    "parse_kinds",
    "records_as_rows",
    "verify",
]
