#!/usr/bin/env bash
# Hadoop 3.5.0, as in pyspark 4.3.0: a file that is being written by the file system of `file:`. A guess: after `hflush` the bytes can be
# read by others, and after `hsync` they are on disk, as `Syncable` has it and as on HDFS; or both raise UnsupportedOperationException.
#
# Seen: both return, and the file stays empty until the buffer is full or the stream is closed, since that file system keeps checksums
# beside each file (`.name.crc`). A log that syncs each record loses all of them with the process. `hasCapability("hsync")` is false,
# which is the only sign. Below it, `getRaw()` syncs, and replaces an existing target in `rename`, which the one above refuses by
# returning false.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import os
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
hadoop = session._jvm.org.apache.hadoop
local = hadoop.fs.FileSystem.getLocal(session.sparkContext._jsc.hadoopConfiguration())


def write(files, folder):
    os.mkdir(folder)
    path = f"{os.getcwd()}/{folder}/log"
    stream = files.create(hadoop.fs.Path(path), False)
    stream.write(bytearray(b"record"))
    sizes = []
    for call in (stream.hflush, stream.hsync, stream.flush, stream.close):
        capable = stream.hasCapability("hsync")
        call()
        sizes.append(os.path.getsize(path))
    with open(f"{folder}/other", "w"):
        pass
    renamed = files.rename(hadoop.fs.Path(path), hadoop.fs.Path(f"{os.getcwd()}/{folder}/other"))
    return capable, sizes, renamed


seen = {"local": write(local, "checked"), "raw": write(local.getRaw(), "raw")}
version = hadoop.util.VersionInfo.getVersion()
session.stop()
print(version, seen)
assert seen["local"] == (False, [0, 0, 0, 6], False)
assert seen["raw"] == (True, [6, 6, 6, 6], True)
PYTHON
