"""Keep readings in a queue, read them again from a moment on, and go on from a stored place."""

import tempfile
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from cec_store import Position, open_queue

SCHEMA = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("sensor", pa.string()), ("c", pa.float64())]
)
NOON = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)


def readings(minute: int) -> pa.RecordBatch:
    at = NOON + timedelta(minutes=minute)
    rows = [{"at": at, "sensor": name, "c": 20.0 + minute} for name in ("roof", "cellar")]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # timestamp_column: a record's time is that of the reading, not of the append.
        with open_queue(folder + "/q", "x", schema=SCHEMA, timestamp_column="at") as queue:
            for minute in range(60):
                queue.append(readings(minute))
            queue.sync()  # on disk from here on

        with open_queue(folder + "/q") as queue:
            since = NOON + timedelta(minutes=57)
            replay = queue.replay(since=since)
            first = next(replay)
            print("from", since.time(), "on:", first.column("c").to_pylist())

            stored = replay.cursor.to_json()  # a text that names the queue: keep it anywhere
            rest = queue.replay(since=since, from_moment=Position.from_json(stored))
            print("the rest:", [c for batch in rest for c in batch.column("c").to_pylist()])


if __name__ == "__main__":
    main()
