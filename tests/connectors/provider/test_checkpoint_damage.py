"""A query restarted on a damaged checkpoint: the right result, or a refusal that names the file."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.runs.counts import crash_cases
from support.spark.runs import Kept, settings_of

FILES, ROWS, KEYS = 4, 30, 7
WOUNDS = ("deleted", "emptied", "halved", "flipped")


def rows_of(file: int) -> list[dict[str, int]]:
    return [{"k": (file * 3 + n) % KEYS, "n": file * ROWS + n} for n in range(ROWS)]


def totals(files: range) -> dict[int, tuple[int, int]]:
    """Rows and sum by key, computed at once."""
    rows = [row for file in files for row in rows_of(file)]
    keys = {row["k"] for row in rows}
    return {
        key: (sum(r["k"] == key for r in rows), sum(r["n"] for r in rows if r["k"] == key))
        for key in keys
    }


@dataclass
class Query:
    """Counts and sums by key, in two partitions; one file of input is one batch."""

    spark: Any
    folder: Path
    kept: Kept

    def feed(self, files: range) -> None:
        (self.folder / "input").mkdir(parents=True, exist_ok=True)
        for file in files:
            text = "\n".join(map(json.dumps, rows_of(file)))
            (self.folder / "input" / f"{file}.json").write_text(text)

    def run(self, checkpoint: Path) -> dict[int, tuple[int, int]]:
        """What the last batch said."""
        from pyspark.sql import functions as f

        said: list[dict[int, tuple[int, int]]] = []

        def take(frame: Any, batch: int) -> None:
            said.append({row["k"]: (row["rows"], row["sum"]) for row in frame.collect()})

        with settings_of(self.spark, self.kept.of(0)):
            reader = self.spark.readStream.schema("k INT, n LONG").option("maxFilesPerTrigger", 1)
            rows = reader.json(str(self.folder / "input"))
            sums = rows.groupBy("k").agg(f.count("*").alias("rows"), f.sum("n").alias("sum"))
            writer = sums.writeStream.outputMode("complete").foreachBatch(take)
            writer = writer.option("checkpointLocation", str(checkpoint))
            running = writer.trigger(availableNow=True).start()
            try:
                running.awaitTermination()
            finally:
                running.stop()
        return said[-1]


def wound(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    # Hadoop refuses a file that its own checksum does not fit, before anybody reads it.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    if how == "deleted":
        path.unlink()
        return
    if how == "flipped":
        data[len(data) // 2] ^= 1
    path.write_bytes(data[: {"emptied": 0, "halved": len(data) // 2}.get(how, len(data))])


@pytest.fixture(scope="module", params=[1, 2], ids=["V1", "V2"])
def query(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: Any) -> Query:
    made = Query(spark, tmp_path_factory.mktemp("query"), Kept(version=request.param))
    made.feed(range(FILES - 1))
    assert made.run(made.folder / "checkpoint") == totals(range(FILES - 1))
    # A second start, so that each partition has a segment that builds on another.
    made.feed(range(FILES - 1, FILES))
    assert made.run(made.folder / "checkpoint") == totals(range(FILES))
    made.feed(range(FILES, FILES + 1))
    return made


def state_files(checkpoint: Path) -> list[Path]:
    found = [path for path in (checkpoint / "state").rglob("*") if path.is_file()]
    return sorted(path.relative_to(checkpoint) for path in found if path.suffix != ".crc")


def restarted(query: Query, file: Path, how: str) -> str:
    """`right`, or what the refusal says."""
    from pyspark.errors import StreamingQueryException

    copy = query.folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(query.folder / "checkpoint", copy)
    wound(copy / file, how)
    try:
        found = query.run(copy)
    except StreamingQueryException as error:
        return str(error)
    assert found == totals(range(FILES + 1)), (file, how)
    return "right"


@pytest.mark.crash
def test_damage_to_any_file_of_the_state_is_refused_or_does_not_matter(query: Query) -> None:
    wounds = crash_cases(WOUNDS[query.kept.version - 1 :: 2], WOUNDS)
    files = state_files(query.folder / "checkpoint")
    segments = [file for file in files if file.suffix == ".seg"]
    assert len(segments) >= 4, "two partitions, each started twice"
    assert len(segments) < len(files), "Spark's own metadata is there too"
    outcomes: Counter[tuple[bool, bool]] = Counter()  # of ours, and right
    for file in files:
        for how in wounds:
            said = restarted(query, file, how)
            is_ours = file in segments
            outcomes[is_ours, said == "right"] += 1
            if is_ours and said != "right":
                assert "CecLogException" in said, (file, how)
                assert str(file.parent) in said, (file, how)
                assert f"version {FILES} was wanted" in said, (file, how)
    assert outcomes[True, False] > len(segments) * len(wounds) // len(WOUNDS), (
        "damage to segments was hardly ever met"
    )
    assert sum(outcomes.values()) == len(files) * len(wounds)


def test_state_that_is_gone_is_refused(query: Query) -> None:
    """All segments of one partition: it does not begin again with nothing."""
    from pyspark.errors import StreamingQueryException

    copy = query.folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(query.folder / "checkpoint", copy)
    for file in (copy / "state" / "0" / "0").glob("*.seg"):
        file.unlink()
    with pytest.raises(StreamingQueryException, match="version 4 was wanted; no version is sound"):
        query.run(copy)
