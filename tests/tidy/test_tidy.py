"""The rules of the house, read from the source itself. To change a rule, change it here first."""

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup.sides import CHOICES
from support.paths import ROOT

# The rooms of each folder in order, then the files: each imports only from what stands before it.
# `__init__`, the door of a room, comes last where it is not named. `cec_store` itself is the first.
ORDER = {
    "": """
        errors values storage format log ledger checkpoints indexes queues partitioned state_logs
        opening scans operators standby placement recovery_plans connectors signals __init__
        inspector doctor watching report terminal demos verbs cli
    """,
    "storage": """
        names paths given_options folder retrying forking waiting regular_files mounts system_errors
        disk_room owners local_files local caches publishing opened_once
        trees stores
    """,
    "storage.stores": """
        failures store retrying file_system memory s3 gcs abfs webhdfs fsspec_store local_store
        proving read_ahead store_folder by_url folders new_trees
    """,
    "format": """
        checksum columns arrow_metadata alike arrow_limits arrow_values same_types frame
        scan manifest durable_end ends acknowledgement retention input_queues
        schema records zstd_frames blocks by_columns bodies by_reference
    """,
    "format.by_columns": "messages dictionaries body",
    "format.by_reference": """
        whole_segment segment_frames commit_body inline commits acknowledgements
    """,
    "log": """
        frames options segment_file segment epochs notes known_end forward_scan positions reader
        visible_end chain tail writer creating reopening pipeline selection replay
    """,
    "log.pipeline": "line pipeline",
    "ledger": """
        ages queue_state commit_mark commit_objects reference_log reference_commits
        commit_reader commit_chain registrations reference_trims sweeping commit_writer
    """,
    "checkpoints": "rates policy footprints checkpointer last_rows rebuild determinants",
    "indexes": "entries recent lmdb_file files stored timestamp",
    "queues": """
        holding consumers lags retention trimming consumable_queue user_rows appendable_queue
        output_queue
    """,
    "partitioned": """
        plain_queue murmur3 spark_hash by_reference making offsets
        retaining read_options write_options holding batches target reading whole_queue
        following
    """,
    "partitioned.by_reference": """
        commit_search segment_objects partition_log reference_queue partitioned_consumer
        reference_writer merging upkeep partitioned_queue earlier
    """,
    "scans": "filters scanner queue_scan",
    "state_logs": """
        sizing segments tree versions families state_log directory_files key_directories row_times
    """,
    "operators": """
        taxonomy contract inputs keys aggregate join ordering stateless choosing acknowledging
        frame_builder recovery reprocessing runner checking
    """,
    "operators.inputs": "reading merge arrivals sources live input_queues",
    "operators.keys": "words dictionary encoder",
    "operators.aggregate": """
        windows exact_sums unordered_sums accumulators slots watermark_slots count_slots
        time_slots session_chains session_slots deadlines aggregate
    """,
    "operators.join": "waiting arrival_clocks schemas join resample",
    "operators.ordering": "bubble sort",
    "standby": """
        schemes costs costs_here lease_format beats lease_objects lease leases
        followers skipping queue_input refusals takeover standby nodes
    """,
    "standby.nodes": "notes orders election members damping job node asking warming",
    "standby.followers": "followed_log footprint_ledger warm_state held_output shadow",
    "placement": """
        layout loads allocation updating optimum protocols plans drafting adaptation
    """,
    "recovery_plans": """
        membership topology outage extending plans density dynamic operators_first optimum
        assignment succession
    """,
    "connectors": "spark",
    "connectors.spark": "setup queues checkpoint takeover moving executors progress fleet",
    "connectors.spark.progress": "history progress_file reported listening",
    "connectors.spark.moving": "plan spark_files state_job stored_rows moving comparing",
    "connectors.spark.fleet": """
        rules functions outer missing declaration toml_file backoff costs recovery notes
        fleet_folder cuts history lags checkpointing going_back running driver fleet status
    """,
    "connectors.spark.executors": """
        snapshot events driver_side saved loads batch_loads migration planning tables showing
        adaptation cluster
    """,
    "connectors.spark.takeover": "tenure warming waiting passive active doors",
    "connectors.spark.setup": "environment settings java sides compiler session",
    "connectors.spark.queues": "spark_types sink source data_source",
    "connectors.spark.checkpoint": """
        parsing java_texts row_places unsafe_rows layout providers source_logs state_schema
        scans variables avro_rows ordered_fields family_rows variable_rows rewriting fork_plan
        fork state_rows
        state_tables
    """,
    "signals": "figures prometheus",
    "inspector": "places damage decoding built_in verifying measuring showing",
    "inspector.places": "places points",
    "inspector.built_in": "store_files changed_rows snapshots loads figures checks",
    "inspector.damage": """
        faults hadoop_checksums segment_scan log_segment queue_files whole_segments state_log_files
        reference_objects
    """,
    "inspector.decoding": "plain_values keys variables records",
    "inspector.verifying": """
        results record_checks one_writer frame_checks index queue kept_versions version_faults
        state_record_checks directory_checks state_log log spark_files reference_commits
        reference_segments reference_queue place
    """,
    "inspector.measuring": """
        consumer_lags crash_costs kept_rates sketches totals extent_history oldest_footprints
        extents what_if last_restart place_extents log_history reference_totals reference_consumers
        overview footprint_statistics measured_query
    """,
    "inspector.showing": """
        dump_filter dump_rows dumping following reference_dump place_dump variable_states states
        differences
    """,
    "doctor": """
        diagnoses programs spark_session session_rules machine folders held_leases queues
        checkpoints fleets checkups
    """,
    "watching": "looks watcher",
    "report": """
        facts windows restart_costs time_series views document cluster_document fleet_document page
    """,
    "terminal": """
        exit_status interrupts streams lazy_group wording screens columnar formats documents
        gathering outputs built_in_screens doctor_screens extent_screens watch_screens
        report_summaries report_writing
    """,
    "demos": """
        reporting flights embedded_child embedded spark_feed spark_job spark_results spark
        demo
    """,
    "verbs.upkeep": "by_log by_reference",
    "verbs": """
        arguments working_folder spark upkeep extent verify doctor dump state changes diff replay
        tail watch report consumers trim reindex fork moving demo sizing fleet standby
    """,
    "verbs.spark": "session stored_state spark",
    "verbs.fleet": "stopping going_back checkpoints one_query monitor fleet",
    "verbs.standby": "factories advise passive node nodes standby",
    "verbs.sizing": "size",
}
RANKS = {
    folder: {entry: rank for rank, entry in enumerate([*entries.split(), "__init__"])}
    for folder, entries in ORDER.items()
}
RANKS[""]["__init__"] = ORDER[""].split().index("__init__")

