"""Texts of the command line that are pinned; CEC_SNAPSHOTS=write writes them anew."""

import os
from pathlib import Path


def pinned(path: Path, text: str) -> None:
    """Raises where a text is another than that in the file."""
    if os.environ.get("CEC_SNAPSHOTS") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
