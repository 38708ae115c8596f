"""Files for streaming queries: keys of all kinds, times that advance, and rows that are late."""

import json
import os
import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

SCHEMA = "key STRING, part INT, ts TIMESTAMP, n LONG, text STRING"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
FILES = 6
SECONDS_PER_FILE = 10
KEYS = ("", "a", "ab", "b", "ß", "日本", "x" * 40, "k7", "k8", None)


def rows_of(file: int, seed: int, count: int) -> list[dict[str, Any]]:
    """Times advance from file to file, with rows that are out of order and some too late."""
    generator = random.Random(f"{seed}/{file}")
    rows = []
    for _ in range(count):
        late = generator.random() < 0.1
        second = file * SECONDS_PER_FILE + generator.randrange(-3, 10) - (30 if late else 0)
        # A key is busy for some files and then rests, so that sessions and timeouts end.
        busy = [key for at, key in enumerate(KEYS) if (at + file) % 4 != seed % 2]
        row = {
            "key": generator.choice(busy),
            "part": generator.randrange(3),
            "ts": (START + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S"),
            "n": generator.randrange(-100, 1000),
            "text": "t" * generator.randrange(6),
        }
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Inputs:
    """Two folders of files; a query takes one of each in a batch, in the order of their times."""

    folder: Path
    rows: int = 40

    def write(self, files: range) -> None:
        for seed, side in enumerate(("left", "right")):
            (self.folder / side).mkdir(parents=True, exist_ok=True)
            for file in files:
                path = self.folder / side / f"{file:04}.json"
                rows = rows_of(file, seed, self.rows)
                path.write_text("\n".join(json.dumps(row) for row in rows))
                # Equal times would leave the order to chance, and with it the watermark.
                os.utime(path, (1_700_000_000 + file,) * 2)

    def read(self, spark: Any, side: str = "left") -> Any:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / side))

    def timed(self, spark: Any, side: str = "left") -> Any:
        return self.read(spark, side).withWatermark("ts", "5 seconds")
