"""How the command starts and ends: quickly, in any terminal, and whatever becomes of its output."""

import ast
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

import cec_store
from cec_store import cli, open_queue
from support.paths import ROOT
from support.places.reported_places import grown

MAIN = "from cec_store.cli import main; main()"
NOT_YET_OURS = re.compile(
    rb'Traceback \(most recent call last\):\n  File "<string>".*\n(    .*\n)*KeyboardInterrupt\n'
)
"""On a busy machine an interrupt may come before the first line of `cec_store` runs."""
HELP_CPU_S = 0.25
IMPORT_CPU_S = 0.15


def program(
    *arguments: object, code: str = MAIN, **env: str
) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **env})


def least_cpu_s(*arguments: object, code: str = MAIN) -> float:
    """Of some runs: a busy machine makes some slower."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert program(*arguments, code=code).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    with open_queue(tmp_path / "queue", "x", schema=pa.schema([("text", pa.string())])) as written:
        written.append(pa.table({"text": ["é – ≤ 😀"] * 20_000}), sync=True)
    return tmp_path / "queue"


# -- what is imported ---------------------------------------------------------------------------


def test_help_is_quick() -> None:
    assert least_cpu_s("--help") <= HELP_CPU_S


def test_the_package_is_imported_quickly() -> None:
    assert least_cpu_s(code="import cec_store") <= IMPORT_CPU_S


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import cec_store", ("numpy", "pyarrow", "pyspark", "cec_store.errors")),
        ("import cec_store.cli", ("numpy", "pyarrow", "typer", "rich", "inspect", "json")),
        ("import cec_store; cec_store.open_queue, cec_store.read_queue, cec_store.Targets",
         ("pyspark", "cec_store.connectors", "typer", "rich")),
    ],
)  # fmt: skip
def test_what_is_not_used_is_not_imported(code: str, absent: tuple[str, ...]) -> None:
    done = program(code=f"import sys; {code}; print(*sys.modules)")
    assert not set(absent) & set(done.stdout.decode().split()), done.stderr


def test_the_verbs_say_in_help_what_they_say_themselves() -> None:
    group = typer.main.get_group(cli.app)
    verbs = {name: verb for verbs in cli._GROUPS.values() for name, verb in verbs.items()}
    assert len(verbs) >= 14
    for name, (said, _, _) in verbs.items():
        own = group.get_command(None, name).help.split("\n\n")[0]
        assert said == " ".join(own.split())


def test_only_public_names_are_listed() -> None:
    done = program(code="import cec_store.errors, cec_store; print(*dir(cec_store))")
    assert done.stdout.decode().split() == sorted(cec_store.__all__)
    assert cec_store.__version__ == version("cec-store")
    for name in cec_store.__all__:
        assert getattr(cec_store, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cec_store.nothing  # noqa: B018


def test_type_checkers_see_what_is_imported_late() -> None:
    tree = ast.parse((ROOT / "cec_store" / "__init__.py").read_text("utf-8"))
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == cec_store._HOME


# -- how it ends --------------------------------------------------------------------------------


def interrupted(queue: Path, delay_s: float) -> tuple[bytes, int]:
    """What it says, and its exit status, where an interrupt comes so long after Python is up."""
    # The line says that Python itself is up: before that an interrupt is Python's own.
    # A background job of a shell that is not interactive is started with interrupts ignored.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; print(flush=True); {MAIN}"
    command = [sys.executable, "-c", code, "dump", str(queue), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        return ended(process)


def ended(process: "subprocess.Popen[bytes]", within_s: float = 60) -> tuple[bytes, int]:
    """Return what a program has said and its exit status; one that does not end is killed."""
    try:
        _, error = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        _, error = process.communicate()
        pytest.fail(f"it has not ended in {within_s} s; it said {error.decode()}")
    return error, process.returncode


SWALLOWED = """
import signal, time, weakref
from cec_store import cli

class Dies:
    pass

def application():
    there = Dies()
    callback = weakref.ref(there, lambda _: signal.raise_signal(signal.SIGINT))
    del there
    time.sleep(20)

signal.signal(signal.SIGINT, signal.default_int_handler)
cli._application = lambda: application
cli.main()
"""


DROPPED = """
import signal, time
from cec_store import cli
from cec_store.terminal.interrupts import raise_noted_interrupt

def application():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        print("dropped")
    while True:
        raise_noted_interrupt()
        time.sleep(0.01)

