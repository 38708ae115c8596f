"""A reader in a process of its own: takes what there is, acknowledges, and comes back."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

from cec_store import ConsumerInUse, Position, open_queue


def consume(path: Path, name: str, seed: int) -> None:
    """Until it is killed; exits with 1 when a record is missing."""
    rng = random.Random(seed)
    print("ready", flush=True)
    while True:
        queue = open_queue(path)
        try:
            consumer = queue.consumer(name)
        except ConsumerInUse:
            continue  # the one that was killed is not quite gone
        with consumer:
            due = consumer.effects_saved  # what was received and not saved is read again
            for _ in range(rng.randint(1, 8)):
                for batch in queue.replay(Position(due)):
                    numbers = batch.column("n").to_numpy()
                    expected = np.arange(due, due + len(numbers))
                    if not np.array_equal(numbers, expected):
                        sys.exit(f"{name}: due {due}, found {numbers[:3]} …")
                    due += len(numbers)
                saved = rng.randint(consumer.effects_saved, due)
                consumer.acknowledge(received=due, effects_saved=saved)


if __name__ == "__main__":
    consume(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
