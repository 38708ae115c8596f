"""Packages and programs that some tests need: skipped without them, or failed where required."""

from __future__ import annotations

import os
import shutil
from importlib import import_module

import pytest

from support.runs.counts import CRASH_FULL

REQUIRED = os.environ.get("CEC_STORES") == "required"


def at_full_size(reason: str) -> list[pytest.MarkDecorator]:
    """For a file of tests that take minutes on real stores."""
    full = f"{reason}: at full size, with CEC_STORES=required"
    return [pytest.mark.crash, pytest.mark.skipif(not (REQUIRED and CRASH_FULL), reason=full)]


def need(*names: str) -> None:
    """Skip the test, or the file, where one of these cannot be imported; the reason says which.

    With CEC_STORES=required in the environment it fails instead.
    """
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            if REQUIRED:
                raise
            pytest.skip(f"{name} cannot be imported: {error}", allow_module_level=True)


def need_program(name: str) -> None:
    """Skip the test where this machine has no such program; fail it with CEC_STORES=required."""
    if shutil.which(name) is None:
        if REQUIRED:
            raise FileNotFoundError(f"{name} is not installed, and CEC_STORES=required")
        pytest.skip(f"{name} is not installed")
