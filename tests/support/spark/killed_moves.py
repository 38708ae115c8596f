"""Kills a driver while it moves a checkpoint."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from support.spark.killed_runs import Driver

KILLS = 15
_LIFE_S_MAX = 400


def kill_one(
    source: Path,
    place: Path | str,
    logs: Path,
    move: str,
    seed: int,
    conf: dict[str, str] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """In the fourth move of its life, all of which go below the place; at any moment of that."""
    chance = random.Random(seed)
    order = {
        "checkpoint": str(source), "folder": str(place), "move": move, "conf": conf or {},
        "storage_options": storage_options,
    }  # fmt: skip
    driver = Driver("moving_job", order, logs.with_suffix(".log"), _LIFE_S_MAX)
    try:
        for event in driver.events():
            if event["number"] == 3:
                time.sleep(chance.uniform(0, 1.2 * event["took_s"]))
                driver.kill()
    finally:
        driver.kill()
        driver.close()
