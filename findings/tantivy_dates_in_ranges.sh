#!/usr/bin/env bash
# tantivy 0.27.0 (Python): a date field, which keeps microseconds, and a range of dates. A guess: the range takes the documents whose
# stored date lies in it, or rounds both the date and its bounds.
#
# Seen: dates are cut to seconds in the index and in fast fields, the bounds are not. A document of 00:00:00.5 is not in the range from
# 00:00:00.5 to 00:00:01, nor is any other of that second; the range from 00:00:00 to itself takes all of them. So readers that go on
# "from the last time seen" pass over the rest of its second. `add_date_field` has no option for it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check tantivy==0.27.0
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import importlib.metadata
import tantivy

times = [datetime.datetime(2024, 1, 1, 0, 0, 0, us, tzinfo=datetime.timezone.utc) for us in (0, 100_000, 500_000, 900_000)]
times.append(times[0] + datetime.timedelta(seconds=1))
names = ("both", "fast", "indexed")
builder = tantivy.SchemaBuilder()
builder.add_date_field("both", stored=True, indexed=True, fast=True)
builder.add_date_field("fast", stored=True, fast=True)
builder.add_date_field("indexed", stored=True, indexed=True)
schema = builder.build()
index = tantivy.Index(schema)
writer = index.writer()
for time in times:
    writer.add_document(tantivy.Document(both=time, fast=time, indexed=time))
writer.commit()
index.reload()
searcher = index.searcher()


def rows(name, least, most, include_upper):
    query = tantivy.Query.range_query(schema, name, tantivy.FieldType.Date, least, most, include_upper=include_upper)
    return sorted(times.index(searcher.doc(address)[name][0]) for _, address in searcher.search(query, 10).hits)


ranges = ((2, 4, False), (1, 3, True), (3, 3, True), (0, 4, False), (0, 0, True), (2, 4, True))
seen = {name: [rows(name, times[least], times[most], closed) for least, most, closed in ranges] for name in names}
print(importlib.metadata.version("tantivy"), seen)
for found in seen.values():
    assert found == [[], [], [], [0, 1, 2, 3], [0, 1, 2, 3], [4]]
PYTHON
