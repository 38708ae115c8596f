"""Records: Arrow batches of data and control records, and their bytes. docs/format.md §6."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

import pyarrow as pa

from cec_store.errors import SchemaMismatch
from cec_store.format.arrow_limits import ARROW_ERRORS
from cec_store.format.arrow_values import as_bytes, stored_field
from cec_store.format.frame import BadHeader
from cec_store.format.same_types import are_same_fields

KIND, TIMESTAMP, KEY, STATE = "_kind", "_timestamp", "_key", "_state"
DETERMINANT = "_determinant"
DETERMINANT_TYPE = pa.struct(
    [("arrivals", pa.list_(pa.int32())), ("clock_us", pa.int64()), ("seed", pa.int64())]
)
TIMESTAMP_TYPE = pa.timestamp("us", "UTC")
_TIMESTAMP_COLUMN, _KEY_COLUMNS = b"cec.timestamp_column", b"cec.key_columns"


class RecordKind(IntEnum):
    """Kind of a record. Frozen on disk: never renumber, never reuse.

    Examples:
        >>> kinds = {RecordKind.OPEN, RecordKind.CHECK, RecordKind.RESULT}
        >>> read_queue("queues/trades", kinds=kinds).read_all().num_rows
        0
    """

    DATA = 1
    """Output that closes no window, such as a filter's."""
    OPEN = 2
    """First footprint of a window: its state at the end of the step that opened it."""
    CHECK = 3
    """Later footprint of an open window."""
    RESULT = 4
    """The window's result; it closes the window."""
    DETERMINANT = 5
    """Decisions of chance in a step: order of arrival, clock, seed."""
    GAP = 6
    """The operator has lost its state: no window is open, and input before it was skipped."""
    MERGED = 7
    """The window has closed without a result, because it went into another one."""


def input_column(number: int) -> str:
    """Name of the column with the next unread offset of input ``number``."""
    return f"_input_{number}"


