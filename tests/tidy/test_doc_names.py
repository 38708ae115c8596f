"""Links, verbs, options, metrics and errors: what pages name is there, and all are named."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import typer

import cec_store
from cec_store import errors
from cec_store.cli import app
from cec_store.connectors.spark.progress.reported import GAUGES
from cec_store.connectors.spark.setup.compiler import SOURCES
from cec_store.connectors.spark.setup.settings import PREFIX, SETTINGS
from cec_store.partitioned import read_options, write_options
from cec_store.signals.figures import METRICS
from support.paths import DOCS, ROOT
from support.runs import prose

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAGES = [*prose.PAGES, ROOT / "bench" / "RESULTS.md", ROOT / "PROOF.md"]
MODULES = {
    ".".join(path.relative_to(root).with_suffix("").parts): path.read_text("utf-8")
    for root, folder in ((ROOT / "cec_store", "."), (ROOT, "connectors"), (ROOT, "indexes"))
    for path in (root / folder).rglob("*.py")
}
"""Of the package, by their names below `cec_store`."""
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_ADDRESS = re.compile(r"^\[([^\]]+)\]: (\S+?)(?:#(\S+))?$", re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
MADE_BY_THE_SITE = {DOCS / "reference" / "command-line.md"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def anchors(path: Path) -> set[str]:
    """As code hosts and the site make them of headings, and those that are given."""
    text = path.read_text("utf-8")
    found = set(re.findall(r'<a id="([^"]+)"', text))
    counts: dict[str, int] = {}
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        counts[slug] = counts.get(slug, -1) + 1
        found.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = _CODE.sub("", page.read_text("utf-8"))
    for target, anchor in _LINK.findall(text):
        there = (page.parent / target).resolve() if target else page
        assert there.exists() or there in MADE_BY_THE_SITE, f"{target} is not there"
        if anchor and there.suffix == ".md" and there.exists():
            assert anchor in anchors(there), f"{target}#{anchor}"


def test_links_of_the_readme_are_whole_addresses_of_files() -> None:
    """An index of packages shows the page where no relative link leads anywhere."""
    text = _CODE.sub("", (ROOT / "README.md").read_text("utf-8"))
    source = PROJECT["urls"]["Source"]
    own = re.compile(
        re.escape(source).replace("//github", "//(?:raw\\.githubusercontent|github)")
        + "/(?:(?:blob|tree)/)?main/"
    )
    addresses = _ADDRESS.findall(text)
    assert len(addresses) > 30
    assert not _LINK.findall(text)
    for name, address, anchor in addresses:
        path, count = own.subn("", address)
        assert count == 1, address
        assert (ROOT / path).exists(), address
        assert not anchor or anchor in anchors(ROOT / path), address
        assert len(re.findall(rf"\[{re.escape(name)}\]", " ".join(text.split()))) >= 2, name


@cache
def options_by_verb() -> dict[tuple[str, ...], set[str]]:
    """Of each verb, such as ("fleet", "run"), its options, without those that all have."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    found: dict[tuple[str, ...], set[str]] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), root)]
    while waiting:
        words, command = waiting.pop()
        given = [o for p in command.params for o in (*p.opts, *p.secondary_opts)]
        found[words] = {option for option in given if option.startswith("-")}
        names = command.list_commands(context) if hasattr(command, "list_commands") else []
        waiting += [((*words, name), command.get_command(context, name)) for name in names]
    return found


def commands_in(text: str) -> Iterator[list[str]]:
    """The words behind `cec-store`, of each command that stands in code."""
    for code in _CODE.findall(text):
        joined = code.strip("`").replace("\\\n", " ")
        for line in joined.splitlines():
            for call in re.findall(r"(?<![\w./-])cec-store ([a-z][^|;&()<>#]*)", line):
                try:
                    yield shlex.split(call.replace("[", " ").replace("]", " "))
                except ValueError:
                    yield call.replace("[", " ").replace("]", " ").split()


