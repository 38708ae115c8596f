"""What is wrong with a remote store is said by a typed error, in words that help."""

from __future__ import annotations

import re
import socket
import time
import uuid
import zipfile
from collections.abc import Callable
from email.utils import formatdate
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import (
    StateLog,
    fork,
    open_queue,
    read_changes,
    read_queue,
    read_state,
    set_retention,
)
from cec_store.errors import (
    CredentialsRefused,
    NoExclusiveCreate,
    NoSuchBucket,
    ReadOnly,
    StorageError,
    StoreNotInstalled,
    StoreUnreachable,
    Unreadable,
)
from cec_store.storage.names import probe_name
from cec_store.storage.stores import by_url
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.failures import Failure, failure_of
from cec_store.storage.stores.file_system import FileSystem
from cec_store.storage.stores.fsspec_store import FsspecStore
from cec_store.storage.stores.memory import MemoryFileSystem
from cec_store.storage.stores.retrying import Retries
from cec_store.storage.stores.store import Entry, Store
from support.command_line.verify import document
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of

FEW = Retries(attempts=2, first_pause_s=0.01)

Call = Callable[[Store], object]
WRITES: list[Call] = [lambda store: store.create("a/b", [b"x"]), lambda store: store.delete(["a"])]
READS: list[Call] = [
    lambda store: store.read("a/b"),
    lambda store: store.size("a/b"),
    lambda store: store.list("a"),
]


@pytest.mark.parametrize("call", WRITES + READS)
def test_a_bucket_that_is_not_there_is_named(call: Call, s3_address: str) -> None:
    store = store_at("s3://nowhere/q", options_of(s3_address))
    with pytest.raises(NoSuchBucket, match=r"s3://nowhere/q.*no such bucket or container; make it"):
        call(store)


