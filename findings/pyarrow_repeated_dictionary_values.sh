#!/usr/bin/env bash
# pyarrow 26.0.1 and a dictionary that has a value twice, as concatenated or hand-made dictionaries can; `validate(full=True)` takes
# it. A guess: rows with equal values are one group.
#
# Seen: `equal` compares values, but `unique`, `value_counts` and `group_by` go by the index, so two groups have the same key;
# after `dictionary_decode` there is one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc

words = pa.DictionaryArray.from_arrays([0, 1], ["a", "a"])
words.validate(full=True)
grouped = pa.table({"k": words}).group_by("k").aggregate([([], "count_all")]).to_pylist()
print(pa.__version__, grouped, words.unique().to_pylist())
assert pc.equal(words, "a").to_pylist() == [True, True]
assert grouped == [{"k": "a", "count_all": 1}, {"k": "a", "count_all": 1}]
assert words.unique().to_pylist() == ["a", "a"]
assert words.dictionary_decode().unique().to_pylist() == ["a"]
PYTHON
