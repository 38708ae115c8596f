#!/usr/bin/env bash
# nanoarrow 0.9.0: decimals in `to_pylist`. A guess: decimal128 and decimal256 come out as they are, or are refused as decimal32 is.
#
# Seen: a negative one is taken for a number without a sign, and that is rounded to the type's precision: -1.50 in decimal128(5, 2)
# is 3.4028E+36. The array itself is sound: pyarrow 26.0.1 takes it back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check nanoarrow==0.9.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import decimal
import nanoarrow
import pyarrow as pa

values = [decimal.Decimal("1.50"), decimal.Decimal("-1.50")]
for kind, negative in (
    (pa.decimal128(5, 2), "3.4028E+36"),
    (pa.decimal128(38, 2), "3402823669209384634633746074317682113.1"),
    (pa.decimal256(50, 2), "1.1579208923731619542357098500868790785326998466564E+75"),
):
    array = nanoarrow.Array(pa.array(values, kind))
    print(nanoarrow.__version__, kind, array.to_pylist())
    assert array.to_pylist() == [decimal.Decimal("1.50"), decimal.Decimal(negative)]
    assert pa.array(array).to_pylist() == values
PYTHON
