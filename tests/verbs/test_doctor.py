"""`cec-store doctor`: exit status, text as pinned, documented JSON, and no Spark to start it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from cec_store import open_queue
from cec_store.cli import app
from cec_store.connectors.spark.setup.settings import BUILT_IN, PREFIX, PROVIDER_KEY
from cec_store.doctor.diagnoses import SUBJECTS
from cec_store.storage import mounts
from support.command_line.json_schemas import FOLDER, check
from support.command_line.snapshots import pinned
from support.disks.listed_mounts import list_mount
from support.disks.other_user import as_nobody, open_to_all
from support.paths import SNAPSHOTS
from support.places import damaged_queues as made
from support.places.checkpoints import Made
from support.places.made_checkpoints import grown

SCHEMA = pa.schema([("n", pa.int64())])


def run(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["doctor", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exit_code == status, result.output
    return result


def document(*arguments: object, status: int = 0) -> Any:
    """What `--json` prints, which has the documented form."""
    said = json.loads(run(*arguments, "--json", status=status).stdout)
    check("doctor", said)
    assert said["sound"] is (status == 0)
    return said


@pytest.fixture(autouse=True)
def _a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTS", str(list_mount(tmp_path, "ext4", "/dev/sda1")))


def places(folder: Path) -> dict[str, Path]:
    paths = {name: folder / name for name in ("queue", "partitions", "checkpoint", "rocksdb")}
    made.make_operator_queue(paths["queue"], 300)
    with open_queue(paths["partitions"], "a", schema=SCHEMA, partitions=2) as queue:
        queue.append(pa.table({"n": [1, 2, 3]}))
    Made(paths["checkpoint"]).run(3)
    Made(paths["rocksdb"], conf={PROVIDER_KEY: BUILT_IN["rocksdb"]}).run(3)
    return {**paths, "store": paths["checkpoint"] / "state" / "0" / "1"}


KINDS = {
    "queue": "queue", "partitions": "partitioned queue", "checkpoint": "checkpoint",
    "rocksdb": "checkpoint", "store": "state store",
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_text_and_document_of_each_kind_of_place(tmp_path: Path, name: str) -> None:
    path = places(tmp_path)[name]
    status = int(name == "rocksdb")
    before = made.hash_of(path)
    result = run(path, status=status)
    said = document(path, status=status)
    assert made.hash_of(path) == before, "nothing is written"
    assert said["kind"] == KINDS[name]
    text = result.output.replace(str(tmp_path), "HERE")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "NOW", text)
    text = re.sub(r"[\d.,]+ GiB of [\d.,]+ GiB free", "ROOM", text)
    text = re.sub(r"all belongs to \S+", "all belongs to USER", text)
    pinned(SNAPSHOTS / f"doctor-{name}.txt", f"{text}exit status {result.exit_code}\n")


def test_a_fault_of_a_setting_is_a_status_too(tmp_path: Path) -> None:
    said = document("--conf", f"{PREFIX}extentfactor=2", status=1)
    assert {"name": f"{PREFIX}extentfactor", "value": "2", "source": "--conf"} in said["settings"]
    assert [line for line in said["diagnoses"] if "did you mean" in line["what"]]


def test_what_may_not_be_read_has_a_status_of_its_own() -> None:
    with open_to_all() as folder:
        grown(folder / "c")
        (folder / "c" / "state").chmod(0)
        with as_nobody():
            result = CliRunner().invoke(app, ["doctor", str(folder / "c")])
    assert result.exit_code == 3, result.output
    assert "look again as a user who may read it" in result.output or "run this as" in result.output


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("NOTHING",), "does not exist"),
        (("s3:/lake/q",), "write s3://lake/q"),
        ((".", "--storage-option", "anon=true"), "local files have no storage_options"),
        (("--storage-option", "anon=true"), "--storage-option is for a PATH"),
        (("--conf", "x"), "give NAME=VALUE"),
    ],
)
def test_wrong_use_has_status_2_and_says_why(words: tuple[str, ...], what: str) -> None:
    result = CliRunner().invoke(app, ["doctor", *words])
    assert result.exit_code == 2
    assert what in " ".join(result.output.replace("│", " ").split())


def test_subjects_of_the_schema_are_those_of_the_program() -> None:
    schema = json.loads((FOLDER / "doctor.schema.json").read_text("utf-8"))
    assert schema["$defs"]["diagnosis"]["properties"]["subject"]["enum"] == [*SUBJECTS]


def test_pyspark_is_not_imported(tmp_path: Path) -> None:
    path = places(tmp_path)["checkpoint"]
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from typer.testing import CliRunner; from cec_store.cli import app\n"
        f"r = CliRunner().invoke(app, ['doctor', {str(path)!r}])\n"
        "print(r.output); sys.exit(r.exit_code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cec-store keeps its state" in done.stdout


def test_damage_is_a_line_and_no_traceback(tmp_path: Path) -> None:
    path = places(tmp_path)["queue"]
    made.flip(made.segments(path)[-1], 3)
    said = document(path, status=1)
    assert [line["subject"] for line in said["diagnoses"] if line["severity"] == "fault"] == [
        "damage"
    ]