ROOM_FILES_MAX = 20
TOP_FILES_MAX = 6
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
# What people start from: everything must be reached from here.
ROOTS = (
    "cec_store", "cli", "placement", "recovery_plans", "signals",
)  # fmt: skip
MACHINE = "connectors.spark.setup.environment"
NOUNLESS = {"utils", "util", "common", "helpers", "misc"}
# What a place offers is asked of it (`appends`, `local_of`), outside storage never its class.
STORES = {"LocalFolder", "StoreFolder", "LocalStore", "FsspecStore", "AnyFolder"}
# The rooms of the Scala sources; a file imports only from its own and from those before it.
SCALA_ROOMS = (
    "sparks", "local", "format", "columns", "log", "keys", "state", "replicas", "store",
    "transforms", "moving", "queue", "standby", "fleet", "source", "tables",
)  # fmt: skip
SCALA = ROOT / "connectors" / "spark" / "scala"
SCALA_PACKAGE = "org.apache.spark.sql.cecstore"
# Spark and users know these by their full names, so they keep the package above the rooms.
SCALA_PUBLIC = {
    "CecLogException": "format",
    "CecPlugin": "replicas",
    "CecExtensions": "transforms",
    "CecStateStoreProvider": "store",
    "CecDataSource": "tables",
}
# Who may import these. Nobody may unpickle: a log may come from anyone.
IMPORTERS: dict[str, set[str]] = {
    **{name: set() for name in ("pickle", "cloudpickle", "dill", "marshal", "shelve")},
    **{name: {"storage.local_files"} for name in ("mmap", "fcntl")},
    "shutil": {"storage.trees", MACHINE},
    # The demos kill a child of their own.
    "signal": {"demos.embedded", "demos.spark", "terminal.interrupts", "verbs.fleet.stopping"},
    "subprocess": {"demos.embedded", "demos.spark", MACHINE},
    "os": {
        "storage.caches",
        "storage.disk_room",
        "storage.forking",
        "storage.mounts",
        "storage.owners",
        "storage.paths",
        "storage.regular_files",
        "storage.system_errors",
        "storage.local",
        "storage.local_files",
        "storage.trees",
        "storage.stores.local_store",
        "storage.stores.by_url",
        "demos.embedded",
        "demos.spark",
        MACHINE,
    },
}
# Each member of these is named in docs/format.md.
ENUMS_ON_DISK = {"format.frame": "FrameType", "format.schema": "RecordKind"}


