"""Sixteen appenders race on an object-store server: no acknowledged row is lost, or it is refused.

Run by hand: `CEC_STORES=required PYTHONPATH=tests .venv/bin/python -m places.object_stores NAME`,
which fetches what it needs; without a name all servers, one after the other.
`NAME=http://127.0.0.1:PORT` is one that runs already, with nothing in a bucket `bucket`. The race
is run from Python, and on S3 from Spark as well (`--turns`, `--spark-turns`; 0 for none). Servers
are those of support.stores.object_servers. Prints a line a race for docs/where.md, and fails where
rows were lost.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

import cec_store
from cec_store.errors import CecError, NoExclusiveCreate
from support.stores.ceph_node import KEY
from support.stores.object_servers import SERVERS, Server, running
from support.stores.s3a import s3a_settings

PROCESSES, THREADS = 4, 4
DRIVERS, SPARK_THREADS = 2, 8
"""Sixteen appenders each; a driver takes a gigabyte."""
SCHEMA = pa.schema([("n", pa.int64())])


def append_rows(
    url: str, options: dict[str, Any], appender: int, turns: int
) -> tuple[list[int], list[str]]:
    """Append a row a turn; return those that were acknowledged, and the errors."""
    acknowledged, errors = [], []
    for number in range(appender * turns, appender * turns + turns):
        try:
            with cec_store.open_queue(
                url, "a", schema=SCHEMA, partitions=1, storage_options=options
            ) as queue:
                queue.append(pa.table({"n": [number]}))
        except CecError as error:
            errors.append(f"{type(error).__name__}: {error}")
        else:
            acknowledged.append(number)
    return acknowledged, errors


def appenders(url: str, options: dict[str, Any], first: int, turns: int) -> None:
    """Be one of the processes: threads that append, and a line of JSON with what came of it."""
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda n: append_rows(url, options, first + n, turns), range(THREADS)))
    acknowledged = [number for rows, _ in done for number in rows]
    print(json.dumps([acknowledged, [error for _, errors in done for error in errors]]))


def judge(url: str, options: dict[str, Any], acknowledged: list[int]) -> tuple[bool, str]:
    """Return whether the queue has each acknowledged row once, and what was seen."""
    table = cec_store.read_queue(url, storage_options=options).read_all()
    counts = Counter(table["n"].to_pylist())
    lost = [number for number in acknowledged if not counts[number]]
    twice = [number for number, times in counts.items() if times > 1]
    return not lost and not twice, f"{len(lost)} lost, {len(twice)} twice"


def kinds(errors: list[str]) -> dict[str, int]:
    """How many there are of each kind; prints one of each."""
    by_kind = {error.split(":")[0][:80]: error for error in errors}
    for error in by_kind.values():
        print(f"  {error}")
    return dict(Counter(error.split(":")[0][:80] for error in errors))


def race(server: Server, address: str, turns: int) -> tuple[bool, str]:
    """Race from Python; return False where acknowledged rows were lost, and what happened."""
    options, started = server.options(address), time.monotonic()
    url = f"{server.url}-{secrets.token_hex(4)}"
    try:
        cec_store.open_queue(url, "a", schema=SCHEMA, partitions=1, storage_options=options).close()
    except NoExclusiveCreate as error:
        return True, f"refused before the first row: {error}"
    making_s = time.monotonic() - started
    facts = ["--append", url, json.dumps(options), str(turns)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "places.object_stores", *facts, str(n * THREADS)],
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        for n in range(PROCESSES)
    ]
    told = [json.loads(process.communicate()[0]) for process in processes]
    acknowledged = [number for rows, _ in told for number in rows]
    is_right, seen = judge(url, options, acknowledged)
    return is_right, (
        f"{len(acknowledged)} of {PROCESSES * THREADS * turns} rows acknowledged, {seen}, errors "
        f"{kinds([error for _, some in told for error in some])}; making {making_s:.1f} s, "
        f"all {time.monotonic() - started:.0f} s"
    )


def race_from_spark(server: Server, address: str, turns: int, folder: Path) -> tuple[bool, str]:
    """As :func:`race`, by drivers whose threads append through the sink of the jar."""
    started = time.monotonic()
    url = f"{server.url}-of-spark-{secrets.token_hex(4)}"
    own = {"access.key": KEY, "secret.key": KEY}
    # As patient as it is by default: these servers are slow, and not gone.
    kept = {name: said for name, said in s3a_settings(address).items() if ".retry." not in name}
    conf = {**kept, **{f"spark.hadoop.fs.s3a.{name}": said for name, said in own.items()}}
    conf.pop("spark.hadoop.fs.s3a.attempt.maximum")
    order = {
        "url": url.replace("s3:", "s3a:"),
        "conf": conf,
        "cache": f"{folder}/spark-cache",
        "threads": SPARK_THREADS,
        "turns": turns,
    }
    with (folder / "stderr").open("a") as errors:
        jobs = [
            subprocess.Popen(
                [sys.executable, "-m", "places.spark_appenders",
                 json.dumps({**order, "first": number * SPARK_THREADS})],
                stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )
            for number in range(DRIVERS)
        ]  # fmt: skip
    lines = [job.communicate()[0].splitlines() for job in jobs]
    told = [json.loads(line) for some in lines for line in some if line.startswith("{")]
    assert len(told) == DRIVERS, (folder / "stderr").read_text()[-3000:]
    refused = [event["refused"] for event in told if event["refused"]]
    if len(refused) == DRIVERS:
        return True, f"refused before the first row: {refused[0].splitlines()[0]}"
    acknowledged = [number for event in told for number in event["acknowledged"]]
    is_right, seen = judge(url, server.options(address), acknowledged)
    return is_right and not refused, (
        f"{len(acknowledged)} of {DRIVERS * SPARK_THREADS * turns} rows acknowledged, {seen}, "
        f"errors {kinds([error for event in told for error in event['errors']])}, "
        f"{time.monotonic() - started:.0f} s"
    )


@contextmanager
def reached(name: str, given: str) -> Iterator[str]:
    """The address of a server that runs already, or of one that is begun."""
    if given:
        with suppress(FileExistsError):
            SERVERS[name].begin(given, SERVERS[name].options(given))
        yield given
        return
    with running(SERVERS[name], 18_500 + [*SERVERS].index(name)) as address:
        yield address


@contextmanager
def kept_in(folder: str) -> Iterator[None]:
    """Let this process and its children keep what they learn of a server there."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


