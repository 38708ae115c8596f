#!/usr/bin/env bash
# tsfile 2.5.0 (Apache TsFile for Python, IoTDB's files): `to_dataframe` of a column of INT64, which it gives as pandas' nullable Int64. A
# guess: integers are those of the file, with nulls between them or not, as that type of pandas is made for.
#
# Seen: with one null in the column all of them have gone through doubles: 2^53 + 1 is 2^53, a time in nanoseconds is 21 off, without an
# error and with the type Int64. With 2^63 - 1 and a null the file cannot be read so (TypeError). Read row by row, the same file gives
# what was written; without a null both do. NaN is written as null.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check tsfile==2.5.0 pandas==3.1.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import math
import warnings
import pandas
import tsfile

warnings.simplefilter("ignore")


def again(name, values):
    path = f"{name}.tsfile"
    frame = pandas.DataFrame({"time": range(len(values)), "n": values})
    tsfile.dataframe_to_tsfile(frame, path, table_name="rows", time_column="time")
    with tsfile.TsFileReader(path) as reader, reader.query_table("rows", ["n"], 0, 10) as rows:
        by_row = []
        while rows.next():
            by_row.append(None if rows.is_null_by_index(2) else rows.get_value_by_index(2))
    try:
        column = tsfile.to_dataframe(path)["n"]
        by_frame = str(column.dtype), [None if pandas.isna(value) else value for value in column]
    except TypeError as error:
        by_frame = str(error)
    return by_row, by_frame


integers = [2**53 + 1, 1_700_000_000_123_456_789]
seen = {
    "without null": again("whole", pandas.array([*integers, 2**63 - 1], dtype="Int64")),
    "with a null": again("holed", pandas.array([*integers, None], dtype="Int64")),
    "the greatest with a null": again("greatest", pandas.array([2**63 - 1, None], dtype="Int64")),
    "doubles": again("doubles", [0.5, math.nan]),
}
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("tsfile", "pandas")], *seen.items(), sep="\n")
assert seen["without null"] == ([*integers, 2**63 - 1], ("Int64", [*integers, 2**63 - 1]))
assert seen["with a null"] == ([*integers, None], ("Int64", [2**53, 1_700_000_000_123_456_768, None]))
assert seen["the greatest with a null"][0] == [2**63 - 1, None] and "cannot safely cast" in seen["the greatest with a null"][1]
assert seen["doubles"] == ([0.5, None], ("Float64", [0.5, None]))
PYTHON
