"""The warning of an executor whose keys take longer to read than the recovery time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from cec_store.connectors import spark

LOG4J = '''
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n
'''
folder, recovery_time_s = Path(sys.argv[1]), float(sys.argv[2])
(folder / "log4j2.properties").write_text(LOG4J.format(folder / "executor.log"))
builder = SparkSession.builder.master("local-cluster[1,1,1024]")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions":
        f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties",
}.items():
    builder = builder.config(name, value)
session = spark.configure(builder, recovery_time_s=recovery_time_s).getOrCreate()
counts = session.readStream.text(str(folder / "in")).groupBy("value").count()
writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
session.stop()
"""
"""One batch that counts lines. The executor is a process of its own, with a log of its own."""
TIMEOUT_S = 600
KEYS = 40_000
"""Keys of the one partition. Before a load is timed, a restart is taken to read 400 in a ms."""
WARNING = re.compile(
    r"^WARN .*cannot meet its target: reading its 40000 keys alone takes about 160 ms "
    r".*recoveryTimeMs is 150\b.*Use more partitions, or allow a longer recovery time$",
    re.MULTILINE,
)


@pytest.mark.parametrize(("recovery_time_s", "warnings"), [(0.15, 1), (0.2, 0)])
def test_keys_that_take_longer_than_the_recovery_time_are_told_in_the_executors_log(
    tmp_path: Path, recovery_time_s: float, warnings: int
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("\n".join(map(str, range(KEYS))), encoding="utf-8")
    job = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(recovery_time_s)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert job.returncode == 0, job.stderr[-6000:]
    log = (tmp_path / "executor.log").read_text("utf-8")
    assert len(WARNING.findall(log)) == warnings, log
    assert log.count("cannot meet its target") == warnings
    assert "cannot meet its target" not in job.stderr
