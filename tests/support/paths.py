"""Where things are in a checkout: the one place that counts parent folders."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
SUPPORT = TESTS / "support"
DATA = TESTS / "data"
VECTORS = DATA / "vectors" / "v1"
CORPUS = DATA / "corpus"
SNAPSHOTS = DATA / "snapshots"
SNAPSHOT_QUEUE = SNAPSHOTS / "queue"
SCALA = SUPPORT / "scala"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
BENCH = ROOT / "bench"


def below_tests(path: Path) -> str:
    """How lists of test files name one: `faults/test_sizes.py`."""
    return path.resolve().relative_to(TESTS).as_posix()
