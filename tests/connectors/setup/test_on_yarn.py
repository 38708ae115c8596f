"""What the page on clusters says of YARN, word for word, on a real YARN over a real HDFS."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from cec_store import read_queue
from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.java import find_java
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.paths import DOCS
from support.runs.pages import blocks_of
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import at_full_size, need
from support.stores.yarn_cluster import yarn_cluster

need("fsspec", "requests")
pytestmark = at_full_size("resource manager, node managers, two applications")

HOME = "user/root"
RUN_S_MAX = 400


@pytest.fixture(scope="module")
def settings(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For clients of a YARN whose files are on that HDFS."""
    with yarn_cluster(tmp_path_factory.mktemp("yarn"), hdfs.url) as folder:
        yield folder


def command() -> str:
    """As the page has it."""
    page = (DOCS / "production" / "clusters.md").read_text("utf-8")
    [found] = [each.text for each in blocks_of(page) if "--master yarn" in each.text]
    return found


def program() -> str:
    """The first tutorial's, which leaves the settings and the master to the command line."""
    page = (DOCS / "tutorials" / "quickstart.md").read_text("utf-8")
    [found] = [each.text for each in blocks_of(page) if each.title == "totals.py"]
    plain = found.replace("from cec_store.connectors import spark\n", "")
    plain = plain.replace('.master("local[2]")', "")
    plain = re.sub(r"spark\.configure\(builder[^)]*\)", "builder", plain)
    assert "cec_store" not in plain
    assert "spark.configure" not in plain
    return plain


def write_defaults(folder: Path) -> None:
    """What a cluster of this machine needs besides, in spark-defaults.conf."""
    folder.mkdir()
    java = find_java().executable.parent.parent
    said = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "2",
        "spark.pyspark.python": sys.executable,
        "spark.yarn.appMasterEnv.JAVA_HOME": java,
        "spark.executorEnv.JAVA_HOME": java,
        # All nodes are this machine: nothing has to be uploaded for them.
        "spark.yarn.jars": f"local:{compiler.find_spark().jars}/*",
    }
    text = "".join(f"{name} {value}\n" for name, value in said.items())
    (folder / "spark-defaults.conf").write_text(text)


def test_a_query_runs_and_goes_on_as_the_page_says(
    hdfs: Hdfs, settings: Path, tmp_path: Path
) -> None:
    import fsspec

    options = {"user": "root", "port": hdfs.http_port}
    files = fsspec.filesystem("webhdfs", host="127.0.0.1", **options)
    [jar] = re.findall(r"hdfs://(/\S+\.jar)", command())
    files.pipe_file(jar, compiler.jar().read_bytes())
    (tmp_path / "totals.py").write_text(program())
    write_defaults(tmp_path / "conf")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(find_java().executable.parent.parent),
        "HADOOP_CONF_DIR": str(settings),
        "HADOOP_USER_NAME": "root",
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
    }
    days = (
        '{"item": "lamp", "price": 30, "at": "2026-03-02T09:00:00Z"}\n'
        '{"item": "chair", "price": 45, "at": "2026-03-02T09:30:00Z"}\n',
        '{"item": "lamp", "price": 100, "at": "2026-03-03T08:00:00Z"}\n',
    )
    for number, orders in enumerate(days):
        files.pipe_file(f"/{HOME}/orders/{number}.json", orders.encode())
        done = subprocess.run(
            ["bash", "-c", command()], cwd=tmp_path, env=environment, capture_output=True,
            text=True, timeout=RUN_S_MAX,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
    queue = f"{hdfs.url}/{HOME}/queues/totals"
    rows = read_queue(queue, storage_options=options).read_all().to_pylist()
    came = sorted((row["item"], row["total"]) for row in rows)
    assert came == [("chair", 45), ("lamp", 30), ("lamp", 130)]
    checkpoint = folder_at(f"{hdfs.url}/{HOME}/checkpoints/totals", options)
    found = verify_place(place_at(checkpoint))
    assert found.is_sound, found.faults
    assert found.batches == (0, 1)