def module_name(path: Path) -> str:
    """`cec_store/operators/join/join.py` and `indexes/timestamp.py` without the suffix, dotted."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "cec_store" else parts
    return ".".join(p for p in parts if p != "__init__") or "cec_store"


# Where the links are no links, as in an unpacked sdist, the first folder alone has every file.
FILES = {
    module_name(path): path
    for folder in ("cec_store", "indexes", "connectors")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
SOURCES = {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}
DOCS = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if p.exists()]
each_module = pytest.mark.parametrize("name", sorted(SOURCES))


def path_of(name: str, known: set[str]) -> tuple[str, ...]:
    """The folders that a module lies in, and its file."""
    is_room = name == "cec_store" or any(k.startswith(name + ".") for k in known)
    parts = () if name == "cec_store" else tuple(name.split("."))
    return (*parts, "__init__") if is_room else parts


def imported(name: str, source: str, known: set[str]) -> set[str]:
    """Full names of what a file imports, anywhere in it; the package's own without `cec_store.`."""
    is_package = name == "cec_store" or any(k.startswith(name + ".") for k in known)
    here = [] if name == "cec_store" else name.split(".")
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = node.level - is_package
            base = ["cec_store", *here[: len(here) - up]] if node.level else []
            base = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full.removeprefix("cec_store.") in known else base)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.update(a.value for a in node.args if isinstance(a, ast.Constant))
    return {target.removeprefix("cec_store.") for target in found}


def order_breaks(name: str, source: str, known: set[str]) -> list[str]:
    here = path_of(name, known)
    breaks = []
    for target in sorted(imported(name, source, known) & (known | {"cec_store"})):
        there = path_of(target, known)
        shared = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
        ranks = RANKS.get(".".join(here[:shared]), {})
        if ranks.get(there[shared], len(ranks)) >= ranks.get(here[shared], -1):
            breaks.append(f"{name} imports {target}, which does not stand before it")
    return breaks


def length_breaks(source: str) -> list[str]:
    count = len(source.splitlines())
    breaks = [f"{count} lines in a file"] if count > FILE_LINES_MAX else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or 0) - node.lineno + 1
            breaks += [f"{count} lines in {node.name}"] if count > FUNCTION_LINES_MAX else []
    return breaks


def ban_breaks(name: str, source: str) -> list[str]:
    targets = {target.split(".")[0] for target in imported(name, source, set())}
    breaks = [f"imports {t}" for t in sorted(targets) if name not in IMPORTERS.get(t, {name})]
    # `import indexes` works in a checkout only: an installed package has no such name.
    breaks += re.findall(r"^\s*(?:from|import) (?:indexes|connectors)\b", source, re.MULTILINE)
    breaks += [f"named {part}" for part in name.split(".") if part in NOUNLESS]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"eval", "exec", "__import__"}:
            breaks.append(f"calls {ast.unparse(node.func)}")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            kinds = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
            if kinds & STORES and not name.startswith("storage."):
                breaks.append(f"asks for the class of a store: {ast.unparse(node)}")
    return breaks


