"""Google Cloud Storage, by gcsfs: creates with ``ifGenerationMatch=0``."""

from __future__ import annotations

from cec_store.storage.stores.failures import Failure, failure_of, failure_of_status
from cec_store.storage.stores.file_system import CreatingFileSystem


class GcsFileSystem(CreatingFileSystem):
    """gcsfs tries again by itself: a "taken" may be its own, and is read back as always."""

    extra = "gcs"

    def create(self, path: str, data: bytes) -> None:
        try:
            super().create(path, data)
        except FileNotFoundError as error:
            raise OSError("the bucket does not exist") from error

    def failure_of(self, error: BaseException) -> Failure:
        said = str(error).lower()
        if "bucket" in said and ("not exist" in said or "not found" in said):
            return Failure.NO_BUCKET
        if "defaultcredentialserror" in type(error).__name__.lower():
            return Failure.NO_CREDENTIALS
        if "refresherror" in type(error).__name__.lower():
            return Failure.BAD_CREDENTIALS
        # gcsfs says these by an OSError or ValueError without a number.
        if said.startswith("forbidden"):
            return Failure.FORBIDDEN
        if "invalid credentials" in said or "anonymous caller" in said:
            return Failure.BAD_CREDENTIALS
        code = getattr(error, "code", None)
        if isinstance(code, (int, str)) and str(code).isdigit():
            return failure_of_status(int(code))
        if "requested range not satisfiable" in said or "requestedrangenotsatisfiable" in said:
            return Failure.PAST_END
        if type(error).__module__.startswith(("aiohttp", "requests")):
            return Failure.PASSING
        return failure_of(error)