def tried(name: str, given: str, turns: int, spark_turns: int) -> bool:
    server = SERVERS[name]
    head, held = f"{name} {server.version}, {date.today()}", True
    with tempfile.TemporaryDirectory() as folder, reached(name, given) as address:
        if turns:
            # Each run proves its server anew, and leaves nothing in the user's cache.
            with kept_in(f"{folder}/cache"):
                is_right, seen = race(server, address, turns)
            print(f"{head}, Python: {seen}", flush=True)
            held = held and is_right
        if spark_turns and server.is_s3:
            is_right, seen = race_from_spark(server, address, spark_turns, Path(folder))
            print(f"{head}, Spark: {seen}", flush=True)
            held = held and is_right
    return held


def main(words: list[str]) -> int:
    if words[:1] == ["--append"]:
        url, options, turns, first = words[1:]
        appenders(url, json.loads(options), int(first), int(turns))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SERVERS))
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--spark-turns", type=int, default=50)
    asked = parser.parse_args(words)
    # gcsfs would wait a minute for what the emulator does not know.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    held = []
    for word in asked.names:
        name, _, given = word.partition("=")
        try:
            held.append(tried(name, given, asked.turns, asked.spark_turns))
        except Exception:  # one server that does not begin keeps no other from being tried
            traceback.print_exc()
            print(f"{name}: not tried, see above", flush=True)
            held.append(False)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
