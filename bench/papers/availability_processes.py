"""The availability paper's aggregate on real processes, beside the simulation of it.

An input queue, a primary, its standby and what reads the output, each a process; Table 5's rate,
tuple size, interval and detection, but one machine: no links, no redirection of streams, and a disk
where the paper has memory. A primary is killed at a random moment. For each scheme and interval:

log, %       bytes of the log for checkpoints, over those of the input: what the primary's log has
             more than that of a primary without checkpoints
read, %      bytes that the standby reads of files while the primary lives, over those of the input
recovery     from detection until the durable output reflects all input that the primary had taken

bench/papers/availability.py has the simulation alone. A full run writes the results file
bench/papers/availability_processes.json and the tables of docs/evaluation.md.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.harness.machine import describe
from bench.harness.rounds import Options, options, report
from bench.harness.talking import Talking
from bench.papers.availability_tables import process_tables
from bench.papers.report import publish
from bench.simulators.standby.networks import aggregate_network
from bench.simulators.standby.runs import Size, simulate
from cec_store.log.chain import Chain
from cec_store.standby.schemes import Scheme, System
from cec_store.storage.local import LocalFolder

NODES = Path(__file__).with_name("availability_nodes.py")
SYSTEM = System()
LINES = {
    "amnesia": (Scheme.AMNESIA, 2.0),
    "passive standby": (Scheme.PASSIVE, 2.0),
    "upstream backup": (Scheme.UPSTREAM, 2.0),
    "active standby": (Scheme.ACTIVE, 2.0),
    "eventual, Q = 2 N": (Scheme.EVENTUAL, 2.0),
    "eventual, Q = N": (Scheme.EVENTUAL, 1.0),
}
INTERVALS_MS = (25, 50, 100, 200)
STEADY_S = 1.0
DEADLINE_S = 30.0


@dataclass(frozen=True)
class Measured:
    """One failure, and the second before it."""

    log_bytes_per_tuple: float
    read_bytes_per_tuple: float
    recovery_ms: float
    input_again: float
    lost: float


@contextmanager
def node(role: str, settings: dict[str, Any]) -> Iterator[Talking]:
    """One of availability_nodes.py, once it is ready."""
    with closing(Talking(NODES, role, settings)) as made:
        made.said()
        yield made


def log_bytes(queue: Path) -> int:
    return sum(segment.stat().st_size for segment in queue.glob("*.seg"))


def chain_of(path: Path) -> Chain:
    deadline_s = time.monotonic() + DEADLINE_S
    while not any(path.glob("*.seg")):
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{path}: the primary has written nothing")
        time.sleep(0.01)
    return Chain(LocalFolder(path))


def taken(chain: Chain) -> int:
    """Return the number of input tuples that the durable output reflects."""
    chain.refresh()
    last = chain.last()
    return 0 if last is None else last.header.input_upto


def failure(
    folder: Path, scheme: Scheme, factor: float, interval_s: float, pause_s: float
) -> Measured:
    """Start all three, let them run, and kill the primary."""
    folder.mkdir()
    settings = {
        "input": str(folder / "input"), "queue": str(folder / "output"), "scheme": scheme.value,
        "interval_s": interval_s, "tuples_per_s": SYSTEM.tuples_per_s, "extent_factor": factor,
    }  # fmt: skip
    with ExitStack() as held:
        held.enter_context(node("input", settings))
        primary = held.enter_context(node("primary", settings))
        chain = chain_of(folder / "output")
        held.enter_context(node("downstream", settings))
        standby = held.enter_context(node("standby", settings))
        time.sleep(0.3)
        before = taken(chain), log_bytes(folder / "output"), standby.read_bytes()
        time.sleep(STEADY_S)
        after = taken(chain), log_bytes(folder / "output"), standby.read_bytes()
        time.sleep(pause_s)
        os.kill(primary.process.pid, signal.SIGKILL)
        reached = taken(chain)
        told = standby.said()
        goal_s = time.monotonic() + DEADLINE_S
        while taken(chain) <= reached:
            if time.monotonic() > goal_s:
                raise SystemExit(f"{scheme.value}: no output {DEADLINE_S:.0f} s after the takeover")
            time.sleep(0.0005)
        seen_s = time.monotonic()
    shutil.rmtree(folder)
    tuples, written, read = (new - old for old, new in zip(before, after, strict=True))
    return Measured(
        written / tuples, read / tuples, 1e3 * (seen_s - told["detected_s"]),
        told["input_again"], told["lost"],
    )  # fmt: skip


def median(measured: list[Measured]) -> Measured:
    rows = [asdict(one) for one in measured]
    return Measured(**{name: statistics.median(row[name] for row in rows) for name in rows[0]})


def simulated(scheme: Scheme, factor: float, interval_s: float, size: Size) -> dict[str, float]:
    """The model's point at the same interval."""
    system = replace(SYSTEM, interval_s=interval_s)
    point = simulate(system, aggregate_network(), scheme, size, extent_factor=factor)
    return {"overhead_percent": point.overhead_percent, "recovery_ms": point.recovery_ms,
            "input_again": point.replayed, "lost": point.lost}  # fmt: skip


def points(asked: Options) -> dict[str, dict[str, dict[str, float]]]:
    """Return the points by interval and line; failures of all lines take turns."""
    rng = random.Random(2005)
    size = Size(runs=3, run_s=10.0, failures=20) if asked.quick else Size(runs=10)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for ms in (50,) if asked.quick else INTERVALS_MS:
        measured: dict[str, list[Measured]] = {name: [] for name in LINES}
        for number in range(asked.rounds):
            for name, (scheme, factor) in LINES.items():
                folder = asked.folder / f"{ms}-{number}-{name.replace(' ', '')}"
                pause_s = rng.uniform(0, ms / 1e3)
                measured[name].append(failure(folder, scheme, factor, ms / 1e3, pause_s))
        bare = median(measured["upstream backup"]).log_bytes_per_tuple
        figures[str(ms)] = {}
        for name, (scheme, factor) in LINES.items():
            middle = median(measured[name])
            model = simulated(scheme, factor, ms / 1e3, size)
            figures[str(ms)][name] = {
                "log_percent": 100 * (middle.log_bytes_per_tuple - bare) / SYSTEM.tuple_bytes,
                "read_percent": 100 * middle.read_bytes_per_tuple / SYSTEM.tuple_bytes,
                "recovery_ms": middle.recovery_ms,
                "input_again": middle.input_again,
                "lost": middle.lost,
                **{f"simulated_{key}": value for key, value in model.items()},
            }
            print(f"{ms:>4} ms  {name:<20}" + "".join(
                f"  {key} {value:.1f}" for key, value in figures[str(ms)][name].items()
            ))  # fmt: skip
    return figures


def main(asked: Options) -> None:
    figures: dict[str, Any] = {"availability_processes": points(asked)}
    machine = describe(asked.folder)
    machine["command"] = "python bench/papers/availability_processes.py" + " --quick" * asked.quick
    figures["availability_processes_machine"] = machine
    publish(figures, "availability_processes", process_tables(), quick=asked.quick)
    at_50 = figures["availability_processes"]["50"]
    report({
        "passive_recovery_ms": at_50["passive standby"]["recovery_ms"],
        "upstream_recovery_ms": at_50["upstream backup"]["recovery_ms"],
        "active_recovery_ms": at_50["active standby"]["recovery_ms"],
        "eventual_recovery_ms": at_50["eventual, Q = 2 N"]["recovery_ms"],
    })  # fmt: skip


if __name__ == "__main__":
    with options(__doc__, turns=(5, 1)) as asked:
        main(asked)