def scala_breaks(room: str, stem: str, source: str) -> list[str]:
    below = SCALA_ROOMS[SCALA_ROOMS.index(room) + 1 :]
    count = len(source.splitlines())
    breaks = [f"{count} lines in a file"] if count > FILE_LINES_MAX else []
    package = SCALA_PACKAGE if SCALA_PUBLIC.get(stem) == room else f"{SCALA_PACKAGE}.{room}"
    if not re.search(rf"^package {re.escape(package)}$", source, re.MULTILINE):
        breaks.append(f"is not in package {package}")
    named = " ".join(re.findall(rf"{re.escape(SCALA_PACKAGE)}\.(\{{.*\}}|\w+)", source))
    low = [n for n in re.findall(r"\w+", named) if SCALA_PUBLIC.get(n, n) in below]
    return breaks + [f"names {name}, which is below {room}" for name in low]


def unreached(sources: dict[str, str], roots: tuple[str, ...]) -> set[str]:
    """Modules with code in them that no root imports, however far away."""
    todo, reached = list(roots), set(roots)
    while todo:
        name = todo.pop()
        for target in imported(name, sources.get(name, ""), set(sources)):
            parts = target.split(".")
            steps = {".".join(parts[: n + 1]) for n in range(len(parts))} - reached
            reached |= steps
            todo += steps
    return {n for n in set(sources) - reached if len(ast.parse(sources[n]).body) > 1}


def unmentioned(names: set[str], text: str) -> set[str]:
    return {name for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)}


def isort_key(name: str) -> tuple[int, str]:
    """Constants, classes, functions: the order that ruff keeps as well."""
    return (0 if len(name) > 1 and name.isupper() else 1 if name[0].isupper() else 2, name)


def public_breaks(source: str) -> list[str]:
    """`__all__` is sorted, and is exactly what the door imports or defines under a public name."""
    listed: list[str] = []
    bound: set[str] = set()
    body = ast.parse(source).body
    # What only a type checker imports is there all the same, at its first use.
    inside = [each for node in body if isinstance(node, ast.If) for each in node.body]
    for node in [*body, *inside]:
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing"):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__" and node.value:
                listed = ast.literal_eval(node.value)
            else:
                bound.add(ast.unparse(target))
    public = {name for name in bound if not name.startswith("_")} - {"TYPE_CHECKING"}
    breaks = [] if sorted(listed, key=isort_key) == list(listed) else ["not sorted"]
    breaks += [f"lists {name}, which is not there" for name in sorted(set(listed) - bound)]
    return breaks + [f"does not list {name}" for name in sorted(public - set(listed))]