def test_commands_on_pages_are_those_of_the_program() -> None:
    known = options_by_verb()
    seen = 0
    for page in PAGES:
        for words in commands_in(page.read_text("utf-8")):
            if words[:1] == ["VERB"]:
                continue
            verb = (words[0],)
            assert verb in known, f"{name_of(page)}: cec-store {words[0]}"
            own = words[: words.index("--")] if "--" in words else words
            if len(words) > 1 and (*verb, words[1]) in known:
                verb = (*verb, words[1])
            options = known[verb].union(*(known[k] for k in known if k[: len(verb)] == verb))
            for word in own:
                option = re.match(r"--?[a-z][a-z-]*", word)
                if option:
                    allowed = {*options, "-h", "--help"}
                    assert option[0] in allowed, f"{name_of(page)}: {verb} has no {option[0]}"
                    seen += 1
    assert seen > 80


def test_each_verb_and_option_is_on_the_page_of_the_command_line() -> None:
    text = (DOCS / "cli.md").read_text("utf-8") + (DOCS / "spark.md").read_text("utf-8")
    text += (DOCS / "production" / "clusters.md").read_text("utf-8")
    for verb, options in options_by_verb().items():
        if verb:
            assert verb[-1] in text
        for option in options:
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), (verb, option)


def test_the_page_made_of_the_program_has_each_verb_by_name() -> None:
    path = DOCS / "hooks" / "command_line.py"
    spec = spec_from_file_location("command_line", path)
    assert spec is not None
    assert spec.loader is not None
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = hook.command_line()
    for verb in options_by_verb():
        assert f"# `{' '.join(('cec-store', *verb))}`\n" in text or not verb
    assert "``" not in text.replace("```", "")


def test_settings_are_those_of_the_program() -> None:
    text = (DOCS / "spark.md").read_text("utf-8").split("## Settings")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (`.+?) \|", text, re.MULTILINE)
    keywords = [word for row in rows for word in re.findall(r"`(\w+)`", row[0])]
    names = [word for row in rows for word in re.findall(r"`(\w+)`", row[1])]
    assert sorted(keywords) == sorted(setting.keyword for setting in SETTINGS)
    assert sorted(names) == sorted(setting.name for setting in SETTINGS)
    for page in PAGES:
        for name in re.findall(rf"{re.escape(PREFIX)}(\w+)", page.read_text("utf-8")):
            assert name in names, name_of(page)


def rows_of(section: str) -> set[str]:
    text = (DOCS / "spark-queues.md").read_text("utf-8").split(f"\n## {section}\n")[1]
    rows = re.findall(r"^\| (`.+?) \|", text.split("\n## ")[0], re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def test_options_of_source_and_sink_are_those_of_the_program() -> None:
    assert rows_of("Reading") | {"path"} == set(read_options._KNOWN)
    assert rows_of("Writing") == {*write_options._NAMES, *write_options._OF_TRANSACTION}


def test_types_that_a_queue_refuses_are_those_of_the_program() -> None:
    code = (SOURCES / "tables" / "RefusedTypes.scala").read_text("utf-8")
    refused = re.findall(r'Refused\("(.+?)", ".+?"\.r,\s+"(.+?)"\)', code)
    assert len(refused) == code.count(".r,") >= 4
    text = (DOCS / "spark-queues.md").read_text("utf-8").split("\n  | type | write instead |\n")[1]
    rows = re.findall(r"^  \| (.+) \| (.+) \|$", text.split("\n* ")[0], re.MULTILINE)
    assert rows == refused


@cache
def metrics() -> set[str]:
    found: set[str] = set()
    for name in ("store/CecMetrics.scala", "tables/SinkMetrics.scala"):
        found |= set(re.findall(r'"(cec[A-Z]\w+)"', (SOURCES / name).read_text("utf-8")))
    assert len(found) >= 19
    return found


def test_metrics_on_pages_are_those_of_the_program() -> None:
    named: set[str] = set()
    for page in PAGES:
        named |= set(re.findall(r"\b(cec[A-Z]\w+)", page.read_text("utf-8")))
    assert named == metrics()
    watched = (DOCS / "production" / "monitoring.md").read_text("utf-8")
    of_sinks = {name for name in metrics() if name.endswith("Written")} - {"cecCheckRecordsWritten"}
    assert set(re.findall(r"`(cec[A-Z]\w+)`", watched)) == metrics() - of_sinks


