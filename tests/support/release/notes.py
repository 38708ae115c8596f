"""Release notes and checksums."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from support.release.interpreters import Outcome

CHECKSUMS = "SHA256SUMS"
_PRE_RELEASE = re.compile(r"(?:a|b|rc|\.dev)\d+$")


def final_version(version: str) -> str:
    """Return the release that a pre-release is to become."""
    return _PRE_RELEASE.sub("", version)


def is_pre_release(version: str) -> bool:
    return final_version(version) != version


def changes(changelog: str, version: str) -> str:
    """Return what the changelog says of a version, or of the one that it is to become.

    Raises:
        SystemExit: it says nothing.
    """
    section = re.search(
        rf"^## \[{re.escape(final_version(version))}\][^\n]*\n(.*?)(?=^## |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if section is None or not section[1].strip():
        raise SystemExit(f"CHANGELOG.md says nothing of {final_version(version)}")
    return section[1].strip()


def rendered(
    version: str,
    commit: str,
    changed: str,
    files: Iterable[tuple[str, int]],
    outcomes: Iterable[Outcome],
    gaps: Iterable[str],
) -> str:
    """Return the page that goes with a release; ``files`` are names with their bytes."""
    gaps = list(gaps)
    lines = [f"# cec-store {version}", "", f"Built from commit `{commit}`."]
    if is_pre_release(version):
        lines[-1] += f" It is a pre-release of {final_version(version)}, and published nowhere."
    lines += ["", "## Changes", "", changed, "", "## Files", "", "| file | size |", "|---|---|"]
    lines += [f"| `{name}` | {size / 1e3:,.0f} kB |" for name, size in files]
    lines += ["", f"`sha256sum -c {CHECKSUMS}` checks them."]
    lines += ["", "## What was tried", "", "| | |", "|---|---|"]
    lines += [f"| {outcome.subject} | {outcome.text} |" for outcome in outcomes]
    lines += ["", "## What the proof lacks", ""]
    lines += [f"- {gap}" for gap in gaps] or ["Nothing: `PROOF.md` is whole at this tree."]
    return "\n".join([*lines, ""])


def files_below(folder: Path) -> list[Path]:
    """Files of a release, without the list of their checksums."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != CHECKSUMS)


def checksums(folder: Path) -> str:
    """Lines as `sha256sum` writes them, of every file below a folder."""
    return "".join(
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files_below(folder)
    )
