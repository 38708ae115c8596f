#!/usr/bin/env bash
# partd 1.4.2, Dask's appendable stores on disk: `Numpy.append` of an array whose type is not that of the arrays before it under the same
# key, such as a batch of floats behind one of integers. A guess: the append is refused, or the arrays are joined as `numpy.concatenate`
# joins them; the type is kept beside the bytes.
#
# Seen: the bytes are appended, and the first array's type is told for all of them. 3.5 behind integers is 4615063718147915776, two
# integers of 32 bits are one number, so rows are lost, "bcd" behind "a" is three rows, and a time in seconds behind nanoseconds is one of
# the first two seconds of 1970. `append` and `get` raise nothing. `PandasColumns`, which is made of it, does so with columns and with the
# index; `PandasBlocks` joins well.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    numpy==2.4.6 packaging==26.4 pandas==3.1.1 partd==1.4.2
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import numpy
import pandas
import partd

array = numpy.array


def joined(store, *parts):
    for part in parts:
        store.append({"rows": part})
    return store.get("rows")


def arrays(name, *parts):
    result = joined(partd.Numpy(partd.File(name)), *parts)
    return str(result.dtype), result.view("int64").tolist() if result.dtype.kind == "M" else result.tolist()


def frames(kind, name):
    parts = pandas.DataFrame({"n": [1]}), pandas.DataFrame({"n": [3.5]})
    return joined(kind(partd.File(name)), *parts)["n"].tolist()


seen = {
    "integers and integers": arrays("a", array([1, 2]), array([3])),
    "integers and floats": arrays("b", array([1, 2]), array([3.5])),
    "64 and 32 bits": arrays("c", array([1, 2]), array([3, 4], "int32")),
    "texts": arrays("d", array(["a"]), array(["bcd"])),
    "times": arrays("e", array(["2020-01-01"], "datetime64[ns]"), array(["2021-01-01"], "datetime64[s]")),
    "PandasColumns": frames(partd.PandasColumns, "f"),
    "PandasBlocks": frames(partd.PandasBlocks, "g"),
}
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("partd", "numpy", "pandas")], *seen.items(), sep="\n")
assert seen["integers and integers"] == ("int64", [1, 2, 3])
assert seen["integers and floats"] == ("int64", [1, 2, 4615063718147915776])
assert seen["64 and 32 bits"] == ("int64", [1, 2, 3 + 4 * 2**32])
assert seen["texts"] == ("<U1", ["a", "b", "c", "d"])
assert seen["times"] == ("datetime64[ns]", [1_577_836_800_000_000_000, 1_609_459_200])
assert seen["PandasColumns"] == [1, 4615063718147915776] and seen["PandasBlocks"] == [1.0, 3.5]
PYTHON