@pytest.mark.parametrize("call", WRITES + READS)
def test_a_store_without_an_answer_is_unreachable(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    need("s3fs")
    store = store_at("s3://bucket/q", options_of(f"http://127.0.0.1:{port}"), retries=FEW)
    with pytest.raises(StoreUnreachable, match="check the address"):
        call(store)


def test_missing_credentials_are_said_to_be_missing(
    s3_address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    options = options_of(s3_address)
    del options["key"], options["secret"]
    store = store_at(f"s3://{BUCKET}/q", options, retries=FEW)
    for call in WRITES + READS:
        with pytest.raises(CredentialsRefused, match="no credentials were found"):
            call(store)


class Answering(FileSystem):
    """Every call ends in the error of an S3 answer, as s3fs raises it."""

    creates_exclusively = True

    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code

    def fail(self, *facts: object) -> Any:
        from botocore.exceptions import ClientError
        from s3fs.errors import translate_boto_error

        facts_of_answer = {
            "Error": {"Code": self.code, "Message": f"said {self.code}"},
            "ResponseMetadata": {"HTTPStatusCode": self.status},
        }
        raise translate_boto_error(ClientError(facts_of_answer, "Call"))  # type: ignore[arg-type]

    create = put = read = size = list = delete = fail

    def failure_of(self, error: BaseException) -> Any:
        from cec_store.storage.stores.s3 import S3FileSystem

        return S3FileSystem.failure_of(self, error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "code", "of_reads", "of_writes"),
    [
        (403, "AccessDenied", Unreadable, ReadOnly),
        (403, "403", Unreadable, ReadOnly),
        (403, "InvalidAccessKeyId", CredentialsRefused, CredentialsRefused),
        (403, "SignatureDoesNotMatch", CredentialsRefused, CredentialsRefused),
        (400, "ExpiredToken", CredentialsRefused, CredentialsRefused),
        (404, "NoSuchBucket", NoSuchBucket, NoSuchBucket),
        (503, "SlowDown", StoreUnreachable, StoreUnreachable),
        (503, "", StoreUnreachable, StoreUnreachable),
        (429, "TooMany", StoreUnreachable, StoreUnreachable),
        (400, "Strange", StorageError, StorageError),
        (301, "PermanentRedirect", StorageError, StorageError),
        (501, "NotImplemented", StorageError, None),
    ],
)
def test_answers_of_s3_become_typed_errors(
    status: int, code: str, of_reads: type[Exception], of_writes: type[Exception] | None
) -> None:
    need("s3fs")
    calls = Answering(status, code)
    store = FsspecStore("s3://bucket/q", lambda: (calls, "bucket/q"), retries=FEW)
    for call in READS:
        with pytest.raises(of_reads, match="s3://bucket/q") as caught:
            call(store)
        assert type(caught.value) is of_reads
    with pytest.raises(of_writes or NoExclusiveCreate, match="s3://bucket/q") as caught:
        store.create("a", [b"x"])
    with pytest.raises(of_writes or StorageError, match="s3://bucket/q"):
        store.delete(["a"])


class Skewed(Answering):
    """A server whose clock is an hour ahead of this machine's."""

    def __init__(self) -> None:
        super().__init__(403, "RequestTimeTooSkewed")

    def fail(self, *facts: object) -> Any:
        from botocore.exceptions import ClientError
        from s3fs.errors import translate_boto_error

        date = formatdate(time.time() + 3600, usegmt=True)
        answer = {"HTTPStatusCode": self.status, "HTTPHeaders": {"date": date}}
        facts_of_answer = {"Error": {"Code": self.code}, "ResponseMetadata": answer}
        raise translate_boto_error(ClientError(facts_of_answer, "Call"))  # type: ignore[arg-type]

    create = put = read = size = list = delete = fail


class Failing(Answering):
    """A server that cannot be connected to."""

    def __init__(self, text: str) -> None:
        super().__init__(503, "")
        self._text = text

    def fail(self, *facts: object) -> Any:
        raise ConnectionError(self._text)

    create = put = read = size = list = delete = fail


@pytest.mark.parametrize(
    "part", ["delegation", "token", "sig", "X-Amz-Signature", "X-Amz-Security-Token"]
)
def test_no_text_lets_its_reader_in(part: str, caplog: pytest.LogCaptureFixture) -> None:
    """HTTP libraries say which URL they asked for."""
    url = f"http://host/webhdfs/v1/a?op=OPEN&{part}=very-secret&user=ann"
    calls = Failing(f"no answer from ({url})")
    store = FsspecStore("webhdfs://host/a", lambda: (calls, "a"), retries=FEW)
    with pytest.raises(StoreUnreachable) as caught:
        store.read("a")
    for text in (str(caught.value), caplog.text):
        assert f"{part}=…&user=ann" in text
        assert "secret" not in text


def test_a_clock_that_is_off_is_told_by_how_much() -> None:
    need("s3fs")
    store = FsspecStore("s3://bucket/q", lambda: (Skewed(), "bucket/q"), retries=FEW)
    for call in (*READS, lambda store: store.create("a", [b"x"])):
        with pytest.raises(StorageError, match=r"clock is off by 3(599|600|601) s \(behind"):
            call(store)


def test_s3_is_asked_for_no_checksum_of_parts() -> None:
    need("s3fs")
    from cec_store.storage.stores.s3 import S3FileSystem

    name = "response_checksum_validation"
    _, made = S3FileSystem.address("s3://bucket/q", {})
    assert made["config_kwargs"][name] == "when_required"
    given = {"config_kwargs": {name: "when_supported"}}
    assert (
        S3FileSystem.address("s3://bucket/q", given)[1]["config_kwargs"][name] == "when_supported"
    )


class WithoutCredentials(Answering):
    """As s3fs where it finds none."""

    def __init__(self) -> None:
        super().__init__(0, "")

    def fail(self, *facts: object) -> Any:
        from botocore.exceptions import NoCredentialsError

        raise NoCredentialsError

    create = put = read = size = list = delete = fail


class Unconditional(Answering):
    """An empty server that does not know conditional creates, and says so."""

    def __init__(self) -> None:
        super().__init__(501, "NotImplemented")

    def read(self, *facts: object) -> Any:
        raise FileNotFoundError

    def list(self, path: str) -> list[Entry]:
        return []

    size = read


ROWS = pa.schema([("n", pa.int64())])
MAKING: list[Callable[[str], object]] = [
    lambda url: open_queue(url, "a", schema=ROWS),
    lambda url: open_queue(url, "x", schema=ROWS),
    lambda url: open_queue(url, "a", schema=ROWS, partitions=2),
    lambda url: open_queue(url, "x", schema=ROWS, partitions=2),
]
OPENING: list[Callable[[str], object]] = [
    *MAKING,
    open_queue,
    read_queue,
    read_state,
    lambda url: read_changes(url, 1, 1),
    lambda url: set_retention(url, "7d"),
    lambda url: fork(url, "never-made", batch=1),
]


@pytest.mark.parametrize("door", OPENING)
@pytest.mark.parametrize(
    ("calls", "error", "what"),
    [
        (lambda: Answering(404, "NoSuchBucket"), NoSuchBucket, "make it, or correct the name"),
        (WithoutCredentials, CredentialsRefused, "no credentials were found"),
        (lambda: Answering(403, "InvalidAccessKeyId"), CredentialsRefused, "correct or renew"),
        (lambda: Answering(403, "SignatureDoesNotMatch"), CredentialsRefused, "correct or renew"),
        (lambda: Answering(400, "ExpiredToken"), CredentialsRefused, "correct or renew"),
    ],
)
def test_every_door_says_what_is_wrong_with_a_store(
    calls: Callable[[], FileSystem],
    error: type[Exception],
    what: str,
    door: Callable[[str], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("s3fs")
    monkeypatch.setattr(by_url, "_connected", lambda *facts: (calls(), "bucket/q"))
    with pytest.raises(error, match=rf"s3://bucket/q.*{what}"):
        door("s3://bucket/q")


@pytest.mark.parametrize("door", MAKING)
def test_who_makes_a_queue_is_told_that_a_server_knows_no_conditions(
    door: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    need("s3fs")
    monkeypatch.setattr(by_url, "_connected", lambda *facts: (Unconditional(), "bucket/q"))
    with pytest.raises(NoExclusiveCreate, match=r"s3://bucket/q.*single_writer=True"):
        door("s3://bucket/q")


def test_an_object_that_could_not_be_deleted_is_not_passed_over(
    s3_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(f"s3://{BUCKET}/kept", options_of(s3_address))
    assert isinstance(store, FsspecStore)
    refused = {"Errors": [{"Key": "kept/a", "Code": "AccessDenied", "Message": "Access Denied"}]}
    monkeypatch.setattr(store._calls.calls, "call_s3", lambda *names, **facts: refused)
    with pytest.raises(ReadOnly, match="kept/a"):
        store.delete(["a", "b"])


# -- without conditional creates --------------------------------------------------------------


def without_conditional_creates(single_writer: bool) -> Store:
    """Memory, as a store that only puts."""
    need("fsspec")
    memory = store_at("memory://plain")
    assert isinstance(memory, FsspecStore)
    calls = FileSystem(memory._calls.calls)
    for entry in memory.list():
        memory.delete([entry.name])
    connect = lambda: (calls, "/plain")  # noqa: E731
    return FsspecStore("memory://plain", connect, single_writer=single_writer)


def test_a_store_without_conditional_creates_is_refused_before_anything_is_written() -> None:
    need("fsspec")
    store = without_conditional_creates(single_writer=False)
    with pytest.raises(NoExclusiveCreate, match=r"memory://plain: .*single_writer=True"):
        store.create("a", [b"first"])
    assert store.list() == []


def test_reading_needs_no_conditional_create(tmp_path: Path) -> None:
    need("fsspec")
    schema = pa.schema([("n", pa.int64())])
    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        queue.append(pa.table({"n": [1, 2, 3]}, schema=schema))
    for inside in ("q", ""):
        with zipfile.ZipFile(tmp_path / "q.zip", "w") as archive:
            for file in (tmp_path / "q").iterdir():
                archive.write(file, f"{inside}/{file.name}".lstrip("/"))
        options = {"fo": str(tmp_path / "q.zip")}
        read = read_queue(f"zip://{inside}", storage_options=options).read_all()
        assert read.column("n").to_pylist() == [1, 2, 3]
    with pytest.raises(StorageError):
        open_queue("zip://q2", "a", schema=schema, storage_options=options)


def test_a_file_system_that_hands_its_options_on_is_read_without_its_listings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of `sftp://`, whose client takes what a connection needs and nothing else."""
    need("fsspec")
    registry = import_module("fsspec.registry")  # the package has a mapping of that name
    from fsspec.implementations.local import LocalFileSystem

    class Strict(LocalFileSystem):  # type: ignore[misc]
        protocol = "strict"

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._connect(**options)

        def _connect(self, *, port: int = 22) -> None:
            self.port = port

        def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
            listed = self.dircache.get(path)
            if listed is None:
                listed = self.dircache[path] = super().ls(path, detail=True)
            return listed if detail else [entry["name"] for entry in listed]

    monkeypatch.setitem(registry.known_implementations, "strict", {"class": "here.Strict"})
    monkeypatch.setitem(registry._registry, "strict", Strict)
    schema, url = pa.schema([("n", pa.int64())]), f"strict://{tmp_path}"
    store = store_at(url, {"port": 2222})
    for number in range(3):
        with open_queue(tmp_path / "q", "a", schema=schema) as queue:
            queue.append(pa.table({"n": [number]}, schema=schema))
        assert len(store.list("q")) == len(list((tmp_path / "q").iterdir()))
        read = read_queue(f"{url}/q", storage_options={"port": 2222}).read_all()
        assert read.column("n").to_pylist() == list(range(number + 1))
    with pytest.raises(ValueError, match="takes other storage_options"):
        store_at(url, {"host": "a"}).list()


def test_a_mistyped_url_is_no_local_folder() -> None:
    for given, right in {
        "s3:bucket/q": "s3://bucket/q",
        "s3//bucket/q": "s3://bucket/q",
        "gs:/bucket/q": "gs://bucket/q",
        "file:q": "file:///q",
    }.items():
        with pytest.raises(ValueError, match=f"write {re.escape(right)}, or ./"):
            store_at(given)
    assert store_at("./s3:bucket/q").url.endswith("/s3:bucket/q")


def test_a_branch_is_no_password_and_a_root_needs_no_host() -> None:
    need("fsspec")
    by_url._check("github://org:repo@main/q", "github", "org:repo@main/q")
    by_url._check("dbfs:///FileStore/q", "dbfs", "/FileStore/q")
    with pytest.raises(ValueError, match="password"):
        by_url._check("sftp://me:secret@host/q", "sftp", "me:secret@host/q")
    with pytest.raises(ValueError, match="names no bucket"):
        by_url._check("s3:///q", "s3", "/q")
    assert by_url._KINDS["az"] is by_url._KINDS["abfs"]


def test_what_cannot_be_connected_to_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    need("fsspec")
    with pytest.raises(ValueError, match=r"dbfs:///q: .*other storage_options .*'instance'"):
        store_at("dbfs:///q")

    def unreachable(*_: object, **__: object) -> None:
        raise OSError("Failed to resolve 'api.github.com'")  # as requests' own errors are

    monkeypatch.setattr("fsspec.core.url_to_fs", unreachable)
    with pytest.raises(StoreUnreachable, match=r"github://org:repo@main/q: .*check the address"):
        store_at("github://org:repo@main/q")


def test_a_single_writer_looks_before_it_puts() -> None:
    store = without_conditional_creates(single_writer=True)
    assert not store.creates_exclusively
    store.create("a", [b"first"])
    with pytest.raises(FileExistsError):
        store.create("a", [b"second"])
    assert store.read("a") == b"first"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL where conditions of creates are taken, and passed over without a word."""
    need("fsspec")
    monkeypatch.setattr(MemoryFileSystem, "create", FileSystem.put)
    return f"memory://forgetful-{uuid.uuid4()}/q"


@pytest.mark.parametrize("partitions", [None, 2])
def test_it_is_taken_by_a_single_writer(forgetful: str, partitions: int | None) -> None:
    schema = pa.schema([("n", pa.int64())])
    options = {"single_writer": True}
    with open_queue(
        forgetful, "a", schema=schema, partitions=partitions, storage_options=options
    ) as queue:
        assert not isinstance(queue, StateLog)
        queue.append(pa.table({"n": [1, 2]}))
    assert sorted(read_queue(forgetful).read_all()["n"].to_pylist()) == [1, 2]
    with pytest.raises(ValueError, match="single_writer='no'"):
        open_queue(forgetful, storage_options={"single_writer": "no"})


@pytest.mark.parametrize("partitions", [None, 2])
def test_who_died_while_looking_what_a_store_does_is_in_nobodys_way(
    partitions: int | None,
) -> None:
    need("fsspec")
    url = f"memory://left-{uuid.uuid4()}/q"
    left = probe_name("0" * 32)
    store_at(url).create(left, [b"first"])
    schema = pa.schema([("n", pa.int64())])
    open_queue(url, "a", schema=schema, partitions=partitions).close()
    assert [entry.name for entry in store_at(url).list()].count(left) == 1
    assert document(url)["faults"] == []  # type: ignore[arg-type]


def test_a_client_too_old_for_conditional_creates_is_refused() -> None:
    from cec_store.storage.stores.file_system import CreatingFileSystem

    class Old:
        def pipe_file(self, path: str, data: bytes, **headers: str) -> None:
            raise AssertionError("it would have replaced what is there")

    with pytest.raises(StoreNotInstalled, match="too old"):
        CreatingFileSystem(Old())


class Recorded:
    """A file system of fsspec that notes what it is asked to put."""

    def __init__(self, fails: Exception | None = None, zonal: bool = False) -> None:
        from fsspec.asyn import get_loop

        self.loop, self.fails, self.zonal = get_loop(), fails, zonal
        self.asked: list[dict[str, object]] = []
        self._location = ""

    def pipe_file(self, path: str, data: bytes, mode: str = "", overwrite: bool = True) -> None:
        self.asked.append({"mode": mode, "overwrite": overwrite})
        if self.fails:
            raise self.fails

    _pipe_file = pipe_file

    async def _is_zonal_bucket(self, bucket: str) -> bool:
        assert bucket == "bucket"
        return self.zonal


def google_store(calls: Recorded, single_writer: bool = False) -> Store:
    from cec_store.storage.stores.gcs import GcsFileSystem

    made = GcsFileSystem(calls)
    return FsspecStore("gs://bucket", lambda: (made, "bucket"), single_writer=single_writer)


def test_google_is_asked_for_an_object_that_is_not_there() -> None:
    need("fsspec")
    calls = Recorded()
    google_store(calls).create("a", [b"x"])
    assert calls.asked == [{"mode": "create", "overwrite": True}]
    with pytest.raises(NoSuchBucket):
        google_store(Recorded(FileNotFoundError("bucket/a"))).create("a", [b"x"])


def test_a_zonal_bucket_of_google_is_refused_before_anything_is_written() -> None:
    need("fsspec")
    calls = Recorded(zonal=True)
    with pytest.raises(NoExclusiveCreate, match="seen half written"):
        google_store(calls).create("a", [b"x"])
    assert calls.asked == []


@pytest.mark.parametrize(
    ("location", "told"),
    [("http://127.0.0.1:4443", 1), ("https://storage.googleapis.com", 0), ("", 0)],
)
def test_a_minute_that_google_s_client_waits_for_an_emulator_is_told(
    caplog: pytest.LogCaptureFixture, location: str, told: int
) -> None:
    need("fsspec")
    calls = Recorded()
    calls._location = location
    google_store(calls).create("a", [b"x"])
    said = [r.getMessage() for r in caplog.records if r.name.endswith("gcs")]
    assert len(said) == told
    assert all("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT=false" in text for text in said)


def test_azure_is_asked_not_to_overwrite() -> None:
    need("fsspec")
    from cec_store.storage.stores.abfs import AbfsFileSystem

    calls = Recorded()
    made = AbfsFileSystem(calls)
    FsspecStore("abfs://c/q", lambda: (made, "c/q")).create("a", [b"x"])
    assert calls.asked == [{"mode": "", "overwrite": False}]


def test_credentials_that_are_asked_for_at_once_are_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("fsspec")
    import fsspec.core

    def refuse(url: str, **options: Any) -> Any:
        raise ValueError("Must provide either a connection_string or account_name with credentials")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(CredentialsRefused, match="memory://x: no credentials were found"):
        store_at("memory://x")


@pytest.mark.parametrize("facts", [{"attempts": 0}, {"first_pause_s": -1.0}])
def test_retries_that_make_no_sense_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least one attempt"):
        Retries(**facts)


def test_no_attempt_begins_late() -> None:
    assert list(Retries(attempts=5, first_pause_s=0.0).turns()) == [1, 2, 3, 4, 5]
    assert list(Retries(attempts=5, first_pause_s=1.0, last_start_s=0.1).turns()) == [1]


@pytest.mark.parametrize(
    "place", ["asyncio.exceptions.TimeoutError", "fsspec.exceptions.FSTimeoutError"]
)
def test_time_outs_of_any_python_may_pass(place: str) -> None:
    need("fsspec")
    module, _, name = place.rpartition(".")
    error = getattr(import_module(module), name)("late")
    assert failure_of(error) is Failure.PASSING
    earlier = type(name, (Exception,), {})  # as before Python 3.11
    assert failure_of(earlier("late")) is Failure.PASSING
