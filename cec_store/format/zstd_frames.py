"""zstd frames that whoever made them may have made to inflate without end."""

from __future__ import annotations

import pyarrow as pa
import zstandard

from cec_store.format.frame import BadHeader

_WINDOW_BYTES_MAX = 8 << 20  # what a decompressor has to keep in memory


def inflate(stored: pa.Buffer, raw_bytes: int) -> pa.Buffer:
    """Decompress one zstd frame of exactly so many bytes.

    Raises:
        BadHeader: the frame itself claims another size, or too large a window.
        OSError, zstandard.ZstdError: it is no such frame.
    """
    check_claims(stored, raw_bytes)
    return pa.Codec("zstd").decompress(stored, decompressed_size=raw_bytes)


class Inflater:
    """Decompresses as :func:`inflate` does, many small frames in half of its time.

    It keeps what a decompressor needs from frame to frame. Not for use by two threads at once.
    """

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor()

    def inflate(self, stored: pa.Buffer, raw_bytes: int) -> bytes:
        """Decompress one zstd frame of exactly so many bytes; raises as :func:`inflate` does."""
        check_claims(stored, raw_bytes)
        return self._decompressor.decompress(stored, allow_extra_data=False)


def check_claims(stored: pa.Buffer | memoryview, raw_bytes: int) -> None:
    """Check what a zstd frame says of itself; raises as :func:`inflate` does."""
    claims = zstandard.get_frame_parameters(stored)
    window = claims.window_size
    if claims.content_size != raw_bytes or (window > _WINDOW_BYTES_MAX and window > raw_bytes):
        raise BadHeader(f"zstd frame claims {claims.content_size} bytes, header {raw_bytes}")