def enum_members(source: str, enum: str) -> set[str]:
    return {
        ast.unparse(line.targets[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and node.name == enum
        for line in node.body
        if isinstance(line, ast.Assign)
    }


def docs_text() -> str:
    assert DOCS, "no README.md and no docs/*.md"
    return "\n".join(path.read_text(encoding="utf-8") for path in DOCS)


def need(*names: str) -> None:
    missing = [name for name in names if name not in SOURCES]
    if missing:
        pytest.skip(f"not written yet: {', '.join(missing)}")


def test_there_are_files_to_check() -> None:
    assert len(SOURCES) >= 5
    assert {"indexes", "connectors"} <= set(SOURCES)


@pytest.mark.parametrize("folder", ["indexes", "connectors"])
def test_folder_is_part_of_the_package(folder: str) -> None:
    assert (ROOT / "cec_store" / folder).samefile(ROOT / folder)


def test_every_room_and_file_has_its_place_in_the_order() -> None:
    listed = {".".join(filter(None, (folder, entry))) for folder, entries in ORDER.items()
              for entry in entries.split() if entry != "__init__"}  # fmt: skip
    assert listed == set(SOURCES) - {"cec_store"}
    assert sum(len(entries.split()) for entries in ORDER.values()) == len(SOURCES)


def test_rooms_are_small() -> None:
    paths = [path.relative_to(ROOT) for path in FILES.values()]
    assert sum(path.parent.name == "cec_store" for path in paths) <= TOP_FILES_MAX
    files = Counter(path.parent for path in paths if path.name != "__init__.py")
    assert {room: count for room, count in files.items() if count > ROOM_FILES_MAX} == {}


@each_module
def test_imports_point_upward(name: str) -> None:
    assert order_breaks(name, SOURCES[name], set(SOURCES)) == []


@each_module
def test_lengths(name: str) -> None:
    assert length_breaks(SOURCES[name]) == []


@each_module
def test_bans(name: str) -> None:
    assert ban_breaks(name, SOURCES[name]) == []


@pytest.mark.parametrize("room", SCALA_ROOMS)
def test_scala_rooms(room: str) -> None:
    files = sorted((SCALA / room).rglob("*.scala"))
    assert 0 < max(Counter(file.parent for file in files).values()) <= ROOM_FILES_MAX
    found = {str(f): scala_breaks(room, f.stem, f.read_text(encoding="utf-8")) for f in files}
    assert {name: breaks for name, breaks in found.items() if breaks} == {}


def test_scala_sources_are_all_in_rooms_or_on_sides_of_them() -> None:
    sides = {side.folder for choice in CHOICES for side in choice}
    folders = {file.parent.relative_to(SCALA).as_posix() for file in SCALA.rglob("*.scala")}
    assert sides <= folders
    assert folders - sides <= set(SCALA_ROOMS)


def test_every_module_is_reached() -> None:
    need(*ROOTS)
    assert unreached(SOURCES, ROOTS) == set()


def test_public_names_are_true_and_documented() -> None:
    need("cec_store")
    assert public_breaks(SOURCES["cec_store"]) == []
    listed = set(importlib.import_module("cec_store").__all__)
    assert listed
    assert unmentioned(listed, docs_text()) == set()


def test_verbs_are_documented() -> None:
    need("cli")
    typer = pytest.importorskip("typer")
    cli = importlib.import_module("cec_store.cli")
    verbs = set(typer.main.get_group(cli.app).list_commands(None))
    assert verbs
    assert unmentioned({f"cec-store {verb}" for verb in verbs}, docs_text()) == set()


@pytest.mark.parametrize(("name", "enum"), ENUMS_ON_DISK.items())
def test_format_names_every_kind(name: str, enum: str) -> None:
    need(name)
    members = enum_members(SOURCES[name], enum)
    assert members, f"{name} has no {enum}"
    text = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    assert unmentioned(members, text) == set()


# The rules themselves can fail.

KNOWN = {
    "errors", "format", "format.frame", "format.schema", "queues", "queues.appendable_queue", "cli",
    "operators", "operators.contract", "operators.keys", "operators.keys.encoder",
    "operators.runner", "connectors", "connectors.spark", "connectors.spark.setup.java",
    "connectors.spark.setup.compiler",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "source", "caught"),
    [
        ("format.schema", "from cec_store.errors import CecError", False),
        ("format.schema", "from cec_store.format.frame import Frame", False),
        ("format.frame", "from cec_store.format.schema import KEY", True),
        ("format.frame", "import cec_store.queues.appendable_queue", True),
        ("format.frame", "from cec_store.queues import appendable_queue", True),
        ("format.frame", "from ..queues import appendable_queue", True),
        ("format.frame", "from .schema import KEY", True),
        (
            "format.frame",
            "def f():\n    from cec_store.queues.appendable_queue import now_us",
            True,
        ),
        ("format.frame", "import_module('cec_store.queues.appendable_queue')", True),
        ("format.frame", "from cec_store import open_queue", True),
        ("format.frame", "from cec_store.format.other import x", False),  # not in KNOWN: no file
        ("operators.keys.encoder", "from ...format.frame import Frame", False),
        ("operators.keys.encoder", "from cec_store.operators.contract import Step", False),
        ("operators.keys.encoder", "from cec_store.operators.runner import Runner", True),
        ("operators.contract", "from cec_store.operators import Runner", True),
        ("operators", "from .runner import Runner", False),
        ("cec_store", "from .queues.appendable_queue import AppendableQueue", False),
        ("cec_store", "from .cli import main", True),
        (
            "connectors.spark.setup.compiler",
            "from cec_store.connectors.spark.setup.java import Java",
            False,
        ),
        ("nowhere", "import cec_store.errors", True),
    ],
)
def test_order_rule(name: str, source: str, caught: bool) -> None:
    assert bool(order_breaks(name, source, KNOWN)) is caught


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("def f():\n" + "    pass\n" * (FUNCTION_LINES_MAX - 1), False),
        ("def f():\n" + "    pass\n" * FUNCTION_LINES_MAX, True),
        ("x = 1\n" * FILE_LINES_MAX, False),
        ("x = 1\n" * (FILE_LINES_MAX + 1), True),
    ],
)
def test_length_rule(source: str, caught: bool) -> None:
    assert bool(length_breaks(source)) is caught


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("package {}.log\nimport {}.format.Format", False),
        ("package {}.log\nimport {}.state.{LiveState, X}", True),
        ("package {}.log\nimport {}.{CecLogException, log}", False),
        ("package {}.log\nimport {}.CecStateStoreProvider", True),
        ("package {}.log\nval x = {}.store.Settings", True),
        ("package {}.state", True),
        ("package {}", True),
        ("package {}.log\n" + "x\n" * FILE_LINES_MAX, True),
    ],
)
def test_scala_rule(source: str, caught: bool) -> None:
    assert bool(scala_breaks("log", "A", source.replace("{}", SCALA_PACKAGE))) is caught


