"""Google Cloud Storage, by gcsfs: creates with ``ifGenerationMatch=0``."""

from __future__ import annotations

import logging
from typing import Any

from fsspec.asyn import sync

from cec_store.storage.stores.failures import Failure, failure_of, failure_of_status
from cec_store.storage.stores.file_system import CreatingFileSystem

_log = logging.getLogger(__name__)
_SUPPORT = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"


class ZonalBucket(Exception):
    """Objects in it are seen while they are written, and gcsfs sets no condition there."""

    def __init__(self, bucket: str) -> None:
        super().__init__(f"{bucket} is a zonal bucket, whose objects are seen half written")


class GcsFileSystem(CreatingFileSystem):
    """gcsfs tries again by itself: a "taken" may be its own, and is read back as always."""

    extra = "gcs"

    def __init__(self, calls: Any) -> None:
        """Raises as :class:`CreatingFileSystem`; warns of an endpoint that is not Google's.

        Since 2026 gcsfs asks for the layout of a bucket over gRPC and TLS, which emulators lack.
        """
        super().__init__(calls)
        endpoint = self.endpoint()
        if hasattr(calls, "_is_zonal_bucket") and endpoint and "googleapis.com" not in endpoint:
            _log.warning(
                "%s: gcsfs may wait a minute for the layout of the bucket before each call, where "
                "an emulator does not know it; set the variable %s=false before Python starts",
                endpoint,
                _SUPPORT,
            )

    def endpoint(self) -> str:
        return str(getattr(self.calls, "_location", ""))

    def create(self, path: str, data: bytes) -> None:
        self._check_bucket(path)
        try:
            super().create(path, data)
        except FileNotFoundError as error:
            raise OSError("the bucket does not exist") from error

    def put(self, path: str, data: bytes) -> None:
        self._check_bucket(path)
        super().put(path, data)

    def _check_bucket(self, path: str) -> None:
        """gcsfs asks once for each bucket, and does so itself before it writes."""
        bucket = path.strip("/").partition("/")[0]
        ask = getattr(self.calls, "_is_zonal_bucket", None)
        if ask is not None and sync(self.calls.loop, ask, bucket):
            raise ZonalBucket(bucket)

    def failure_of(self, error: BaseException) -> Failure:
        if isinstance(error, ZonalBucket):
            return Failure.UNCONDITIONAL
        text = str(error).lower()
        if "bucket" in text and ("not exist" in text or "not found" in text):
            return Failure.NO_BUCKET
        if "defaultcredentialserror" in type(error).__name__.lower():
            return Failure.NO_CREDENTIALS
        if "refresherror" in type(error).__name__.lower():
            return Failure.BAD_CREDENTIALS
        # gcsfs says these by an OSError or ValueError without a number.
        if text.startswith("forbidden"):
            return Failure.FORBIDDEN
        if "invalid credentials" in text or "anonymous caller" in text:
            return Failure.BAD_CREDENTIALS
        code = getattr(error, "code", None)
        if isinstance(code, (int, str)) and str(code).isdigit():
            return failure_of_status(int(code))
        if "requested range not satisfiable" in text or "requestedrangenotsatisfiable" in text:
            return Failure.PAST_END
        if type(error).__module__.startswith(("aiohttp", "requests")):
            return Failure.PASSING
        return failure_of(error)
