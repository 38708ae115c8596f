"""Standbys: how long a takeover takes, how long output is silent, and what being followed costs.

passive_takeover_vs_cold    time from detection to the first new output with 1,000,000 open
                            windows, of a passive standby over a cold rebuild of the same log
active_gap_ms_vs_detection  the longest silence in the durable output around the SIGKILL of a
                            primary with an active standby, over the time until that knew of it
passive_overhead            processor time per input row of a primary at half of what it can take,
                            with a passive standby on the other core over without (it is stopped
                            and continued by turns), less 1
smallframes_vs_one          processor time of a takeover that takes 10,000 rows again, written to
                            the input in frames of ten, over the same rows in one frame (upstream
                            backup, time windows; the best rounds)

The passive standby of the first takes its input along, as it does by default. `…_log_only` is that
of one that reads nothing but the log, and takes input from the oldest footprint on again.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness.bids import bids
from bench.harness.rounds import Options, options, race, report
from bench.harness.talking import Talking
from bench.micro.standby_processes import PacedBids, make
from cec_store import QueueInput, RecordSchema, Targets, open_queue
from cec_store.log.chain import Chain
from cec_store.operators import Aggregate, QueueSource, TimeWindow
from cec_store.operators.runner import Runner, record_schema
from cec_store.standby.schemes import Scheme
from cec_store.standby.standby import Standby
from cec_store.standby.takeover import Takeover
from cec_store.storage.local import LocalFolder

TARGETS = {
    "passive_takeover_vs_cold": "at most 0.2",
    "passive_takeover_vs_cold_log_only": "report",
    "active_gap_ms_vs_detection": "at most 1.2",
    "passive_overhead": "at most 0.03",
    "smallframes_vs_one": "at most 2",
}
PROCESSES = Path(__file__).with_name("standby_processes.py")
ITEMS = 1_130_000
"""Keys, of which about one in nine has just closed its window."""
STEP_ROWS = 8192
PERIOD_ROWS = 50_000
"""Rows that a primary takes between two looks of a standby."""


class Input(PacedBids):
    """Paced bids of which as much is there as is said."""

    there = 0

    def end(self) -> int:
        return self.there


# -- the takeover ---------------------------------------------------------------------------------


def first_output_s(standby: Standby, source: Input) -> tuple[float, Takeover]:
    """Return seconds from the detection until the first new output is durable."""
    began = time.perf_counter()
    done = standby.take_over()
    source.there += 20_000
    before = done.queue.end_offset
    for step in done.runner._steps(done.runner._position):
        done.runner.step(step)
        if done.queue.end_offset > before:
            break
    done.queue.sync()
    return time.perf_counter() - began, done


def takeovers(asked: Options) -> dict[str, float]:
    """The primary goes on a little after the standby's last look, and is never heard of again."""
    items = asked.size(full=ITEMS, quick=ITEMS)
    source = Input(items, 0.0, 0.0)
    source.there = 12 * items
    path = asked.folder / "queue"
    with open_queue(path, "x", schema=record_schema(make(source.schema))) as queue:
        Runner(make(source.schema), [source], queue, Targets()).run()
        extent = queue.extent()
    print(f"{extent.open_windows:,} open windows, an extent of {extent.records:,} records")
    took: dict[str, list[float]] = {"cold": [], "passive": [], "passive, log only": []}
    for _ in range(asked.rounds):
        for name, seconds in took.items():
            copy = asked.folder / "copy"
            shutil.copytree(path, copy)
            source.there = 12 * items
            seconds.append(one_takeover(copy, source, name))
            shutil.rmtree(copy)
    for name, seconds in took.items():
        median = statistics.median(seconds)
        print(f"{name:<18} best {min(seconds) * 1e3:>7.1f} ms   median {median * 1e3:>7.1f} ms")
    cold, passive, log_only = (statistics.median(seconds) for seconds in took.values())
    return {
        "passive_takeover_vs_cold": passive / cold,
        "passive_takeover_vs_cold_log_only": log_only / cold,
        "passive_takeover_ms": passive * 1e3,
        "cold_takeover_ms": cold * 1e3,
    }


def one_takeover(path: Path, source: Input, name: str) -> float:
    scheme = Scheme.EVENTUAL if name == "cold" else Scheme.PASSIVE
    standby = Standby(
        path, lambda: make(source.schema), [source], scheme, Targets(),
        step_rows_max=STEP_ROWS, replays_ahead=name == "passive",
    )  # fmt: skip
    with open_queue(path, "a") as queue:
        primary = Runner(make(source.schema), [source], queue, Targets())
        standby.follow()
        source.there += PERIOD_ROWS
        primary.run()
    seconds, done = first_output_s(standby, source)
    done.queue.close()
    return seconds


