"""S3, by s3fs: conditional puts, and what S3 and its clients say when something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from typing import Any

from botocore.config import Config
from botocore.exceptions import (
    ConnectionError as NoConnectionError,
)
from botocore.exceptions import (
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.parsers import ResponseParserError
from botocore.session import get_session
from fsspec.asyn import sync

from cec_store.storage.stores.failures import Failure, failure_of, failure_of_status
from cec_store.storage.stores.file_system import CreatingFileSystem, Options, too_old
from cec_store.storage.stores.store import Entry

_CHECKSUMS = "response_checksum_validation"
_DELETES_MAX = 1000  # of one request
_PUT_BYTES_MAX = 5 * 2**30  # of one request
_START_S = 1.0
_PASSING = (NoConnectionError, HTTPClientError, ResponseStreamingError, ResponseParserError)
_NO_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
_OF_CODE = {
    "NoSuchBucket": Failure.NO_BUCKET,
    "NoSuchKey": Failure.ABSENT,
    "NoSuchUpload": Failure.ABSENT,
    "PreconditionFailed": Failure.TAKEN,
    "InvalidRange": Failure.PAST_END,
    "ConditionalRequestConflict": Failure.PASSING,
    "OperationAborted": Failure.PASSING,
    "RequestTimeout": Failure.PASSING,
    "SlowDown": Failure.PASSING,
    "InternalError": Failure.PASSING,
    "ServiceUnavailable": Failure.PASSING,
    "NotImplemented": Failure.UNCONDITIONAL,
    "AccessDenied": Failure.FORBIDDEN,
    "InvalidAccessKeyId": Failure.BAD_CREDENTIALS,
    "SignatureDoesNotMatch": Failure.BAD_CREDENTIALS,
    "ExpiredToken": Failure.BAD_CREDENTIALS,
    "InvalidToken": Failure.BAD_CREDENTIALS,
    "RequestTimeTooSkewed": Failure.SKEWED_CLOCK,
}


class S3FileSystem(CreatingFileSystem):
    """S3, and servers that speak as it does, conditional puts (``If-None-Match``) included."""

    extra = "s3"

    def __init__(self, calls: object) -> None:
        super().__init__(calls)
        # Parameters that botocore does not know are left away by s3fs, without a word.
        puts = get_session().get_service_model("s3").operation_model("PutObject")
        if "IfNoneMatch" not in puts.input_shape.members:
            raise too_old("botocore", self.extra)
        # Whoever asks for the store tries again, and has to know of each attempt.
        self.calls.retries = 1
        self._deletes_many = True
        """False once it has said that it does not: so Google's storage, asked as S3."""

    @classmethod
    def address(cls, url: str, given: Options) -> tuple[str, Options]:
        config: Options = {"retries": {"total_max_attempts": 1}}
        if _CHECKSUMS in Config.OPTION_DEFAULTS:
            # Some servers send the checksum of the whole object with a part of it.
            config[_CHECKSUMS] = "when_required"
        config |= given.get("config_kwargs", {})
        return "s3://" + url.partition("://")[2], {**given, "config_kwargs": config}

    def endpoint(self) -> str:
        return str(sync(self.calls.loop, self.calls.set_session).meta.endpoint_url)

    def create(self, path: str, data: bytes) -> None:
        # In one request: the parts of an upload whose writer dies stay, unseen, and are paid for.
        self.calls.pipe_file(path, data, mode="create", chunksize=_PUT_BYTES_MAX)

    def race(self, path: str, bodies: Sequence[bytes]) -> list[BaseException | None]:
        results: list[BaseException | None] = sync(self.calls.loop, self._race, path, bodies)
        return results

    async def _race(self, path: str, bodies: Sequence[bytes]) -> list[BaseException | None]:
        """Send all but the last byte of each, and the last bytes at once.

        Signing takes longer than some servers take to look and put.
        """
        line = _StartingLine(len(bodies))

        async def create(data: bytes) -> None:
            _racing_at.set(line)
            await self.calls._pipe_file(path, data, mode="create", chunksize=_PUT_BYTES_MAX)

        events = (await self.calls.set_session()).meta.events
        events.register("before-send.s3.PutObject", _held_back, unique_id=_held_back)
        try:
            answers = await asyncio.gather(*map(create, bodies), return_exceptions=True)
        finally:
            events.unregister("before-send.s3.PutObject", _held_back, unique_id=_held_back)
        return list(answers)

    def list(self, path: str) -> list[Entry]:
        # Not by `ls`, which lists the folder above as well where this one is empty.
        bucket, key, _ = self.calls.split_path(path)
        inside = f"{key}/" if key else ""
        asked = {"Bucket": bucket, "Prefix": inside, "Delimiter": "/"}
        listed: list[Entry] = []
        while True:
            page = self.calls.call_s3("list_objects_v2", **asked)
            folders = (facts["Prefix"] for facts in page.get("CommonPrefixes", []))
            listed += [Entry(prefix.removeprefix(inside)[:-1], None) for prefix in folders]
            objects = ((facts["Key"], facts["Size"]) for facts in page.get("Contents", []))
            listed += [Entry(name.removeprefix(inside), size) for name, size in objects]
            if not page.get("IsTruncated"):
                return listed
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, paths: Iterable[str]) -> None:
        # Not by `rm`, which passes over what could not be deleted.
        left = iter(paths)
        while some := [self.calls.split_path(path)[:2] for path in islice(left, _DELETES_MAX)]:
            bucket, keys = some[0][0], [key for _, key in some]
            if self._deletes_many and not self._delete_together(bucket, keys):
                self._deletes_many = False
            if not self._deletes_many:
                for key in keys:
                    with suppress(FileNotFoundError):  # which Amazon's never says
                        self.calls.call_s3("delete_object", Bucket=bucket, Key=key)

    def _delete_together(self, bucket: str, keys: Sequence[str]) -> bool:
        """Delete these by one request; return False where a server has none for several objects."""
        asked = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            out = self.calls.call_s3("delete_objects", Bucket=bucket, Delete=asked)
        except OSError as error:
            if _answer(error.__cause__ or error)[0] != "NotImplemented":
                raise
            return False
        if refused := out.get("Errors"):
            raise _Refused(refused[0])
        return True

    def failure_of(self, error: BaseException) -> Failure:
        code, status = _answer(error)
        if code in _OF_CODE:
            return _OF_CODE[code]
        if status:
            return failure_of_status(status)
        if isinstance(error, _NO_CREDENTIALS):
            return Failure.NO_CREDENTIALS
        if isinstance(error, _PASSING) or type(error).__module__.startswith("aiohttp"):
            return Failure.PASSING
        # What s3fs has made of an answer says less than the answer, which it was raised from.
        return Failure.OTHER if error.__cause__ is not None else failure_of(error)


class _StartingLine:
    """Point where racers wait for each other; a server may take fewer connections than come."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._all_there = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._all_there.set()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all_there.wait(), _START_S)
        self._all_there.set()


_racing_at: ContextVar[_StartingLine | None] = ContextVar("racing_at", default=None)


async def _held_back(request: Any, **_: object) -> None:
    """Let a request of a race wait before its last byte, or before all of it."""
    line = _racing_at.get()
    if line is None:
        return
    body = request.body
    if not isinstance(body, bytes):
        await line.wait()
        return

    async def parts() -> AsyncIterator[bytes]:
        yield body[:-1]
        await line.wait()
        yield body[-1:]

    request.body = parts()


class _Refused(Exception):
    """One of several objects that were to be deleted."""

    def __init__(self, facts: dict[str, str]) -> None:
        super().__init__(f"{facts.get('Key')}: {facts.get('Message') or facts.get('Code')}")
        self.response = {"Error": facts}


def _answer(error: BaseException) -> tuple[str, int]:
    """The code and the HTTP status of an answer; empty and 0 where it is none."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return "", 0
    facts = response.get("Error", {})
    code = str(facts.get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return code, status or (int(code) if code.isdigit() else 0)
