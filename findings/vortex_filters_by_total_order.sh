#!/usr/bin/env bash
# vortex-data 0.93.0: filters over floats, of which Arrow's kernels, DuckDB and SQL say that -0.0 equals 0.0 and is not below it.
# A guess: so does a filter that is pushed into the file.
#
# Seen: comparisons take the total order of IEEE 754: `== 0.0` leaves -0.0 out, `< 0.0` finds it, `> 1.0` finds NaN, and NaN equals
# NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check vortex-data==0.93.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc
import vortex
import vortex.expr as expression

nan = float("nan")
rows = pa.table({"c": [0.0, -0.0, nan, None, 1.0, 2.0]})
vortex.io.write(rows, "rows.vortex")
file, c = vortex.open("rows.vortex"), expression.column("c")


def by_vortex(condition):
    return str(file.to_arrow(expr=condition).read_all().column("c").to_pylist())


def by_arrow(condition):
    return str(rows.filter(condition).column("c").to_pylist())


field = pc.field("c")
print(by_vortex(c == 0.0), by_vortex(c < 0.0), by_vortex(c > 1.0), by_vortex(c == nan))
assert by_arrow(field == 0.0) == "[0.0, -0.0]" and by_vortex(c == 0.0) == "[0.0]"
assert by_arrow(field < 0.0) == "[]" and by_vortex(c < 0.0) == "[-0.0]"
assert by_arrow(field > 1.0) == "[2.0]" and by_vortex(c > 1.0) == "[nan, 2.0]"
assert by_arrow(field == nan) == "[]" and by_vortex(c == nan) == "[nan]"
PYTHON