@dataclass(frozen=True)
class RecordSchema:
    """The columns of a stream: the user's, some of which may be keys, and those of checkpoints.

    Examples:
        >>> schema = RecordSchema(pa.schema([("at", pa.timestamp("us"))]), timestamp_column="at")
        >>> open_queue("moments", "x", schema=schema).close()
    """

    data: pa.Schema
    key: pa.Schema | None = None
    state: pa.Schema | None = None
    inputs: int = 0
    timestamp_column: str | None = None
    key_columns: tuple[str, ...] = ()
    determinants: bool = False
    """True if there are records of decisions of chance."""
    arrow: pa.Schema = field(init=False, compare=False)
    """The record schema as stored."""
    checked: pa.Schema = field(init=False, compare=False, repr=False)
    """The types as which stored records are checked: bytes in place of strings."""

    def __post_init__(self) -> None:
        for part in ("data", "key", "state"):
            object.__setattr__(self, part, _stored(getattr(self, part)))
        # Those of another queue, if the schema was read from one.
        metadata = dict(self.data.metadata or {})
        own = {
            name: metadata[name]
            for name in metadata
            if name not in (_TIMESTAMP_COLUMN, _KEY_COLUMNS)
        }
        object.__setattr__(self, "data", self.data.with_metadata(own or None))
        self._check()
        columns = [pa.field(KIND, pa.uint8()), pa.field(TIMESTAMP, TIMESTAMP_TYPE)]
        columns += [pa.field(input_column(i), pa.int64()) for i in range(self.inputs)]
        if self.key is not None:
            columns.append(pa.field(KEY, pa.struct(list(self.key))))
        if self.state is not None:
            columns.append(pa.field(STATE, pa.struct(list(self.state))))
        if self.determinants:
            columns.append(pa.field(DETERMINANT, DETERMINANT_TYPE))
        if self.has_footprints:
            # A footprint has none of the user's columns.
            object.__setattr__(self, "data", _nullable(self.data))
        columns += list(self.data)
        metadata = own
        if self.timestamp_column is not None:
            metadata[_TIMESTAMP_COLUMN] = self.timestamp_column.encode()
        if self.key_columns:
            metadata[_KEY_COLUMNS] = json.dumps(self.key_columns).encode()
        object.__setattr__(self, "arrow", pa.schema(columns, metadata or None))
        object.__setattr__(self, "checked", as_bytes(self.arrow))

    @property
    def has_footprints(self) -> bool:
        """Return True for the stream of an operator, which has records without the columns."""
        has_windows = self.key is not None or self.state is not None
        return has_windows or self.determinants or self.inputs > 0

    def _check(self) -> None:
        names = self.data.names
        if not names and not self.has_footprints:
            raise SchemaMismatch("rows without columns cannot be stored: a queue needs a column")
        if len(set(names)) != len(names):
            raise SchemaMismatch(f"columns of one name: {sorted(names)}")
        for column in self.data:
            if column.name.startswith("_"):
                raise SchemaMismatch(
                    f"column {column.name!r}: names that start with _ are reserved"
                )
        if self.timestamp_column is not None:
            if self.timestamp_column not in names:
                raise SchemaMismatch(f"there is no timestamp column {self.timestamp_column!r}")
            check_timestamp_type(self.data.field(self.timestamp_column).type)
        for name in self.key_columns:
            if name not in names:
                raise SchemaMismatch(f"there is no key column {name!r}")

    @classmethod
    def from_arrow(cls, arrow: pa.Schema) -> RecordSchema:
        """Read back from the stored schema.

        Raises:
            BadHeader: not a record schema.
        """
        names = arrow.names
        if names[:2] != [KIND, TIMESTAMP]:
            raise BadHeader(f"not a record schema: {names}")
        inputs = sum(name.startswith("_input_") for name in names)
        key = pa.schema(list(arrow.field(KEY).type)) if KEY in names else None
        state = pa.schema(list(arrow.field(STATE).type)) if STATE in names else None
        metadata = arrow.metadata or {}
        column = metadata.get(_TIMESTAMP_COLUMN)
        keys = tuple(json.loads(metadata.get(_KEY_COLUMNS, b"[]")))
        data = pa.schema([f for f in arrow if not f.name.startswith("_")], metadata)
        schema = cls(
            data, key, state, inputs, column.decode() if column else None, keys,
            DETERMINANT in names,
        )  # fmt: skip
        if schema.arrow != arrow:
            raise BadHeader(f"not a record schema: {arrow}")
        return schema

    def has_columns_of(self, other: RecordSchema) -> bool:
        """Return True if records of the other schema are records of this one."""
        return are_same_fields(self.arrow, other.arrow)

    def is_as(self, other: RecordSchema) -> bool:
        """Return True if that holds, and the columns have the same roles."""
        roles = [(schema.timestamp_column, schema.key_columns) for schema in (self, other)]
        return self.has_columns_of(other) and roles[0] == roles[1]

    def encode(self) -> bytes:
        """Body of a SCHEMA frame."""
        return bytes(self.arrow.serialize())

    @classmethod
    def decode(cls, body: bytes) -> RecordSchema:
        """Return the schema of a body; raises :class:`BadHeader` where it is no record schema."""
        return _decoded_once(bytes(body)) if len(body) <= _KEPT_BYTES_MAX else _decoded(body)


def _decoded(body: bytes) -> RecordSchema:
    try:
        return RecordSchema.from_arrow(pa.ipc.read_schema(pa.py_buffer(body)))
    except (*ARROW_ERRORS, SchemaMismatch, RecursionError) as error:
        raise BadHeader(f"schema message: {error}") from error


# Each segment and each commit has its schema again, and proving one takes milliseconds.
_KEPT_BYTES_MAX = 64 << 10
_decoded_once = lru_cache(maxsize=32)(_decoded)


def _stored(schema: pa.Schema | None) -> pa.Schema | None:
    if schema is None:
        return None
    return pa.schema([stored_field(field) for field in schema], schema.metadata)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema], schema.metadata)


def check_timestamp_type(kind: pa.DataType) -> None:
    """Timestamps are Arrow timestamps or int64 microseconds.

    Raises:
        SchemaMismatch: any other type.
    """
    if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
        raise SchemaMismatch(
            f"timestamps are an Arrow timestamp or int64 microseconds since 1970, not {kind}"
        )


STATE_SCHEMA = RecordSchema(
    pa.schema([]),
    key=pa.schema([("family", pa.uint16()), ("key", pa.binary())]),
    state=pa.schema([("value", pa.binary()), ("renewed", pa.bool_())]),
    inputs=1,
)
"""Records of a state log. docs/format.md §9."""
