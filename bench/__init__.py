"""Benchmarks, in rooms; `make bench` runs those that have targets and writes RESULTS.md.

A script is run by its path, ``.venv/bin/python bench/micro/append.py --quick``, and imports others
by their full names, ``bench.harness.rounds``: the environment that `make setup` makes has the
checkout on its path. Importing this package puts the tests' helpers there too, as ``support``.
"""

import sys
from pathlib import Path

# At the end, so that no folder below tests/ hides a package of its name.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
