"""A declarative pipeline, from the files of docs/spark-pipelines.md: runs, a refresh, a fork."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark.pipelines")
pytest.importorskip("grpc_status")

import pyspark

import cec_store
from cec_store.connectors import spark as cec_spark
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.paths import DOCS
from support.runs.minors import needs_newest

HOME = Path(pyspark.__file__).parent
TIMEOUT_S = 600
TABLES = ("trades", "items", "dearest", "cheap")
COUNT = """
import json, sys
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = {table: session.table(table).count() for table in sys.argv[3:]}
print(json.dumps({**rows, "alerts": session.read.format("cec").load(sys.argv[2]).count()}))
"""


def block(kind: str, folder: Path) -> str:
    """Return the page's one block of a language, with paths in this folder."""
    [text] = re.findall(
        rf"^```{kind}\n(.*?)^```$", (DOCS / "spark-pipelines.md").read_text("utf-8"), re.M | re.S
    )
    return str(text).replace("/data/", f"{folder}/")


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """The address of a server of Spark Connect that has our jar."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    conf = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": f"{tmp_path}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    command = [
        str(HOME / "bin" / "spark-submit"), "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--jars", cec_spark.jar(), *(f"--conf={name}={value}" for name, value in conf.items()),
        "spark-internal",
    ]  # fmt: skip
    log = tmp_path / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=tmp_path, env=environment(), start_new_session=True
        )
    try:
        until = time.monotonic() + TIMEOUT_S
        while "Spark Connect server started" not in log.read_text():
            is_starting = server.poll() is None and time.monotonic() < until
            assert is_starting, log.read_text()[-3000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(TIMEOUT_S)


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def called(folder: Path, *command: object) -> str:
    done = subprocess.run(
        [str(each) for each in command], cwd=folder, env=environment(),
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


# Five runs of a pipeline take some minutes.
@needs_newest
@pytest.mark.crash
@pytest.mark.exhaustive
def test_the_pages_pipeline_runs_again_is_refreshed_and_forked(tmp_path: Path, remote: str) -> None:
    def run(*options: str) -> dict[str, int]:
        program = HOME / "bin" / "spark-pipelines"
        called(tmp_path, program, "--remote", remote, "run", *options)
        counted = called(tmp_path, sys.executable, "-W", "ignore", "-c", COUNT, remote,
                         tmp_path / "alerts", *TABLES)  # fmt: skip
        found: dict[str, int] = json.loads(counted.splitlines()[-1])
        return found

    def put(name: str, *rows: tuple[str, float]) -> None:
        lines = [json.dumps({"item": item, "price": price}) for item, price in rows]
        (tmp_path / "in" / name).write_text("\n".join(lines))

    for folder in ("in", "flows"):
        (tmp_path / folder).mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(block("yaml", tmp_path))
    (tmp_path / "flows" / "trades.py").write_text(
        "from cec_store.connectors import spark as cec\n"
        + block("python", tmp_path)
        + "\n\ncec.register(spark)\n"
    )
    (tmp_path / "flows" / "cheap.sql").write_text(block("sql", tmp_path))
    put("1.json", ("a", 1), ("a", 200), ("b", 3))
    first = {"trades": 3, "items": 2, "dearest": 2, "cheap": 2, "alerts": 1}
    assert run() == first
    put("2.json", ("c", 5), ("a", 300))
    second = {"trades": 5, "items": 3, "dearest": 3, "cheap": 3, "alerts": 2}
    assert run() == second
    assert run("--full-refresh", "trades,items,cheap") == second
    assert run() == {**second, "alerts": 4}, "a flow that was not refreshed takes all rows again"
    assert run("--full-refresh-all") == {**second, "alerts": 6}, "a sink is not emptied"
    checkpoint = tmp_path / "storage" / "_checkpoints" / "spark_catalog" / "default" / "items"
    newest = checkpoint / "items" / "2"
    cec_store.fork(newest, tmp_path / "fork", batch=0)
    for path in (newest, tmp_path / "fork"):
        assert verify_place(place_at(folder_at(path))).is_sound
        assert cec_store.read_state(path).num_rows == 3
