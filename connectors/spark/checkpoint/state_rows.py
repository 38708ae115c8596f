"""Keys and values of a state store as Spark's columns, out of the bytes that stand in its log."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint.family_rows import FamilyRows
from cec_store.connectors.spark.checkpoint.layout import (
    DEFAULT_STORE,
    METADATA_FOLDER,
    STATE,
    Checkpoint,
)
from cec_store.connectors.spark.checkpoint.parsing import damaged
from cec_store.connectors.spark.checkpoint.state_schema import (
    StateSchema,
    has_variables,
    read_state_schema,
)
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow, decode_rows
from cec_store.connectors.spark.checkpoint.variables import Families, read_families
from cec_store.connectors.spark.setup.settings import AVRO, ENCODING_KEY
from cec_store.errors import NotACheckpoint, SchemaMismatch
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
        self.partitions = schema.partitions

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


class VariablesDecoder:
    """Decodes the rows of a store with variables, each of which has a schema of its own."""

    def __init__(self, families: Families) -> None:
        self.path = families.path
        self.in_avro = families.in_avro
        self.partitions = families.partitions
        self._families = families
        self._rows: dict[str, FamilyRows] = {}

    def rows_of(self, family: str) -> FamilyRows:
        """Return the decoder of a family's rows.

        Raises:
            SchemaMismatch: no schema file has the family, or a type of it is not supported.
        """
        if family not in self._rows:
            if family not in self._families.known:
                missing = f"{self.path}: no schema file of the query's last run has {family!r}"
                raise SchemaMismatch(self._families.unsupported.get(family, missing))
            self._rows[family] = FamilyRows(self._families.known[family])
        return self._rows[family]


RowDecoder = StateDecoder | VariablesDecoder


def decoder_of(folder: FolderTree) -> RowDecoder | None:
    """The decoder of the state store in ``state/OPERATOR/PARTITION[/STORE]`` of a checkpoint.

    ``None`` where the folder stands alone, without what Spark notes of it.

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
                try:
                    checkpoint = Checkpoint(operator.above().above())
                except NotACheckpoint:
                    return None  # the offset logs would say in which encoding rows are
                # A checkpoint keeps the encoding that it began with.
                in_avro = checkpoint.newest_settings().get(ENCODING_KEY) == AVRO
                return VariablesDecoder(read_families(operator, in_avro=in_avro))
            try:
                return StateDecoder(read_state_schema(operator, store))
            except ValueError:
                reason = f"Spark has noted no store {store!r} of this operator"
                raise damaged(operator.path, 0, reason) from None
    return None
