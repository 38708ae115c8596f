"""Azure's stores, by adlfs: blobs that are put with ``overwrite=False``."""

from __future__ import annotations

from inspect import signature

from cec_store.storage.stores.failures import Failure, failure_of, failure_of_status
from cec_store.storage.stores.file_system import FileSystem, too_old

_OF_CODE = {
    "ContainerNotFound": Failure.NO_BUCKET,
    "FilesystemNotFound": Failure.NO_BUCKET,
    "ContainerBeingDeleted": Failure.PASSING,
    "BlobNotFound": Failure.ABSENT,
    "BlobAlreadyExists": Failure.TAKEN,
    "InvalidRange": Failure.PAST_END,
    "AuthenticationFailed": Failure.BAD_CREDENTIALS,
    "NoAuthenticationInformation": Failure.NO_CREDENTIALS,
    "InvalidAuthenticationInfo": Failure.BAD_CREDENTIALS,
}


class AbfsFileSystem(FileSystem):
    """Azure's client tries again by itself: a "taken" may be its own, and is read back."""

    creates_exclusively = True

    def __init__(self, calls: object) -> None:
        super().__init__(calls)
        if "overwrite" not in signature(self.calls._pipe_file).parameters:
            raise too_old("adlfs", "abfs")

    def endpoint(self) -> str:
        return str(getattr(self.calls, "account_host", None) or self.calls.account_name)

    def create(self, path: str, data: bytes) -> None:
        # Releases before mode="create" take this as well.
        self.calls.pipe_file(path, data, overwrite=False)

    def put(self, path: str, data: bytes) -> None:
        self.calls.pipe_file(path, data, overwrite=True)

    def failure_of(self, error: BaseException) -> Failure:
        code = getattr(error, "error_code", None)
        if code and (failure := _OF_CODE.get(str(getattr(code, "value", code)))):
            return failure
        if "account_name" in str(error) or "connection_string" in str(error):
            return Failure.NO_CREDENTIALS
        if isinstance(status := getattr(error, "status_code", None), int):
            return failure_of_status(status)
        kind = type(error).__name__
        if kind in ("CredentialUnavailableError", "ClientAuthenticationError"):
            return Failure.NO_CREDENTIALS
        if kind in ("ServiceRequestError", "ServiceResponseError", "IncompleteReadError"):
            return Failure.PASSING
        if type(error).__module__.startswith("aiohttp"):
            return Failure.PASSING
        # What adlfs has made of an answer says less than the answer, which it was raised from.
        return Failure.OTHER if error.__cause__ is not None else failure_of(error)
