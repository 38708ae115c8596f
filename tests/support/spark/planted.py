"""Bugs to be planted in the provider's sources before the programs of the tests are compiled."""

from pathlib import Path

_PLANTED: list[tuple[str, str, str]] = []
"""A file below `scala`, what stands there once, and what stands there with the bug."""


def plant(file: str, right: str, wrong: str) -> None:
    """From now on, in this process."""
    _PLANTED.append((file, right, wrong))


def is_any() -> bool:
    return bool(_PLANTED)


def into(scala: Path) -> None:
    """Put the bugs into a copy of the sources.

    Raises:
        AssertionError: the source does not read as it did when the bug was thought up.
    """
    for file, right, wrong in _PLANTED:
        text = (scala / file).read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{file} does not have once: {right}"
        (scala / file).write_text(text.replace(right, wrong), encoding="utf-8")
