#!/usr/bin/env bash
# Spark 4.3.0: `hash` is documented as Murmur3 and `xxhash64` as xxHash, both with seed 42. A guess: both can be computed elsewhere,
# so that other programs know a row's hash partition or bucket.
#
# Seen: `xxhash64` is xxHash (xxhash 4.1.0). `hash` is Murmur3 (mmh3 5.3.1) only for strings of a multiple of four bytes: Spark mixes
# the bytes at the end one by one, each as a block of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check mmh3==5.3.1 pyspark==4.3.0 xxhash==4.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import mmh3
import pyspark
import xxhash
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
)
words = ["a", "ab", "abc", "abcd", "abcde", "abcdefgh"]
values = ", ".join(f"('{word}')" for word in words)
rows = session.sql(f"SELECT word, hash(word), xxhash64(word) FROM VALUES {values} AS rows(word)").collect()
session.stop()
murmur = {word for word, number, _ in rows if number == mmh3.hash(word.encode(), 42)}
xx = {word for word, _, number in rows if number % 2**64 == xxhash.xxh64(word.encode(), 42).intdigest()}
print(pyspark.__version__, murmur, xx)
assert murmur == {"abcd", "abcdefgh"}
assert xx == set(words)
PYTHON
