"""Where the rows of small appends go: into the commit itself, or into data objects."""

import pytest

from cec_store.partitioned.by_reference import reference_writer

LAYOUTS = ("inline", "objects")


def put_into_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have appends make data objects, however few their rows are."""
    monkeypatch.setattr(reference_writer, "INLINE_BYTES_MAX", -1)
