"""Options of benchmarks' command lines: what a script cannot do is refused, with what to do."""

import sys
from pathlib import Path

import pytest

from bench.harness.rounds import options


def test_a_script_with_one_turn_refuses_more_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    monkeypatch.setattr(sys, "argv", ["script.py", "--rounds", "3", "--dir", str(folder)])
    with pytest.raises(SystemExit) as refused, options("A benchmark.", turns=(1, 1)):
        pass
    assert refused.value.code == 2
    assert "--rounds 3: this script has one turn; run it again for more" in capsys.readouterr().err
    assert not folder.exists()
