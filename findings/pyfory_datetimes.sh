#!/usr/bin/env bash
# pyfory 1.7.7 (Apache Fory for Python), in its mode for Python alone too: datetimes, which it writes as seconds and nanoseconds. A guess:
# a datetime comes back as it was, to the microsecond, or at least as the same instant.
#
# Seen: it goes through a float. Of 1,000 times in the year 9000 nearly all are off, by up to 46 microseconds; of 1,000 in 1970 a few
# by one, and of as many in 2020 none. The last microsecond of 9999, which stands for "never ends", can be written and not be read. A
# naive time is taken for one of the process's zone and comes back aware, in UTC: midnight in Tokyo is 15:00 of the day before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyfory==1.7.7
TZ=Asia/Tokyo "$folder/venv/bin/python" - <<'PYTHON'
import datetime
import pyfory

fory = pyfory.Fory(xlang=False)
utc = datetime.timezone.utc


def back(value):
    return fory.deserialize(fory.serialize(value))


def changed(year):
    times = [datetime.datetime(year, 1, 1, tzinfo=utc) + datetime.timedelta(microseconds=7_777_777 * n) for n in range(1000)]
    differences = [abs(back(time) - time) for time in times]
    return sum(difference > datetime.timedelta(0) for difference in differences), max(differences)


naive = back(datetime.datetime(2020, 1, 1))
lost = {year: changed(year) for year in (1500, 1970, 2020, 9000)}
written = fory.serialize(datetime.datetime.max.replace(tzinfo=utc))
duration = datetime.timedelta(days=999_999, microseconds=1)
print(pyfory.__version__, naive, {year: (count, str(most)) for year, (count, most) in lost.items()}, len(written))
assert naive == datetime.datetime(2019, 12, 31, 15, tzinfo=utc) and naive != datetime.datetime(2020, 1, 1)
assert lost[9000][0] > 900 and lost[1500][0] > 300 and lost[1970][0] > 0 and lost[2020][0] == 0
assert back(duration) == duration
try:
    fory.deserialize(written)
except ValueError as error:
    print(error)
else:
    raise SystemExit("the last microsecond of 9999 can be read now")
PYTHON
