"""Keys and values of a state store as Spark's columns, out of the bytes that stand in its log."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint.layout import DEFAULT_STORE, METADATA_FOLDER, STATE
from cec_store.connectors.spark.checkpoint.state_schema import (
    StateSchema,
    has_variables,
    read_state_schema,
)
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow, decode_rows
from cec_store.errors import SchemaMismatch
from cec_store.format.columns import Ints
from cec_store.storage.folder import FolderTree

_DEFAULT_FAMILY = 1


def in_default_family(families: pa.Array) -> pa.BooleanArray:
    """Return a flag a row: True in Spark's family `default`, that of operators.

    Family 0 names the others.
    """
    return pc.equal(families, _DEFAULT_FAMILY)


class StateDecoder:
    """Decodes the rows of one store. Its columns are structs of what Spark notes in its schema."""

    def __init__(self, schema: StateSchema) -> None:
        self.schema = schema

    def keys(self, stored: pa.ChunkedArray, chosen: Ints | None = None) -> pa.ChunkedArray:
        """Decode the keys of all rows, or of the rows ``chosen`` (ascending), as structs.

        Raises:
            SchemaMismatch: these bytes are not of the schema.
        """
        return self._decoded(stored, self.schema.key, self.schema.prefix_fields, chosen)

    def values(self, stored: pa.ChunkedArray, chosen: Ints | None = None) -> pa.ChunkedArray:
        """Decode values as :meth:`keys` decodes keys; null where a row has no value."""
        return self._decoded(stored, self.schema.value, 0, chosen)

    def _decoded(
        self,
        stored: pa.ChunkedArray,
        kind: pa.StructType,
        prefix_fields: int,
        chosen: Ints | None,
    ) -> pa.ChunkedArray:
        try:
            return decode_rows(stored, kind, prefix_fields, chosen)
        except BadRow as error:
            raise SchemaMismatch(
                f"{error}: these rows are not of the schema in {self.schema.path}"
            ) from None

    def windows(self, keys: pa.StructArray, states: pa.StructArray) -> tuple[pa.Array, pa.Array]:
        """Keys and states as a log has them, decoded: nulls of states stay.

        Left as they are where some are of a column family that is not the operator's.
        """
        families, stored = keys.flatten()
        if not pc.all(in_default_family(families)).as_py():
            return keys, states
        values = self.values(pa.chunked_array([states.flatten()[0]]))
        return self.keys(pa.chunked_array([stored])).combine_chunks(), values.combine_chunks()


def decoder_of(folder: FolderTree) -> StateDecoder | None:
    """The decoder of the state store in ``state/OPERATOR/PARTITION[/STORE]`` of a checkpoint.

    ``None`` where the folder stands alone, without what Spark notes of it, and where it holds
    variables, each with a schema of its own.

    Raises:
        CorruptLog, SchemaMismatch, UnsupportedVersion: what Spark noted cannot be read.
    """
    names = folder.path.split("/")
    for depth, store in ((1, DEFAULT_STORE), (2, names[-1])):
        # What it is called says so before the folders above, perhaps in a store, are asked for.
        if len(names) <= depth + 2 or names[-depth - 2] != STATE or not names[-depth].isdecimal():
            continue
        operator = folder.above() if depth == 1 else folder.above().above()
        if METADATA_FOLDER in operator.folders():
            if has_variables(operator):
                return None
            return StateDecoder(read_state_schema(operator, store))
    return None
