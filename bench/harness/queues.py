"""Queues without partitions, opened to be read."""

from __future__ import annotations

from pathlib import Path

from cec_store import OutputQueue, open_queue


def output_queue(path: Path | str) -> OutputQueue:
    """Open the queue at the path to read it; it must be one without partitions."""
    queue = open_queue(path)
    assert isinstance(queue, OutputQueue)
    return queue
