"""Acting for a while as a user who may not do everything, whoever runs the tests."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Give up root's rights for the block; others have none to give up."""
    if os.geteuid():
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextmanager
def open_to_all() -> Iterator[Path]:
    """A folder that everybody may enter, which pytest's own are not."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    try:
        yield top
    finally:
        for folder, _, _ in os.walk(top):
            os.chmod(folder, 0o755)
        shutil.rmtree(top)
