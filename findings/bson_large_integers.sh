#!/usr/bin/env bash
# bson 0.5.10 (PyPI), a codec of its own beside the one in pymongo: integers that BSON's int64 cannot hold, and decimals, for which BSON
# has a type. A guess: an integer beyond int64 is refused, as pymongo 4.20.0 does it, and a Decimal stays one or is refused.
#
# Seen: from 2^63 to 2^64 - 1 it is written as BSON's timestamp, a type for the server's own log: pymongo reads 2^63 as
# Timestamp(2147483648, 0). A Decimal becomes a double. Datetimes are rounded to milliseconds, where pymongo cuts them, so the last
# half millisecond of a year is the next year. All without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in bson==0.5.10 pymongo==4.20.0; do
    python3 -m venv "$folder/${package%%=*}"
    "$folder/${package%%=*}/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
done
"$folder/bson/bin/python" - <<'PYTHON'
import datetime
import decimal
import bson

end = datetime.datetime(2019, 12, 31, 23, 59, 59, 999500, tzinfo=datetime.timezone.utc)
row = {"a": 2**63 - 1, "b": 2**63, "c": 2**64 - 1, "d": decimal.Decimal("0.10"), "t": end}
with open("row.bson", "wb") as file:
    file.write(bson.dumps(row))
back = bson.loads(bson.dumps(row))
print(back)
assert (back["a"], back["b"], back["c"]) == (2**63 - 1, 2**63, 2**64 - 1)
PYTHON
"$folder/pymongo/bin/python" - <<'PYTHON'
import datetime
import bson
from bson.timestamp import Timestamp

with open("row.bson", "rb") as file:
    row = bson.decode(file.read())
print(row)
assert row == {
    "a": 2**63 - 1, "b": Timestamp(2**31, 0), "c": Timestamp(2**32 - 1, 2**32 - 1), "d": 0.1, "t": datetime.datetime(2020, 1, 1),
}
assert type(row["d"]) is float
cut = bson.decode(bson.encode({"t": datetime.datetime(2019, 12, 31, 23, 59, 59, 999500)}))
assert cut == {"t": datetime.datetime(2019, 12, 31, 23, 59, 59, 999000)}
try:
    bson.encode({"b": 2**63})
except OverflowError as error:
    print(error)
else:
    raise SystemExit("pymongo writes 2^63 now")
PYTHON
