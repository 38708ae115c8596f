"""A process that holds a consumer's name until it is killed."""

from pathlib import Path

from cec_store import open_queue


def hold(path: Path, held: object, done: object) -> None:
    with open_queue(path) as queue, queue.consumer("hourly", start=2) as consumer:
        consumer.acknowledge(effects_saved=5)
        held.set()  # type: ignore[attr-defined]
        done.wait(60)  # type: ignore[attr-defined]
