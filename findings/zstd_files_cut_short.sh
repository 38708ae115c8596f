#!/usr/bin/env bash
# A CSV file in one zstd frame that ends too early, as a writer leaves it that was killed or a copy that broke off. A guess: whoever reads
# it says so, since a frame has an end, and since the same readers say so of the same rows in gzip.
#
# Seen: DuckDB 2.0.1 and pandas 3.1.1 give the rows up to the cut without an error, and the last of them is a number that was never written
# (1098302 is cut to 109830). python-zstandard 0.25.0, which pandas asks, does not tell: `open`, `stream_reader`, `copy_stream` and
# `read_to_iter` end as if all were read; only `decompress` raises. fsspec 2026.9.0 does so with zstandard, and raises once
# backports.zstd 1.8.0 is installed, which it prefers. polars 2.1.0 and pyarrow 26.0.1 raise. With gzip all of them raise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    duckdb==2.0.1 fsspec==2026.9.0 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 zstandard==0.25.0
cat > readers.py <<'PYTHON'
import gzip
import io
import duckdb
import fsspec
import pandas
import polars
import pyarrow.csv
import zstandard

numbers = range(1_000_000, 1_200_000)
text = b"n\n" + b"".join(b"%d\n" % number for number in numbers)
for kind, whole in {"zst": zstandard.compress(text), "gz": gzip.compress(text)}.items():
    with open(f"rows.csv.{kind}", "wb") as file:
        file.write(whole[: len(whole) * 3 // 5])
with open("rows.csv.zst", "rb") as file:
    cut = file.read()


def outcome(read):
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:70]


def copied():
    target = io.BytesIO()
    zstandard.ZstdDecompressor().copy_stream(io.BytesIO(cut), target)
    return target.getvalue()


def unpacked(kind):
    with fsspec.open(f"rows.csv.{kind}", "rb", compression="infer") as file:
        return file.read()[-15:]


def frames(kind):
    path = f"rows.csv.{kind}"
    return {
        "duckdb": outcome(lambda: duckdb.sql(f"SELECT n FROM '{path}' OFFSET 98301").fetchall()),
        "pandas": outcome(lambda: [(int(n),) for n in pandas.read_csv(path)["n"][98301:]]),
        "fsspec": outcome(lambda: unpacked(kind)),
        "polars": outcome(lambda: polars.read_csv(path).rows()[98301:]),
        "pyarrow": outcome(lambda: pyarrow.csv.read_csv(path).num_rows),
    }


def streams():
    reader = zstandard.ZstdDecompressor
    return {
        "open": outcome(lambda: zstandard.open("rows.csv.zst").read()[-15:]),
        "stream_reader": outcome(lambda: reader().stream_reader(io.BytesIO(cut)).read()[-15:]),
        "copy_stream": outcome(lambda: copied()[-15:]),
        "read_to_iter": outcome(lambda: b"".join(reader().read_to_iter(cut))[-15:]),
        "decompress": outcome(lambda: reader().decompress(cut)[-15:]),
    }
PYTHON
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import readers

zst, gz, streams = readers.frames("zst"), readers.frames("gz"), readers.streams()
names = ("duckdb", "fsspec", "pandas", "polars", "pyarrow", "zstandard")
print(*[f"{name} {importlib.metadata.version(name)}" for name in names], zst, gz, streams, sep="\n")
assert zst["duckdb"] == zst["pandas"] == [(1098301,), (1098302,), (109830,)]
assert zst["fsspec"] == b"\n1098302\n109830" and 109830 not in readers.numbers
assert zst["polars"] == "OSError: incomplete frame" and zst["pyarrow"] == "OSError: Truncated compressed stream"
assert "Unexpected end of GZIP stream" in gz.pop("duckdb")
assert all("Error: " in text for text in gz.values())
assert "did not decompress full frame" in streams.pop("decompress")
assert set(streams.values()) == {b"\n1098302\n109830"}
PYTHON
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check backports.zstd==1.8.0
"$folder/venv/bin/python" - <<'PYTHON'
import readers

seen = readers.frames("zst")
print(seen)
assert seen["fsspec"].startswith("EOFError: ") and seen["duckdb"] == seen["pandas"] == [(1098301,), (1098302,), (109830,)]
PYTHON