signal.signal(signal.SIGINT, signal.default_int_handler)
cli._application = lambda: application
cli.main()
"""


@pytest.mark.parametrize("delay_s", [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0])
def test_an_interrupt_while_it_starts_is_no_traceback(queue: Path, delay_s: float) -> None:
    error, status = interrupted(queue, delay_s)
    while NOT_YET_OURS.fullmatch(error):
        error, status = interrupted(queue, delay_s)
    assert b"Traceback" not in error
    assert status in (130, 0)


def test_an_interrupt_that_a_library_drops_ends_what_goes_on_until_then() -> None:
    done = program(code=DROPPED)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"dropped\n", b"")


def test_an_interrupt_that_python_swallows_comes_again() -> None:
    done = program(code=SWALLOWED)
    assert (done.returncode, done.stderr) == (130, b"")


@pytest.mark.parametrize("arguments", [["replay"], ["dump"], ["replay", "--json"], ["verify"]])
def test_output_that_nobody_reads_is_no_damage(queue: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-c", MAIN, *arguments, str(queue)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        error = process.stderr.read()
        process.wait(60)
    assert process.returncode == 141
    assert error == b""


def test_help_that_nobody_reads_is_no_damage() -> None:
    command = [sys.executable, "-c", MAIN, "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        error, status = ended(process)
    assert status in (0, 141)
    assert error == b""


# -- in any terminal ----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["iso-8859-1", "ascii", "utf-8"])
@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_what_a_terminal_cannot_show_is_escaped(queue: Path, encoding: str, form: str) -> None:
    done = program(
        "replay", queue, "--limit", 2, "--format", form, PYTHONIOENCODING=encoding, PYTHONUTF8="0"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    if form == "jsonl":
        assert json.loads(text.splitlines()[0]) == {"text": "é – ≤ 😀"}
    elif encoding != "utf-8":
        assert "\\u2013" in text
    else:
        assert "é – ≤ 😀" in text


@pytest.mark.parametrize("verb", ["extent", "verify", "--help", "report"])
def test_no_terminal_ends_a_verb(queue: Path, verb: str, tmp_path: Path) -> None:
    rest = {"--help": [], "report": [queue, "-o", tmp_path / "page"]}.get(verb, [queue])
    done = program(verb, *rest, PYTHONIOENCODING="iso-8859-1", FORCE_COLOR="1", COLUMNS="60")
    assert done.returncode == 0, done.stderr
    assert b"Error" not in done.stderr


@pytest.mark.parametrize("columns", [60, 80, 300])
def test_extents_can_be_read_on_a_narrow_terminal(tmp_path: Path, columns: int) -> None:
    checkpoint = grown(tmp_path / "c", partitions=3)
    done = program("extent", checkpoint.path, FORCE_COLOR="1", COLUMNS=str(columns), TERM="xterm")
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode())
    lines = [line for line in text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= columns or columns < 100
    if columns < 100:
        assert "  log operator 0 (aggregate), partition 1" in lines
        assert any(re.fullmatch(r"    extent / windows +\d+\.\d\d", line) for line in lines)
        assert max(len(line) for line in lines if line.startswith("  ")) <= columns
    else:
        assert any(line.startswith("┃ log ") for line in lines)


@pytest.mark.parametrize("path", ["s3:/bucket/c", "x+y://host/c", "s3://", ""])
@pytest.mark.parametrize(
    "arguments",
    [["verify"], ["extent"], ["trim", "--yes"], ["fork", "--batch", "1"], ["report", "-o"]],
)
def test_what_is_no_path_is_wrong_use(
    path: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_queue(tmp_path, "x", schema=pa.schema([("n", pa.int64())])).close()
    before = sorted(os.listdir(tmp_path))
    more = ["x"] if arguments[0] in ("fork", "report") else []
    done = CliRunner().invoke(cli.app, [*arguments, path, *more])
    assert done.exit_code == 2
    said = (
        "write s3://bucket/c",
        "only local paths",
        "x+y:// is not known",
        "names no bucket",
        "the path is empty",
    )
    assert any(each in " ".join(done.stderr.split()) for each in said)
    assert sorted(os.listdir(tmp_path)) == before


def test_h_is_help_everywhere() -> None:
    for arguments in ([], ["verify"], ["spark"], ["spark", "conf"]):
        short = CliRunner().invoke(cli.app, [*arguments, "-h"])
        assert short.exit_code == 0
        assert short.stdout == CliRunner().invoke(cli.app, [*arguments, "--help"]).stdout
        assert "Usage: " in short.stdout


def test_a_shell_completes_verbs_and_options() -> None:
    complete = {"_CEC_STORE_COMPLETE": "complete_bash", "_TYPER_COMPLETE_ARGS": ""}
    words = {"COMP_WORDS": "cec-store ver", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'cec-store'; " + MAIN
    done = program(code=code, **complete, **words)
    assert done.stdout.decode().split() == ["verify"]
    words = {"COMP_WORDS": "cec-store verify --rec", "COMP_CWORD": "2"}
    done = program(code=code, **complete, **words)
    assert "--records" in done.stdout.decode().split()


def test_help_has_groups_and_each_verb_in_one() -> None:
    text = CliRunner().invoke(cli.app, ["--help"]).output
    for title, verbs in cli._GROUPS.items():
        section = text.split(f"\n{title}:\n")[1].split("\n\n")[0]
        assert re.findall(r"^  (\w+)", section, re.MULTILINE) == list(verbs)
    names = [name for verbs in cli._GROUPS.values() for name in verbs]
    assert len(names) == len(set(names)) > 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exten"], "Did you mean extent?"),
        (["verfy", "x"], "Did you mean verify?"),
        (["tial"], "tail"),
        (["fleet", "stats"], "status"),
        (["extent", "--jsn", "x"], "--json"),
        (["qqqqq"], "no command 'qqqqq'"),
    ],
)
def test_a_mistyped_command_or_option_names_the_nearest(words: list[str], said: str) -> None:
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
