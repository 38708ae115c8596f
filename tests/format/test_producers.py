"""Tables of other libraries: equal when they come back, or refused with the column by name."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import cec_store
from cec_store.errors import SchemaMismatch
from cec_store.format.arrow_values import stored_type
from support.producers.libraries import PRODUCERS, Producer
from support.producers.values import columns
from support.runs.counts import crash_count

TABLES = crash_count(160, 5_000)
EXTENSIONS = {"text": ["example.unit"], "bytes": ["geoarrow.wkb", "example.sketch"]}


def marked(draw: random.Random, table: pa.Table) -> pa.Table:
    """Give the schema and some of the fields metadata, and cut the rows into chunks."""
    if draw.random() < 0.3:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), "source": "sensor"})
    for place, field in enumerate(table.schema):
        names = EXTENSIONS.get(field.name.partition("_")[2])
        if names and field.metadata is None and draw.random() < 0.2 and is_storage(field.type):
            meta = {"ARROW:extension:name": draw.choice(names), "ARROW:extension:metadata": "{}"}
            kind = table.schema.set(place, field.with_metadata(meta))
            table = pa.Table.from_arrays(table.columns, schema=kind)
    if draw.random() < 0.3 and len(table) > 1:
        table = table.slice(1)
    if draw.random() < 0.3 and len(table) > 1:
        cut = draw.randrange(1, len(table))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table


def is_storage(kind: pa.DataType) -> bool:
    return not isinstance(kind, pa.BaseExtensionType)


def expected(table: pa.Table) -> pa.Table:
    """As a queue stores it: views are plain, and what the schema says besides is kept."""
    fields = [f.with_type(stored_type(f.type)) for f in table.schema]
    schema = pa.schema(fields, table.schema.metadata)
    arrays = [
        table[place].combine_chunks().cast(field.type)
        if table.schema.field(place).type != field.type
        else table[place]
        for place, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def refused(error: SchemaMismatch, names: list[str], path: Path) -> bool:
    """Return False; the error names a column and what to do, and no row was written."""
    assert any(f"column {name!r}" in str(error) for name in names), str(error)
    assert re.search(r"cast (it|to)|leave the column out|mend the row|fill it in", str(error))
    assert not path.exists() or not cec_store.read_queue(path).read_all().num_rows
    return False


def check(folder: Path, number: int, name: str, types: Counter[str]) -> bool:
    """Put one table in a queue and read it; return False where it is refused, by column."""
    draw = random.Random(f"{name} {number}")
    producer: Producer = PRODUCERS[name]
    table = marked(draw, producer.table(draw, columns(draw, producer.kinds)))
    types.update(str(field.type) for field in table.schema)
    path = folder / f"{name}{number}"
    options = {"partitions": 1} if draw.random() < 0.3 else {}
    try:
        with cec_store.open_queue(path, "x", schema=table.schema, **options) as queue:  # type: ignore[call-overload]
            queue.append(table)
    except SchemaMismatch as error:
        return refused(error, table.column_names, path)
    stored = cec_store.read_queue(path).read_all()
    due = expected(table)
    assert stored.schema.equals(due.schema, check_metadata=True), (stored.schema, due.schema)
    assert stored.equals(due), (name, number)
    return True


@pytest.mark.crash
@pytest.mark.parametrize("name", PRODUCERS)
def test_tables_of_other_libraries_come_back_equal_or_are_refused(
    tmp_path: Path, name: str
) -> None:
    pytest.importorskip(PRODUCERS[name].module, reason="pip install -e '.[producers]' has it")
    types: Counter[str] = Counter()
    count = TABLES // len(PRODUCERS)
    taken = sum(check(tmp_path, number, name, types) for number in range(count))
    print(f"{name}: {taken} of {count} tables taken; {dict(types)}")
    assert taken > count / 2
    assert len(types) >= len(PRODUCERS[name].kinds) - 3
