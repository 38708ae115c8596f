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
    claims = zstandard.get_frame_parameters(stored)
    if claims.content_size != raw_bytes or claims.window_size > max(_WINDOW_BYTES_MAX, raw_bytes):
        raise BadHeader(f"zstd frame claims {claims.content_size} bytes, header {raw_bytes}")
    return pa.Codec("zstd").decompress(stored, decompressed_size=raw_bytes)
