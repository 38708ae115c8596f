"""Code of one query that is read anew while the fleet's driver and the other queries run on."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cec_store.connectors.spark.fleet import Fleet, Sink
from cec_store.connectors.spark.fleet.functions import imported, read_anew
from cec_store.errors import BadFleet
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, driver_of


class Module:
    """A module of a test, which is written again and again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path, self.name = folder / f"{name}.py", name

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def place(self, name: str = "f") -> str:
        return f"{self.name}:{name}"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    name = f"cec_redeployed_{abs(hash(str(tmp_path)))}"
    yield Module(folder, name)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()


# -- reading anew -----------------------------------------------------------------------------


def test_what_stands_in_the_file_is_read_however_soon_it_was_changed(module: Module) -> None:
    """Python's cache goes by the second of a change and the size of the file."""
    module.write("def f(): return 1\n")
    first = imported("a", module.place())
    for number in range(2, 6):
        module.write(f"def f(): return {number}\n")
        [function] = read_anew("a", module.place())
        assert function() == number
        assert imported("a", module.place()) is function
    assert first() == 1, "what runs has its old code"


def test_two_functions_of_one_module_are_of_the_same_reading(module: Module) -> None:
    module.write("calls = []\ndef f(): calls.append(1)\ndef g(): return len(calls)\n")
    one, other = read_anew("a", module.place("f"), module.place("g"))
    one()
    assert other() == 1


def test_a_function_that_was_given_as_such_is_found_by_its_place(module: Module) -> None:
    module.write("def f(): return 1\n")
    given = imported("a", module.place())
    module.write("def f(): return 2\n")
    [function] = read_anew("a", given)
    assert function() == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def f(: return 2\n", "cannot be read anew: SyntaxError"),
        ("raise RuntimeError('half')\n", "cannot be read anew: RuntimeError"),
        ("import nowhere_at_all\n", "ModuleNotFoundError"),
        ("def g(): return 2\n", "no function .*:f"),
        ("f = 7\n", "is no function, but 7"),
    ],
)
def test_code_that_cannot_be_read_changes_nothing(module: Module, text: str, what: str) -> None:
    module.write("value = 1\ndef f(): return value\n")
    function = imported("a", module.place())
    before = sys.modules[module.name]
    module.write(text)
    with pytest.raises(BadFleet, match=f"a: .*{what}"):
        read_anew("a", module.place())
    assert sys.modules[module.name] is before
    assert function() == 1


@pytest.mark.parametrize("function", [lambda: 1, Module(Path("x"), "y").place])
def test_a_function_of_this_process_alone_is_refused(function: Any) -> None:
    with pytest.raises(BadFleet, match="a: a function that only the driver's process knows"):
        read_anew("a", function)


def test_a_module_without_a_file_of_text_is_refused() -> None:
    with pytest.raises(BadFleet, match=r"a: time cannot be read anew: .*no file of Python text"):
        read_anew("a", "time:sleep")


# -- a driver ---------------------------------------------------------------------------------


def test_one_query_gets_its_new_code_and_the_others_run_on(tmp_path: Path, module: Module) -> None:
    module.write("def f(rows): return 1\ndef g(rows, batch): return 10\n")
    diamond.make_input(tmp_path)
    fleet = Fleet(tmp_path / "fleet")
    for name in ("a", "b"):
        fleet.query(
            name, module.place(), reads=[str(tmp_path / "input")],
            sink=Sink(foreach_batch=module.place("g")),
        )  # fmt: skip
    engine = EngineDouble(2)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    runs = dict(engine.queries)
    module.write("def f(rows): return 2\ndef g(rows, batch): return 20\n")
    fleet.redeploy("a")
    driver.look(1.0, asked=fleet.folder.requests())
    assert fleet.folder.requests().names == set()
    assert runs["a"].is_stopped
    assert engine.queries["b"] is runs["b"]
    assert [function(*"xy"[:n]) for n, function in enumerate(engine.functions["a"], 1)] == [2, 20]
    assert [function(*"xy"[:n]) for n, function in enumerate(engine.functions["b"], 1)] == [1, 10]
    assert engine.queries["a"].checkpoint == runs["a"].checkpoint
    assert set(engine.shipped) == set(engine.functions["a"])

    # With code that cannot be read it runs on, and what is wrong is told.
    run = engine.queries["a"]
    module.write("def f(:\n")
    fleet.redeploy("a")
    driver.look(2.0, asked=fleet.folder.requests())
    assert engine.queries["a"] is run
    assert not run.is_stopped
    assert fleet.folder.requests().names == set()
    assert "SyntaxError" in driver.notes.of("a").code_failure
    module.write("def f(rows): return 3\ndef g(rows, batch): return 30\n")
    fleet.redeploy("a")
    driver.look(3.0, asked=fleet.folder.requests())
    assert driver.notes.of("a").code_failure == ""
    assert engine.functions["a"][0]("x") == 3


def test_a_query_that_fails_of_its_code_does_not_wait_once_that_is_mended(
    tmp_path: Path, module: Module
) -> None:
    module.write("def f(rows): return 1\n")
    diamond.make_input(tmp_path)
    fleet = Fleet(tmp_path / "fleet")
    fleet.query("a", module.place(), reads=[str(tmp_path / "input")], sink=Sink("noop"))
    engine = EngineDouble(2)
    driver = driver_of(fleet, engine, 0.0)
    engine.refuses["a"] = "no such column"
    driver.look(0.0)
    assert driver.notes.of("a").failures.count == 1
    del engine.refuses["a"]
    fleet.redeploy("a")
    driver.look(0.1, asked=fleet.folder.requests())
    assert engine.running() == {"a"}
    assert driver.notes.of("a").failures.count == 0
