"""A page that is read as its reader would: files saved, commands typed, what they print compared.

Of a page's fenced blocks, in order: ``python title="NAME"`` is saved under that name, ``sh`` is run
by bash where the page began, ``text`` is what the block before it prints, with … for what may be
otherwise. A comment ``<!-- not run: WHY -->`` before a block leaves it to the reader.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^>]+) -->\n)?```(?P<info>\w[^\n]*)?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SECONDS_MAX = 600


@dataclass(frozen=True)
class Block:
    line: int
    kind: str
    """`python`, `sh`, `text`; empty where the page says none."""
    title: str
    text: str
    why_not_run: str


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in _BLOCK.finditer(text):
        info = match["info"] or ""
        title = re.search(r'title="([^"]+)"', info)
        line = text.count("\n", 0, match.start()) + 1
        kind = info.split(" ")[0]
        why = match["why"] or ""
        found.append(Block(line, kind, title[1] if title else "", match["text"], why))
    return found


def is_as_said(printed: str, said: str) -> bool:
    """Whether the same lines are there, in any order: rows of a table stand in no certain one.

    Nor does the number of spaces count, which follows from the other lines. With a line that is
    only … there may be more lines than are said.
    """
    there = [" ".join(line.split()) for line in printed.strip().splitlines()]
    lines = [" ".join(line.split()) for line in said.strip().splitlines()]
    wanted = [re.escape(line).replace("…", ".*") for line in lines if line != "…"]
    for pattern in wanted:
        found = next((line for line in there if re.fullmatch(pattern, line)), None)
        if found is None:
            return False
        there.remove(found)
    return "…" in lines or not there


def walk(page: Path, folder: Path) -> int:
    """Do all that the page says in a folder; returns how many blocks were run or saved.

    Raises:
        AssertionError: a command fails, or prints something else; names the page and the line.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    printed, done = "", 0
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {block.line}"
        if block.why_not_run:
            continue
        if block.kind == "text":
            assert is_as_said(printed, block.text), f"{where}: it prints\n{printed}"
            continue
        done += 1
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
            continue
        assert block.kind == "sh", f"{where}: a block of kind {block.kind!r}"
        printed = _run(block.text, folder, environment, where)
    return done


def _run(text: str, folder: Path, environment: Mapping[str, str], where: str) -> str:
    """What it prints. What it starts in the background goes on: see :func:`end_all`."""
    output, errors = folder / ".printed", folder / ".errors"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            ["bash", "-eu", "-c", text],
            cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        with (folder / ".groups").open("a") as groups:
            groups.write(f"{process.pid}\n")
        try:
            status = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = -1
    said = errors.read_text(encoding="utf-8", errors="replace")[-3000:]
    assert status == 0, f"{where}: status {status} of {shlex.quote(text[:200])}\n{said}"
    return output.read_text(encoding="utf-8")


def end_all(folder: Path) -> None:
    """Kill whatever the commands of a page have left running: groups with a process in its folder.

    A number may be that of others by now, so a group is not known by its number alone.
    """
    noted = {int(group) for group in (folder / ".groups").read_text().split()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            group = os.getpgid(int(process.name))
            if group in noted and (process / "cwd").resolve().is_relative_to(folder.resolve()):
                os.killpg(group, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
