"""Rows that Spark keeps in Avro (``encodingFormat=avro``) as Arrow columns, one row at a time.

::

    a value, or a key       a version byte (0), the number of its schema (u16), and the row in Avro
    a key with a prefix     bytes of the first part (u32), a version byte, the prefix in Avro; then
                            the other fields as a key is

Spark derives the Avro schema from its own: every field may be null, and null is the default of a
field that a row lacks. So a row is read by the schema that it was written with, into the newest
one. Logical types change no bytes and are left out here: Arrow's types say what a number means.
(Spark: ``AvroStateEncoder``, ``SchemaConverters.toAvroTypeWithDefaults``.)
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow
from cec_store.errors import SchemaMismatch, SparkUnavailable

_ENCODING_VERSION = 0
_HEAD_BYTES = 3
_WHOLE = Context(prec=77)
_NUMBERS = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): "int",
    pa.null(): "null",
}
_NARROW_BITS = {pa.int8(): 8, pa.int16(): 16}


class AvroRows:
    """Decodes rows of one schema, which earlier rows may have had in other forms."""

    def __init__(self, kind: pa.StructType, forms: Mapping[int, pa.StructType], path: str) -> None:
        """
        Args:
            kind: Type of the decoded rows.
            forms: Types that rows were written with, by their numbers.
            path: File that says so, for errors.

        Raises:
            SchemaMismatch: a type that Spark does not keep in Avro.
            SparkUnavailable: the package fastavro is missing.
        """
        self._kind = kind
        self._read_row = _library(path).schemaless_reader
        asked = _parsed(kind, path)
        written = {number: _parsed(form, path) for number, form in forms.items()}
        self._same = (asked, None)
        """Schema of a row, and the one to read it into; ``None`` where both are one."""
        self._forms = {
            number: self._same if schema == asked else (schema, asked)
            for number, schema in written.items()
        }
        self._value = _converter(kind)

    def decode(self, stored: Iterable[bytes | None]) -> pa.StructArray:
        """Decode rows, each behind the number of its form; None becomes null.

        Raises:
            BadRow: bytes that are no row of these forms.
        """
        return self._column(None if row is None else self._one(row) for row in stored)

    def decode_keys(self, stored: Iterable[bytes]) -> pa.StructArray:
        """Decode keys, which have one form whatever the number before them says, as Spark does."""
        return self._column(self._read(_body(row), self._same) for row in stored)

    def decode_prefixes(self, stored: Iterable[bytes]) -> pa.StructArray:
        """Decode first parts of keys, which have no number."""
        return self._column(self._read(_unversioned(row), self._same) for row in stored)

    def _one(self, row: bytes) -> Any:
        body = _body(row)
        number = number_of_schema(row)
        if number not in self._forms:
            raise BadRow(
                f"a row of schema {number}, which no schema file of the query's last run has"
            )
        return self._read(body, self._forms[number])

    def _read(self, body: bytes, form: tuple[Any, Any]) -> Any:
        stream = io.BytesIO(body)
        try:
            row = self._read_row(stream, *form)
        except (EOFError, ValueError, LookupError, TypeError, OverflowError) as error:
            raise BadRow(f"not a row in Avro: {error}") from None
        if stream.tell() != len(body):
            raise BadRow(f"{len(body) - stream.tell()} bytes behind a row in Avro")
        return row

    def _column(self, rows: Iterable[Any]) -> pa.StructArray:
        try:
            return pa.array([self._value(row) for row in rows], self._kind)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise BadRow(str(error)) from None


def number_of_schema(row: bytes) -> int:
    """Return the number of the form that a value, or a key, says it was written in."""
    return int.from_bytes(row[1:_HEAD_BYTES], "little")


def _unversioned(row: bytes) -> bytes:
    if row[:1] != bytes([_ENCODING_VERSION]):
        raise BadRow("a row in an encoding that is not known")
    return row[1:]


def _body(row: bytes) -> bytes:
    if len(row) < _HEAD_BYTES:
        raise BadRow("too short for a row in Avro")
    return _unversioned(row)[_HEAD_BYTES - 1 :]


def _library(path: str) -> Any:
    try:
        import fastavro
    except ModuleNotFoundError as error:
        advice = "pip install 'cec-store[avro]'"
        raise SparkUnavailable(f"{path}: state in Avro is read by fastavro: {advice}") from error
    return fastavro


def _parsed(kind: pa.StructType, path: str) -> Any:
    return _library(path).parse_schema(_record(kind, "row", path))


def _record(kind: pa.StructType, name: str, path: str) -> dict[str, Any]:
    """Return the Avro schema of a struct. A name within it is the same in every form of the row."""
    fields = []
    for field in kind:
        own = _avro_name(field.name)
        schema = _nullable(_avro_type(field.type, f"{name}_{own}", path))
        fields.append({"name": own, "type": schema, "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _avro_name(column: str) -> str:
    """Return a name that Avro allows, which are letters and digits."""
    return f"f{column.encode().hex()}"


def _nullable(schema: Any) -> Any:
    return schema if schema == "null" or isinstance(schema, list) else ["null", schema]


def _avro_type(kind: pa.DataType, name: str, path: str) -> Any:
    if pa.types.is_struct(kind):
        return ["null", _record(kind, name, path)]
    if pa.types.is_list(kind) and not pa.types.is_null(kind.value_type):
        return ["null", {"type": "array", "items": _avro_type(kind.value_type, name, path)}]
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return ["null", {"type": "map", "values": _avro_type(kind.item_type, name, path)}]
    if pa.types.is_decimal(kind):
        return {"type": "fixed", "name": f"{name}_fixed", "size": _decimal_bytes(kind.precision)}
    if pa.types.is_timestamp(kind):
        return "long"
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    raise SchemaMismatch(f"{path}: {kind} is not supported in state that is kept in Avro")


def _decimal_bytes(digits: int) -> int:
    """Return the fewest bytes that hold every number of so many digits, and a sign."""
    return int((10**digits - 1).bit_length()) // 8 + 1


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function from a value as fastavro has it to one that Arrow takes for the type."""
    if pa.types.is_struct(kind):
        return _struct_converter(kind)
    if pa.types.is_list(kind):
        element = _converter(kind.value_type)
        return lambda value: None if value is None else [element(part) for part in value]
    if pa.types.is_map(kind):
        item = _converter(kind.item_type)
        return lambda value: (
            None if value is None else [(key, item(part)) for key, part in value.items()]
        )
    if pa.types.is_decimal(kind):
        scale = -kind.scale
        return lambda value: (
            None
            if value is None
            else Decimal(int.from_bytes(value, "big", signed=True)).scaleb(scale, _WHOLE)
        )
    if kind in _NARROW_BITS:
        # Avro widens to 32 bits, and Spark cuts off what a narrower type does not hold.
        half = 1 << (_NARROW_BITS[kind] - 1)
        return lambda value: None if value is None else (value + half) % (2 * half) - half
    return lambda value: value


def _struct_converter(kind: pa.StructType) -> Callable[[Any], Any]:
    converters = [(field.name, _avro_name(field.name), _converter(field.type)) for field in kind]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        return {name: converter(value[own]) for name, own, converter in converters}

    return convert
