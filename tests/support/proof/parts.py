"""The parts of the proof: what runs each, what it is about, and how much it has to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from bench.harness.targets import all_targets
from support.proof import counts
from support.proof.counts import Tally
from support.proof.trees import PRODUCT
from support.release.interpreters import MINORS, find
from support.release.sparks import PINNED, SPARKS
from support.runs.suites import SUITES
from support.spark_suites.run import SUITES as SPARKS_OWN

MINUTES_MAX = 100
"""A part that takes longer is ended, and has to be cut in two."""
SOURCES = (*PRODUCT, "bench", "tests", "examples", "pyproject.toml")
PAGES = (*PRODUCT, "docs", "mkdocs.yml", "README.md", "CONTRIBUTING.md", "pyproject.toml")
PACKAGED = (*PRODUCT, "pyproject.toml")
SPARK_ROOMS = {
    "state": ("tests/connectors/provider", "tests/connectors/transforms"),
    "queues": ("tests/connectors/queues", "tests/connectors/checkpoint"),
    "clusters": (
        *(f"tests/connectors/{room}" for room in ("executors", "fleet", "takeover", "setup")),
        *(f"tests/connectors/{room}" for room in ("moving", "progress")),
        "tests/faults", "tests/inspector", "tests/tidy",
    ),
}  # fmt: skip
"""Folders of tests in real Sparks, of which each part takes one list."""
BENCHES = {
    "micro": ("micro",),
    "papers-cec": ("papers/cec.py",),
    "papers-others": ("papers/availability.py", "papers/migration.py"),
    "spark-stores": ("spark/providers.py", "spark/small_loads.py", "spark/transform_with_state.py"),
    "spark-watermarks": ("spark/watermarks.py",),
    "spark-large": ("spark/large_state.py",),
    "spark-queues": ("spark/sink.py", "spark/source.py", "spark/read_state.py", "spark/adopt.py"),
    "spark-clusters": ("spark/replicas.py", "spark/standby.py"),
    "fleet": ("fleet",),
}
"""Scripts of `make bench`, or a room with all of its scripts that have targets."""
LEAST = {
    "simulated": 1_000_000, "sigkill": 12_000, "power": 10_000, "writeback": 200, "calls": 10_000,
    "flips": 1_000_000, "blind": 21_000, "index": 20_000, "fencing": 20_000, "standbys": 2_000,
    "clocks": 50_000, "sizes": 26, "fuzz": 8_000_000, "planted": 39,
}  # fmt: skip
"""Cases that a fault suite at full size has tried at least; of the others, any."""


NAMED = MINORS[:-1]
"""Pythons that pyproject.toml has classifiers of; another is told, and not waited for."""


@dataclass(frozen=True)
class Part:
    """One sitting of the proof."""

    name: str
    command: tuple[str, ...]
    what: str
    tally: Callable[[str], Tally | None] = counts.of_tests
    least: int = 1
    subjects: tuple[str, ...] = PRODUCT
    """Paths whose content at the commit a result is about."""
    is_required: bool = True
    """False where a result is told, and 0.1.0 does not wait for it."""
    needs: str = ""
    """Minor of Python that the machine has to have."""

    @property
    def is_possible(self) -> bool:
        return not self.needs or find(self.needs) is not None


def fault_suites() -> list[Part]:
    parts = [
        Part(f"crash-{name}", ("make", "crash", f"SUITE={name}"), f"fault suite *{name}*",
             counts.of_suites, LEAST.get(name, 1))
        for name in SUITES
        if name != "spark"
    ]  # fmt: skip
    return parts + [
        Part(f"crash-spark-{name}", ("make", "crash", "SUITE=spark", f"FILES={' '.join(rooms)}"),
             f"faults in real Sparks: {name}", counts.of_suites)
        for name, rooms in SPARK_ROOMS.items()
    ]  # fmt: skip


def scripts_of(entries: tuple[str, ...]) -> list[str]:
    """Return the scripts that a list of BENCHES stands for."""
    return [s for s in _scripts() if s in entries or s.split("/")[0] in entries]


@cache
def _scripts() -> tuple[str, ...]:
    return tuple(dict.fromkeys(target.script for target in all_targets()))


def suites_of_spark() -> dict[str, list[str]]:
    """Return Spark's own suites by the part that runs them."""
    groups: dict[str, list[str]] = {"transforms": [], "joins": [], "others": []}
    for name in SPARKS_OWN:
        is_join = name.startswith("Streaming") and "Join" in name
        of = "transforms" if name.startswith("Transform") else "joins" if is_join else "others"
        groups[of].append(name)
    return groups


def all_parts() -> dict[str, Part]:
    """Return the parts by name, in the order of the page."""
    parts = [
        Part("check", ("make", "check"), "ruff, mypy strict", counts.of_commands, 1, SOURCES),
        Part("docs", ("make", "docs"), "the site without a warning", counts.of_commands, 1, PAGES),
        Part("tests-plain", ("make", "test-plain"), "all tests without Spark"),
        *(
            Part(f"tests-spark-{name}", ("make", "test-spark", f"FILES={' '.join(rooms)}"),
                 f"all tests in Spark {PINNED}: {name}")
            for name, rooms in SPARK_ROOMS.items()
        ),
        *fault_suites(),
        Part("mutants", ("make", "mutate"), "small changes of the code that tests notice",
             counts.of_mutants),
        *(
            Part(f"suites-{name}", ("make", "test-spark-suites", f"SUITES={' '.join(suites)}"),
                 f"{len(suites)} of Spark's own suites: {name}", counts.of_sparks_suites)
            for name, suites in suites_of_spark().items()
        ),
        *(
            Part(f"minor-{spark}", ("make", "test-spark-minor", f"SPARK={spark}"),
                 f"tests that apply to Spark {spark}")
            for spark in SPARKS
            if spark != PINNED
        ),
        Part("oldest", ("make", "test-oldest"), "the least versions of all dependencies",
             subjects=PACKAGED),
        *(
            Part(f"wheel-{minor}", ("make", "test-wheel"), f"the wheel on Python {minor}",
                 subjects=PACKAGED, needs=minor, is_required=minor in NAMED)
            for minor in MINORS
        ),
        *(
            Part(f"bench-{name}", ("make", "bench", f"ONLY={' '.join(scripts_of(entries))}"),
                 f"targets of {', '.join(entries)}", counts.of_bench)
            for name, entries in BENCHES.items()
        ),
        *(
            Part(f"findings-{share}", ("make", "findings", f"SHARE={share}"),
                 f"behaviour of others, share {share} of 2", counts.of_findings, 0, ("findings",),
                 is_required=False)
            for share in (1, 2)
        ),
    ]  # fmt: skip
    return {part.name: part for part in parts}


PARTS = all_parts()
