"""What users may give as a path: one of the local file system."""

from __future__ import annotations

import os
import re
from typing import Union

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
PATH_TYPES = (str, bytes, os.PathLike)
# pathlib makes one slash of two, so that a known scheme counts with one as well.
_SCHEME = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://"
    r"|(hdfs|webhdfs|viewfs|s3a?|s3n|gs|gcs|abfss?|wasbs?|adl|oss|dbfs|https?|s?ftp|file):/"
)


def check_local(path: str) -> str:
    """The path itself.

    Raises:
        ValueError: it is empty, or names another file system.
    """
    if not path:
        raise ValueError("the path is empty")
    found = _SCHEME.match(path)
    if found:
        scheme = found[1] or found[2]
        advice = "leave the scheme away" if scheme == "file" else "mount it, or copy what is there"
        raise ValueError(f"{path}: only local paths are read, not {scheme}://; {advice}")
    return path