# -- processes ------------------------------------------------------------------------------------


@contextmanager
def process(role: str, **settings: Any) -> Iterator[Talking]:
    """One of standby_processes.py, once it is ready."""
    with closing(Talking(PROCESSES, role, settings)) as made:
        made.said()
        yield made


# -- the gap --------------------------------------------------------------------------------------


class Watcher(threading.Thread):
    """Notes when the durable output of a queue grows."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._chain = Chain(LocalFolder(path))
        self.grew_s: list[float] = []
        self.is_wanted = True

    def run(self) -> None:
        end = 0
        while self.is_wanted:
            offset = self._chain.refresh().offset
            if offset > end:
                end = offset
                self.grew_s.append(time.monotonic())
            time.sleep(0.001)

    def await_growth(self, times: int, within_s: float) -> None:
        """Wait until the output has grown so often.

        Raises:
            SystemExit: it has not within these seconds.
        """
        deadline_s = time.monotonic() + within_s
        while len(self.grew_s) < times:
            if time.monotonic() > deadline_s:
                raise SystemExit(
                    f"the output grew {len(self.grew_s)} times within {within_s:g} s, not {times}"
                )
            time.sleep(0.01)


def gap(asked: Options, number: int) -> tuple[float, float]:
    """Silence in the output around a SIGKILL, and the time until the standby knew; in seconds."""
    path = asked.folder / f"gap-{number}" / "queue"
    path.parent.mkdir()
    now_s = time.monotonic()
    settings = {"queue": str(path), "items": 1000, "rows_per_s": 50_000, "began_s": now_s}
    with process("primary", **settings, end_s=now_s + 60) as primary:
        watcher = Watcher(path)
        watcher.start()
        watcher.await_growth(5, within_s=30)
        with process("standby", **settings, scheme="active standby") as standby:
            time.sleep(0.6 + 0.037 * number)
            killed_s = time.monotonic()
            os.kill(primary.process.pid, signal.SIGKILL)
            told = standby.said()
            standby.process.wait()
    watcher.is_wanted = False
    watcher.join()
    grew_s = np.array(watcher.grew_s)
    around = (grew_s[1:] > killed_s) & (grew_s[:-1] < told["done_s"])
    silent_s = float(np.diff(grew_s)[around].max())
    shutil.rmtree(path.parent)
    print(
        f"killed: silent for {silent_s * 1e3:.0f} ms, known after "
        f"{(told['detected_s'] - killed_s) * 1e3:.0f} ms, taken over in "
        f"{(told['done_s'] - told['detected_s']) * 1e3:.0f} ms, {told['appended']} rows appended"
    )
    return silent_s, told["detected_s"] - killed_s


def gaps(asked: Options) -> dict[str, float]:
    measured = [gap(asked, number) for number in range(max(1, asked.rounds))]
    return {
        "active_gap_ms_vs_detection": statistics.median(
            silent / known for silent, known in measured
        ),
        "active_gap_ms": statistics.median(silent for silent, _ in measured) * 1e3,
        "detection_ms": statistics.median(known for _, known in measured) * 1e3,
    }


# -- the overhead ---------------------------------------------------------------------------------


def capacity(asked: Options, items: int) -> float:
    """Rows a second that a primary can take on one core, footprints and all."""
    path = asked.folder / "full"
    now_s = time.monotonic()
    settings = {"queue": str(path), "items": items, "rows_per_s": 1e9, "began_s": now_s, "core": 0}
    with process("primary", **settings, end_s=now_s + 60) as primary:
        # The first step of an input that is always there never ends: it says what it takes by
        # the size of its log.
        time.sleep(1.0)
        chain = Chain(LocalFolder(path))
        first, began_s = chain_rows(chain), time.monotonic()
        time.sleep(asked.size(full=4, quick=2))
        rows, seconds = chain_rows(chain) - first, time.monotonic() - began_s
        primary.process.kill()
    shutil.rmtree(path)
    return rows / seconds


def chain_rows(chain: Chain) -> int:
    chain.refresh()
    last = chain.last()
    return 0 if last is None else last.header.input_upto


def overhead(asked: Options) -> dict[str, float]:
    """The standby is stopped and continued by turns, beside one and the same primary."""
    items = asked.size(full=100_000, quick=100_000)
    rows_per_s = capacity(asked, items) / 2
    turns = 4 * max(1, asked.size(full=30, quick=4))
    path, turn_s, now_s = asked.folder / "followed", 1.0, time.monotonic()
    settings = {"queue": str(path), "items": items, "rows_per_s": rows_per_s,
                "began_s": now_s}  # fmt: skip
    end_s = now_s + 60 + turns * turn_s
    events: list[dict[str, Any]] = []
    with process("primary", **settings, core=0, end_s=end_s) as primary:
        # All the time: a primary whose pipe is full stands still.
        listener = threading.Thread(target=lambda: events.extend(primary.rest()))
        listener.start()
        time.sleep(1.0)
        core = (os.cpu_count() or 1) - 1
        with process("standby", **settings, core=core, scheme="passive standby") as standby:
            time.sleep(1.0)
            marks = []
            for number in range(turns):
                is_followed = number % 4 in (0, 3)
                os.kill(standby.process.pid, signal.SIGCONT if is_followed else signal.SIGSTOP)
                marks.append((time.monotonic(), is_followed))
                time.sleep(turn_s)
            marks.append((time.monotonic(), False))
            standby.process.kill()
        primary.process.kill()
        listener.join()
    shutil.rmtree(path)
    costs: dict[bool, list[float]] = {True: [], False: []}
    for (start_s, is_followed), (stop_s, _) in pairwise(marks):
        # A fifth of a second passes until what was stopped has caught up.
        inside = [event for event in events if start_s + 0.2 < event["at_s"] < stop_s]
        rows = inside[-1]["rows"] - inside[0]["rows"]
        costs[is_followed].append((inside[-1]["cpu_s"] - inside[0]["cpu_s"]) / rows)
    pairs = [a / b - 1 for a, b in zip(costs[True], costs[False], strict=True)]
    followed, alone = (statistics.median(costs[which]) for which in (True, False))
    print(
        f"{rows_per_s:,.0f} rows a second: {followed * 1e9:.1f} ns a row with a standby, "
        f"{alone * 1e9:.1f} without; of {len(pairs)} pairs of turns the middle half differ by "
        f"{np.percentile(pairs, 25):+.3f} to {np.percentile(pairs, 75):+.3f}"
    )
    return {"passive_overhead": followed / alone - 1, "primary_ns_per_row": alone * 1e9}


# -- small frames ---------------------------------------------------------------------------------

REPLAYED_ROWS = 10_000
WINDOW_US = 5_000
"""Windows of a third of the rows, so that there is output."""


def windows(schema: pa.Schema) -> Aggregate:
    return Aggregate(
        group_by=["item"],
        aggregates={"average": ("avg", "price")},
        window=TimeWindow(WINDOW_US),
        input_schema=schema,
    )


def small_frames(asked: Options) -> dict[str, float]:
    """The same rows in frames of ten and in one frame, by turns."""
    rows = bids(REPLAYED_ROWS, 500).combine_chunks()
    frames = {"small": 10, "one": REPLAYED_ROWS}
    for name, size in frames.items():
        schema = RecordSchema(rows.schema, timestamp_column="time")
        with open_queue(asked.folder / name, "x", schema=schema) as queue:
            for first in range(0, REPLAYED_ROWS, size):
                queue.append(rows.slice(first, size))
            for number in range(asked.rounds):
                queue.consumer(f"round-{number}").close()

    def replay(name: str) -> float:
        number = next(rounds[name])
        output = asked.folder / f"output {name} {number}"
        with open_queue(asked.folder / name, "a") as queue:
            make_one = partial(windows, rows.schema)
            with open_queue(output, "x", schema=record_schema(make_one())) as written:
                Runner(make_one(), [QueueSource(queue.chain)], written, checkpoints=False).run()
            source = QueueInput(queue, f"round-{number}")
            with Standby(output, make_one, [source], Scheme.UPSTREAM) as standby:
                began_s = time.process_time()
                done = standby.take_over()
                seconds = time.process_time() - began_s
            assert done.report.replayed_rows == REPLAYED_ROWS
            done.queue.close()
        return seconds

    rounds = {name: iter(range(asked.rounds)) for name in frames}
    took = race({name: partial(replay, name) for name in frames}, asked.rounds)
    for name, timing in took.items():
        print(
            f"{name:<6} best {timing.best * 1e3:>7.1f} ms   median {timing.median * 1e3:>7.1f} ms"
        )
    small, one = took["small"].best, took["one"].best
    return {"smallframes_vs_one": small / one, "smallframes_ms": small * 1e3}


def main(asked: Options) -> None:
    report({**takeovers(asked), **gaps(asked), **overhead(asked), **small_frames(asked)})


if __name__ == "__main__":
    with options(__doc__, turns=(7, 2)) as asked:
        main(asked)
