"""Prints the least versions of what the package needs, as pip takes them: `make test-oldest`."""

import re
from pathlib import Path

from support.paths import ROOT

_BOUND = re.compile(r'"([A-Za-z0-9_-]+)>=([0-9.]+)[",]')
_LISTS = re.compile(r"^(?:dependencies|fast) = \[(.*?)\]", re.MULTILINE | re.DOTALL)


def least_versions(pyproject: Path) -> dict[str, str]:
    """Of the package itself and its extra `fast`, by name; each must have one."""
    lists = _LISTS.findall(pyproject.read_text("utf-8"))
    lines = [line.split("#")[0] for part in lists for line in part.splitlines()]
    found = dict(pair for line in lines for pair in _BOUND.findall(line + ","))
    unbound = [line.strip() for line in lines if line.strip() and not _BOUND.search(line + ",")]
    if unbound:
        raise ValueError(f"no least version: {unbound}")
    return found


if __name__ == "__main__":
    for name, least in least_versions(ROOT / "pyproject.toml").items():
        print(f"{name}=={least}")
