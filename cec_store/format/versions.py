"""What is said of bytes that another release wrote."""

from __future__ import annotations

from cec_store.errors import UnsupportedVersion


def unknown_version(version: int, known: int) -> str:
    """Why bytes of this format version are not read."""
    return f"format version {version}; this release reads {known}"


def upgrade_needed(path: str, reason: str) -> UnsupportedVersion:
    """The error for a file that only a later release can read."""
    return UnsupportedVersion(f"{path}: {reason}: upgrade cec-store")
