"""Feeds hostile bytes to a target, with runs or with saved inputs. After `export PYTHONPATH=tests`:

    python -m support.fuzzing.fuzz body --runs 100000 --seed 19      mutations of the corpus
    python -m support.fuzzing.fuzz body --runs 100000 --atheris      the same, guided by coverage
    python -m support.fuzzing.fuzz body FILE …                       these inputs alone

An input is in the folder `--save`, named after its target, while it is being read, so that it is
there after a crash. The target `all` is each in turn.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.paths import CORPUS

MEMORY_BYTES = 2 << 30
INPUT_BYTES_MAX = 8 << 10
_EDGES = [0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63]


def mutated(data: bytes, others: list[bytes], generator: random.Random) -> bytes:
    """A few changes: bits, numbers at their edges, pieces cut, repeated or taken from elsewhere."""
    made = bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 2, 4, 8])):
        at = generator.randrange(len(made) + 1)
        size = generator.choice([1, 2, 4, 8, 16, 64])
        kind = generator.randrange(7)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            width = generator.choice([1, 2, 4, 8])
            edge = generator.choice(_EDGES) + generator.randrange(-2, 3)
            at -= at % width if generator.random() < 0.8 else 0
            number = (edge % 2 ** (8 * width)).to_bytes(width, generator.choice(["little", "big"]))
            made[at : at + width] = number
        elif kind == 2:
            made[at : at + size] = generator.randbytes(size)
        elif kind == 3:
            del made[at : at + size]
        elif kind == 4:
            made[at:at] = made[at : at + size] * generator.choice([1, 1, 3])
        elif kind == 5:
            other = generator.choice(others)
            start = generator.randrange(len(other) + 1)
            made[at : at + size] = other[start : start + size]
        else:
            del made[at:]
    return bytes(made[:INPUT_BYTES_MAX])


def corpus_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def saving(path: Path) -> Callable[[bytes], object]:
    """Keeps the newest input in a file that stays open: closing a rewritten one waits for disks."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def save(data: bytes) -> None:
        os.pwrite(file, data, 0)
        os.ftruncate(file, len(data))

    return save


def run_alone(target: Any, corpus: list[bytes], runs: int, seed: int,
              note: Callable[[bytes], object]) -> tuple[int, int]:  # fmt: skip
    """The corpus and then mutations of it; how many of all were taken for sound, how many not."""
    generator = random.Random(seed)
    outcomes = [0, 0]
    for data in corpus:
        note(data)
        outcomes[not target(data)] += 1
    for _ in range(runs):
        data = mutated(generator.choice(corpus), corpus, generator)
        data = target.mend(data) if generator.random() < 0.7 else data
        note(data)
        outcomes[not target(data)] += 1
    return outcomes[0], outcomes[1]


def run_guided(name: str, runs: int, seed: int, note: Callable[[bytes], object]) -> None:
    """By libFuzzer, which keeps what reaches new code. It ends the process."""
    import atheris

    with atheris.instrument_imports(include=["cec_store"]):
        from support.fuzzing.targets import TARGETS
    target, corpus = TARGETS[name], corpus_of(name)

    def once(data: bytes) -> None:
        note(data)
        target(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        generator = random.Random(seed)
        changed = atheris.Mutate(data, max_size) if generator.random() < 0.3 else (
            mutated(data, corpus, generator))  # fmt: skip
        return (target.mend(changed) if generator.random() < 0.7 else changed)[:max_size]

    with tempfile.TemporaryDirectory() as found:
        words = [f"-runs={runs}", f"-seed={seed}", f"-max_len={INPUT_BYTES_MAX}", "-verbosity=0",
                 "-rss_limit_mb=0", "-print_final_stats=0", found, str(CORPUS / name)]  # fmt: skip
        atheris.Setup([sys.argv[0], *words], once, custom_mutator=mutate)
        atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    def noting(name: str) -> Callable[[bytes], object]:
        return saving(given.save / name) if given.save else len

    if given.atheris:
        run_guided(given.target, given.runs, given.seed, noting(given.target))
        return
    from support.fuzzing.targets import TARGETS

    for name in TARGETS if given.target == "all" else [given.target]:
        corpus = [file.read_bytes() for file in given.files] or corpus_of(name)
        print(name, *run_alone(TARGETS[name], corpus, given.runs, given.seed, noting(name)))


if __name__ == "__main__":
    main()
