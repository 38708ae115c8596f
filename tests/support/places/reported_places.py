"""Places for reports to be about: large ones, hostile ones, damaged ones. All are made anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa

from cec_store.format.schema import RecordSchema
from support.places.checkpoints import JOIN
from support.places.made_checkpoints import MadeCheckpoint, Rows
from support.places.partitioned_queues import commit

KEY = pa.struct([("user", pa.string()), ("page", pa.int64())])
VALUE = pa.struct([("count", pa.int64()), ("last", pa.string())])
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "<!-- {{page}} ]]> \u2028 \u2029",
    "\x00\x07\x1b[31m\r\n\t",
    "\u202egnp.exe \ufeff\U000e0041",
    "'\"`${document.title}",
)
"""Keys that mean harm to a page, a script, a terminal or a reader's eyes."""


def grown(path: Path, batches: int = 8, keys: int = 6, **how: int) -> MadeCheckpoint:
    """A checkpoint with some keys that change all the time, and some that seldom do."""
    random, made = Random(5), MadeCheckpoint(path, KEY, VALUE, **how)  # type: ignore[arg-type]
    for batch in range(batches):
        rows: list[Rows] = []
        for partition in range(made.partitions):
            names = [random.randrange(keys + partition) ** 2 for _ in range(keys)]
            rows.append({(f"user {n}", n % 3): (batch, "x" * n) for n in names})
        made.batch(*rows, renew=1)
        if batch == batches // 2:
            made.roll()
    made.close()
    return made


def hostile(path: Path) -> MadeCheckpoint:
    made = MadeCheckpoint(path, KEY, VALUE, partitions=1)
    made.batch({(name, n): (n, name) for n, name in enumerate(HOSTILE)})
    made.close()
    return made


def large(path: Path, partitions: int = 200, patterns: int = 8) -> Path:
    """As many partitions, of four stores each: those of some patterns, again and again."""
    made = MadeCheckpoint(path, KEY, VALUE, partitions=patterns, stores=JOIN)
    for batch in range(6):
        made.batch(
            *(
                {(f"user {n * batch % (7 + p)}", n): (batch, "") for n in range(3 + 2 * p)}
                for p in range(patterns)
            )
        )
    made.close()
    for partition in range(patterns, partitions):
        shutil.copytree(path / "state" / "0" / str(partition % patterns),
                        path / "state" / "0" / str(partition))  # fmt: skip
    about = path / "state" / "0" / "_metadata" / "metadata"
    head, body = about.read_text().split("\n", 1)
    said = json.loads(body)
    for store in said["stateStoreInfo"]:
        store["numPartitions"] = partitions
    about.write_text(f"{head}\n{json.dumps(said)}")
    return path


def partitioned(path: Path, batches: int = 5) -> Path:
    """A queue of three partitions."""
    schema = RecordSchema(pa.schema([("n", pa.int64())]))
    for batch in range(batches):
        parts = {number: {"n": [*range(10 * (number + 1))]} for number in range(3)}
        commit(
            path,
            batch,
            {n: pa.RecordBatch.from_pydict(of, schema=schema.data) for n, of in parts.items()},
            schema=schema,
        )
    return path