def test_figures_and_loggers_on_the_page_are_those_of_the_program() -> None:
    page = (DOCS / "production" / "monitoring.md").read_text("utf-8")
    section = page.split("\n## Operators, standbys and fleets\n")[1].split("\n## From outside\n")[0]
    named = set(re.findall(r"`(cec_(?!store)\w+)`", section))
    counted = {f"{name}_total" for name, metric in METRICS.items() if metric.is_counter}
    told = {name for name, metric in METRICS.items() if not metric.is_counter} | counted
    assert named == told | {"cec_scrape_failures_total"}
    for label in {label for metric in METRICS.values() for label in metric.labels}:
        assert f"`{label}`" in section
    loggers = set(re.findall(r"^\| `(cec_store\.[\w.]+)`", section, re.MULTILINE))
    loggers |= set(re.findall(r", `(cec_store\.[\w.]+)` \|", section))
    assert len(loggers) > 8
    known = {f"cec_store.{name}" for name, text in MODULES.items() if "getLogger(__name__)" in text}
    for name in loggers:
        assert any(each == name or each.startswith(f"{name}.") for each in known), name


def test_each_file_logs_under_its_own_name() -> None:
    calls = [call for text in MODULES.values() for call in re.findall(r"getLogger\((.*?)\)", text)]
    assert len(calls) > 20
    assert set(calls) == {"__name__"}


def test_the_dashboard_asks_for_metrics_that_are_there() -> None:
    dashboard = json.loads((DOCS / "production" / "grafana.json").read_text("utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = set()
    page = (DOCS / "production" / "monitoring.md").read_text("utf-8")
    section = page.split("\n## To Prometheus\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`(cec_(?!store)\w+)`", section)) == set(GAUGES)
    for expression in asked:
        found = re.fullmatch(
            r'sum by \((\w+), (\w+)\) \((\w+)\{metric="(\w+)", (\w+)=~"\$query"\}\)', expression
        )
        assert found, expression
        first, second, gauge, metric, third = found.groups()
        assert f"`{gauge}`" in page
        assert {first, second, third, "metric"} <= {"query", *GAUGES[gauge].labels}
        shown.add(metric)
    sinks = {"cecRowsWritten", "cecBytesWritten", "cecObjectsWritten"}
    assert shown == metrics() - sinks


def test_errors_are_those_of_the_program() -> None:
    section = (DOCS / "api.md").read_text("utf-8").split("\n## Errors\n")[1]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))
    known = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.CecError)
        and value is not errors.CecError and not name.startswith("_")
    }  # fmt: skip
    assert set(rows) == set(known)
    for name, also in rows.items():
        builtin = [b.__name__ for b in known[name].__bases__ if b.__module__ == "builtins"]
        assert [word for word in re.findall(r"`(\w+)`", also) if word[0].isupper()] == builtin, name


def test_pages_of_docstrings_have_each_public_name_once() -> None:
    folder = DOCS / "reference"
    text = "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.md")))

    def listed(module: str) -> list[str]:
        return sorted(re.findall(rf"^::: {re.escape(module)}\.(\w+)$", text, re.MULTILINE))

    raised = {name for name in cec_store.__all__ if hasattr(errors, name)}
    assert listed("cec_store") == sorted({*cec_store.__all__} - raised - {"__version__"}
                                         | {"errors"})  # fmt: skip
    from cec_store import operators
    from cec_store.connectors import spark
    from cec_store.connectors.spark import fleet

    for module in (operators, spark, fleet):
        assert listed(module.__name__) == sorted(module.__all__)
    overview = (folder / "python.md").read_text("utf-8")
    groups = [*(folder / "python").glob("*.md"), *(folder / "operators").glob("*.md")]
    assert len(groups) > 8
    assert [path.name for path in groups
            if f"({path.relative_to(folder).as_posix()})" not in overview] == []  # fmt: skip


def test_pages_of_the_site_are_all_in_its_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    own = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = {"reference/command-line.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
            "PROOF.md", "bench/RESULTS.md"}  # fmt: skip
    assert listed == own | made


def test_the_tree_of_errors_has_each_with_its_parent() -> None:
    tree = (errors.__doc__ or "").split("::")[1]
    shown: dict[str, str | None] = {}
    above: list[str] = []
    for indent, name in re.findall(r"^([ │├└─]*)([A-Z]\w+)", tree, re.MULTILINE):
        above[len(indent) // 4 - 1 :] = [name]
        shown[name] = above[-2] if len(above) > 1 else None
    public = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.CecError)
    ]
    parents = {kind.__name__: kind.__mro__[1].__name__ for kind in public}
    assert shown == parents | {"CecError": None}
