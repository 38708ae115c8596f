"""How many small changes of the code the tests notice: `make mutate`.

Each mutant is a copy of the project with one operator, constant, condition, call or return value
changed. The tests named below for its module must fail, or hang. Mutants are drawn at random, so
many for each module, by a seed. Prints the survivors, and a line for docs/durability.md.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from support.paths import ROOT

COPIED = ("cec_store", "indexes", "connectors", "tests", "bench", "examples", "docs",
          "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "CONTRIBUTING.md")  # fmt: skip
FRAME = ("format/test_frame", "log/test_segment", "format/test_golden_vectors", "log/test_tail")
LOG = (
    "queues/test_queue",
    "queues/test_opening",
    "verbs/test_housekeeping",
    "format/test_golden_vectors",
    "log/test_replay",
    "queues/test_trimming",
)
REBUILD = (
    "checkpoints/test_last_rows",
    "checkpoints/test_rebuild",
    "connectors/checkpoint/test_checkpoint",
    "operators/test_recovery",
    "state_logs/test_state_log",
)
INDEX = tuple(
    f"indexes/test_{name}" for name in ("memory", "rows", "files", "timestamp_index", "damage")
)
TESTS = {
    "cec_store/format/frame.py": FRAME,
    "cec_store/log/tail.py": ("log/test_tail", "queues/test_opening", "faults/test_bit_flips"),
    "cec_store/queues/appendable_queue.py": LOG,
    "cec_store/checkpoints/rebuild.py": REBUILD,
    "cec_store/checkpoints/last_rows.py": (
        "checkpoints/test_last_rows",
        "checkpoints/test_rebuild",
    ),
    "indexes/entries.py": INDEX,
    "indexes/lmdb_file.py": INDEX,
    "indexes/files.py": INDEX,
    "indexes/recent.py": INDEX,
    "indexes/stored.py": INDEX,
    "indexes/timestamp.py": INDEX,
}  # fmt: skip
"""By module, the test files that are about it, the quickest first. Slower ones, of which
crash_states would notice more, are left out: the score is a lower bound."""
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATIONS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitXor: ast.BitOr, ast.Div: ast.Mult,
}  # fmt: skip
LEFT_OUT = (ast.Expr, ast.Raise, ast.AugAssign, ast.Break, ast.Continue)
Change = Callable[[], None]
"""Changes a syntax tree in place."""


class Mutant(NamedTuple):
    module: str
    place: int
    """Its number among those of the module."""
    what: str


def changes(tree: ast.Module) -> Iterator[tuple[str, Change]]:
    """All mutants of a module: what each is, and what makes it."""
    skipped = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns", "decorator_list"):
            of = getattr(node, name, None)
            for part in of if isinstance(of, list) else [of]:
                if isinstance(part, ast.AST):
                    skipped.update(map(id, ast.walk(part)))
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, ast.walk(node)))  # the words of a message
        if isinstance(node, ast.Raise):
            skipped.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) not in skipped:
            for what, change in _changes_of(node):
                yield f"line {getattr(node, 'lineno', 0)}: {what}", change


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Change]]:
    def set_to(name: str, value: object, of: ast.AST = node) -> Change:
        return lambda: setattr(of, name, value)

    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        other = COMPARISONS[type(node.ops[0])]()
        ops = [other, *node.ops[1:]]
        yield f"{ast.unparse(node)} with {type(other).__name__}", set_to("ops", ops)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATIONS:
        other = OPERATIONS[type(node.op)]()
        yield f"{ast.unparse(node)} with {type(other).__name__}", set_to("op", other)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{ast.unparse(node)} with {type(other).__name__}", set_to("op", other)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} negated", set_to("value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield f"{node.value} + 1", set_to("value", node.value + 1)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        test = ast.UnaryOp(ast.Not(), node.test)
        yield f"not ({ast.unparse(node.test)})", set_to("test", test)
    elif isinstance(node, ast.Return) and not _is_none(node.value):
        yield f"{ast.unparse(node)} as None", set_to("value", ast.Constant(None))
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        for place, child in enumerate(block if isinstance(block, list) else ()):
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, LEFT_OUT) and not is_text:
                yield f"without {ast.unparse(child)}", _replace(block, place)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _replace(block: list[ast.stmt], place: int) -> Change:
    return lambda: block.__setitem__(place, ast.Pass())


def mutants_of(module: str) -> list[Mutant]:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return [Mutant(module, place, what) for place, (what, _) in enumerate(changes(tree))]


def text_of(mutant: Mutant) -> str:
    tree = ast.parse((ROOT / mutant.module).read_text(encoding="utf-8"))
    _, change = list(changes(tree))[mutant.place]
    change()
    return ast.unparse(ast.fix_missing_locations(tree))


def copy_project(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
            shutil.copytree(source, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    return folder


def passes(folder: Path, module: str, timeout_s: float | None) -> bool:
    files = [f"tests/{name}.py" for name in TESTS[module]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not spark", *files]
    environment = {
        **os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1",
        "CEC_CRASH": "quick",
    }  # fmt: skip
    process = subprocess.Popen(
        [*command, "-p", "no:cacheprovider", "-p", "no:randomly"], cwd=folder, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        return process.wait(timeout_s) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def survives(mutant: Mutant, folders: SimpleQueue, timeout_s: float) -> bool:
    folder = folders.get()
    file = folder / mutant.module
    try:
        file.write_text(text_of(mutant), encoding="utf-8")
        return passes(folder, mutant.module, timeout_s)
    finally:
        shutil.copy(ROOT / mutant.module, file)
        folders.put(folder)


def survivors(
    module: str, count: int, seed: int, folders: SimpleQueue, jobs: int
) -> tuple[list[Mutant], list[Mutant]]:
    """The mutants drawn, and those among them that no test notices."""
    drawn = mutants_of(module)
    random.Random(seed).shuffle(drawn)
    drawn = drawn[:count]
    folder = folders.get()
    began = time.monotonic()
    if not passes(folder, module, None):
        raise SystemExit(f"the tests of {module} fail without any change")
    timeout_s = 30 + 4 * (time.monotonic() - began)
    folders.put(folder)
    with ThreadPoolExecutor(jobs) as pool:
        alive = list(pool.map(lambda mutant: survives(mutant, folders, timeout_s), drawn))
    return drawn, [mutant for mutant, lives in zip(drawn, alive, strict=True) if lives]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=40, help="mutants of each module (40)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("modules", nargs="*", help="all of them")
    asked = parser.parse_args()
    began = time.monotonic()
    tried = survived = 0
    with tempfile.TemporaryDirectory() as folder:
        folders: SimpleQueue = SimpleQueue()
        for number in range(asked.jobs):
            folders.put(copy_project(Path(folder) / str(number)))
        for module in asked.modules or TESTS:
            drawn, left = survivors(module, asked.each, asked.seed, folders, asked.jobs)
            tried, survived = tried + len(drawn), survived + len(left)
            print(f"{module}: {len(drawn) - len(left)} of {len(drawn)} noticed", flush=True)
            for mutant in left:
                print(f"  {mutant.what}", flush=True)
    score = 100 * (tried - survived) / tried
    seconds = time.monotonic() - began
    print(
        f"| mutants | {tried:,} mutants, {score:.1f} % noticed | {asked.seed} | {seconds:,.0f} s |"
    )


if __name__ == "__main__":
    main()
