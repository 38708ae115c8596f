"""Paths as users may give them, and the rule that tells URLs of stores from local paths."""

from __future__ import annotations

import os
import re
from typing import Union

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
PATH_TYPES = (str, bytes, os.PathLike)
# pathlib makes one slash of two, so that a known scheme counts with one as well.
_SCHEME = re.compile(
    r"([A-Za-z][A-Za-z0-9+.:-]*)://"
    r"|(hdfs|webhdfs|viewfs|s3a?|s3n|gs|gcs|abfss?|wasbs?|adl|oss|dbfs|https?|s?ftp|file):/"
)


def check_local(path: str) -> str:
    """The path itself, of the local file system.

    Raises:
        ValueError: it is empty, or names another file system.
    """
    if not path:
        raise ValueError("the path is empty")
    match = _SCHEME.match(path)
    if match:
        scheme = match[1] or match[2]
        advice = "name one of this machine"
        if not match[1]:  # pathlib makes one slash of two
            advice = f"a URL begins with {scheme}://, and is given as text"
        raise ValueError(f"{path}: only local paths are taken here, not {scheme}://; {advice}")
    return path


def is_url(path: AnyPath) -> bool:
    """Return True for the URL of a store, such as ``s3://bucket/queue``; ``file://`` is none."""
    match = _SCHEME.match(os.fsdecode(path))
    return match is not None and match[1] is not None and match[1].lower() != "file"
