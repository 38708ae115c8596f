"""Random streams with event times: their order, lateness, nulls, and how the watermark moves."""

import os
import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "key STRING, part INT, ts TIMESTAMP, n LONG, text STRING, gap INT"
SIDES = ("left", "right")
SECOND_US = 1_000_000
_ARROW = pa.schema(
    {
        "key": pa.string(),
        "part": pa.int32(),
        "ts": pa.timestamp("us", "UTC"),
        "n": pa.int64(),
        "text": pa.string(),
        "gap": pa.int32(),
    }
)
# Of our days, and across the epoch. Spark's watermark begins at the epoch: all before it is late.
_STARTS_S = (1_767_225_600, 1_767_225_600, -40)
_FILE_MTIME_S = 1_700_000_000
_GRIDS_US = (SECOND_US, SECOND_US, 5 * SECOND_US, 1_000, 1)
"""Times are multiples of one of these, mostly whole seconds: then times, ends of windows and
watermarks are often the same."""
_MOVES = ("on", "on", "on", "jump", "stop", "late", "empty")


def write_file(folder: Path, file: int, rows: list[dict[str, Any]]) -> None:
    """Write the file of this number. A column that rows lack is null."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file:04}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=_ARROW), path)
    # Equal times would leave the order to chance, and with it the watermark.
    os.utime(path, (_FILE_MTIME_S + file,) * 2)


@dataclass(frozen=True)
class Stream:
    """All that one run reads and is put through. It follows from the seed."""

    seed: str

    def dice(self, *what: object) -> random.Random:
        return random.Random("/".join(map(str, (self.seed, *what))))

    @cached_property
    def lives(self) -> tuple[range, ...]:
        """The files that are there at each start of the query."""
        dice = self.dice("lives")
        first, second = dice.randint(2, 3), dice.randint(2, 3)
        return range(first), range(first, first + second)

    @cached_property
    def moves(self) -> tuple[str, ...]:
        """How the times of each file go on from those before: at least one jumps."""
        dice = self.dice("moves")
        moves = [dice.choice(_MOVES) for _ in range(self.lives[-1].stop)]
        moves[dice.randrange(1, len(moves))] = "jump"
        return tuple(moves)

    @cached_property
    def fronts_us(self) -> tuple[int, ...]:
        """The time up to which the rows of each file go."""
        dice = self.dice("fronts")
        front_s = dice.choice(_STARTS_S)
        fronts = []
        for move in self.moves:
            front_s += {"on": dice.randint(2, 12), "jump": dice.randint(40, 400)}.get(move, 0)
            fronts.append(front_s * SECOND_US)
        return tuple(fronts)

    def delay_s(self, start: int) -> int:
        """Delay of the watermark in the query's run of this number; another from the next one."""
        return self.dice("delay", start).choice((0, 1, 5, 10, 30))

    def settings(self) -> dict[str, str]:
        """Spark's settings, the same for every store."""
        dice = self.dice("settings")
        streaming = "spark.sql.streaming"
        return {
            "spark.sql.shuffle.partitions": dice.choice("112"),
            # Several aggregations side by side in one query are refused in update mode.
            f"{streaming}.unsupportedOperationCheck": "false",
            f"{streaming}.multipleWatermarkPolicy": dice.choice(("min", "min", "max")),
            f"{streaming}.aggregation.stateFormatVersion": dice.choice("122"),
            f"{streaming}.sessionWindow.merge.sessions.in.local.partition": dice.choice(
                ("true", "false")
            ),
        }

    def peeks(self, batch: int, *, partly: bool = True) -> tuple[str, ...]:
        """Actions that compute the batch before the one that counts: `count` computes all of it, so
        that a version is committed and taken back; `head` stops in the midst of its tasks."""
        chosen = self.dice("peeks", batch).choices(("none", "count", "head"), (8, 2, 2))
        return tuple(each for each in chosen if each == "count" or (each == "head" and partly))

    def dies(self, batch: int) -> bool:
        """The query ends when this batch's state is committed and before the batch is."""
        return self.dice("dies", batch).random() < 0.12

    def write(self, folder: Path, life: int) -> None:
        """The files of one life, for either side."""
        for side in SIDES:
            for file in self.lives[life]:
                write_file(folder / side, file, self.rows(side, file))

    def rows(self, side: str, file: int) -> list[dict[str, Any]]:
        dice = self.dice(side, file)
        count = 0 if self.moves[file] == "empty" else self._row_count(dice)
        times = [self._time_us(side, file, dice) for _ in range(count)]
        order = self.dice(side, "order").choice(("none", "up", "down"))
        if order != "none":
            times.sort(key=lambda at: at or 0, reverse=order == "down")
        keys = self.dice("keys").choice((4, 10, 10, 100)) if count < 100 else count
        return [
            {
                "key": None if dice.random() < 0.05 else f"k{dice.randrange(keys)}",
                "part": dice.randrange(3),
                "ts": at,
                "n": dice.randrange(-100, 1000),
                "text": "t" * dice.randrange(6),
                "gap": dice.choice((None, -1, 0, 2, 3, 5, 20)),
            }
            for at in times
        ]

    def _row_count(self, dice: random.Random) -> int:
        """Now and then more than a zone of the store has rows."""
        return dice.randint(600, 1200) if dice.random() < 0.1 else dice.randint(1, 40)

    def _time_us(self, side: str, file: int, dice: random.Random) -> int | None:
        of_side = self.dice(side)
        lag_s = of_side.choice((0, 0, 3, 60)) if side == "right" else 0
        spread_s, grid_us = of_side.choice((1, 10, 30)), of_side.choice(_GRIDS_US)
        nulls = of_side.choice((0.0, 0.0, 0.1))
        if dice.random() < nulls:
            return None
        is_late = self.moves[file] == "late" or dice.random() < 0.1
        back_s = lag_s + (dice.randint(1, 200) if is_late else 0)
        at_us = self.fronts_us[file] - back_s * SECOND_US - dice.randrange(spread_s * SECOND_US)
        return at_us // grid_us * grid_us
