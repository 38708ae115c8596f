#!/usr/bin/env bash
# DuckDB 2.0.1 exports BIT to Arrow as binary. A guess: the bits, from the left, with zeros behind them.
#
# Seen: the first byte counts the padding, the padding stands before the bits, and it is ones: '101' is
# 05 fd (1111 1101). Eight bits are two bytes as well.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb

rows = duckdb.connect().sql("SELECT '101'::BIT AS a, '10110011'::BIT AS b").arrow().read_all()
print(duckdb.__version__, rows.schema, rows.to_pylist())
assert rows.to_pylist() == [{"a": bytes([5, 0b11111101]), "b": bytes([0, 0b10110011])}]
PYTHON
