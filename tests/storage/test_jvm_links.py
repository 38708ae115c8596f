"""A file system without hard links, as the JVM meets it, is refused by name and nothing is left."""

import os
from pathlib import Path

import pytest

from support.disks.fault_shim import Order, calls_in, library
from support.spark.jvm import run_jvm


def created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Order, name: str) -> str:
    root, log = tmp_path / "q", tmp_path / f"calls-{order.at}"
    monkeypatch.setenv("LD_PRELOAD", str(library()))
    for variable, value in order.environment(root, log).items():
        monkeypatch.setenv(variable, value)
    outcome = run_jvm("createObject", path=root, name=name)["outcome"]
    assert isinstance(outcome, str)
    return outcome


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("EPERM", "NoHardLinks: {path}: this file system has no hard links"),
        ("EIO", "FileSystemException: {path} -> "),
    ],
)
def test_a_link_that_the_file_system_lacks_is_refused_by_name_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, told: str
) -> None:
    assert created(tmp_path, monkeypatch, Order(kind, -1), "first/a") == "made"
    calls = [call.name for call in calls_in(tmp_path / "calls--1")]
    os.rename(tmp_path / "q", tmp_path / "before")
    outcome = created(tmp_path, monkeypatch, Order(kind, calls.index("link")), "first/a")
    assert outcome.startswith(told.format(path=tmp_path / "q" / "first" / "a")), outcome
    # A disk that fails may keep the folder; what is not to be used at all keeps nothing.
    assert (tmp_path / "q").exists() == (kind == "EIO")