@pytest.mark.parametrize(
    ("name", "source", "caught"),
    [
        ("storage.local", "import os", False),
        ("frame", "import os.path", True),
        ("frame", "from os import replace", True),
        ("demos.embedded", "import os, signal", False),
        ("storage.local", "import pickle", True),
        ("frame", "from marshal import loads", True),
        ("frame", "eval('1')", True),
        ("frame", "re.compile('eval(')", False),
        ("cli", "from indexes import timestamp", True),
        ("cli", "from cec_store.indexes import timestamp", False),
        ("operators.utils", "", True),
        ("log.pipeline", "isinstance(folder, (str, StoreFolder))", True),
        ("log.pipeline", "isinstance(folder, str) or folder.appends", False),
        ("storage.trees", "isinstance(folder, LocalFolder)", False),
    ],
)
def test_ban_rule(name: str, source: str, caught: bool) -> None:
    assert bool(ban_breaks(name, source)) is caught


def test_reach_rule() -> None:
    code = "x = 1\ny = 2"
    sources = {
        "cec_store": "from .opening import a",
        "opening": "import cec_store.queue",
        "queue": code,
    }
    assert unreached(sources, ("cec_store",)) == set()
    assert unreached({**sources, "frame": code, "indexes": '"""Words."""'}, ROOTS) == {"frame"}


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("from .a import B, f\n__all__ = ['B', 'f']", False),
        ("from .a import B, f\n__all__ = ['f', 'B']", True),
        ("from .a import B, f\n__all__ = ['B']", True),
        ("from .a import B\n__all__ = ['B', 'f']", True),
    ],
)
def test_public_rule(source: str, caught: bool) -> None:
    assert bool(public_breaks(source)) is caught


def test_mention_rule() -> None:
    source = "class Kind(IntEnum):\n    'Frozen.'\n    OPEN = 1\n    RESULT = 2"
    assert unmentioned(enum_members(source, "Kind"), "| `OPEN` | REOPEN RESULTS |") == {"RESULT"}
    assert unmentioned({"cec-store dump"}, "cec-store dump-all") == {"cec-store dump"}
