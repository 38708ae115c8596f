"""What users may give as a path, and which of these are URLs."""

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
    found = _SCHEME.match(path)
    if found:
        scheme = found[1] or found[2]
        advice = "name one of this machine"
        if not found[1]:  # pathlib makes one slash of two
            advice = f"a URL begins with {scheme}://, and is given as text"
        raise ValueError(f"{path}: only local paths are taken here, not {scheme}://; {advice}")
    return path


def is_url(path: AnyPath) -> bool:
    """Whether this names a store, as ``s3://bucket/queue`` does, and no local file."""
    found = _SCHEME.match(os.fsdecode(path))
    return found is not None and found[1] is not None and found[1].lower() != "file"
