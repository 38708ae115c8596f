"""Modules that a verb is given by name are looked for in the working folder first."""

import sys


def look_in_working_folder() -> None:
    """Put the working folder before all others that Python looks into, as `python -m` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")
