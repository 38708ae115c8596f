"""One log against docs/format.md, be it a queue or a state log. Reads only."""

from __future__ import annotations

from collections.abc import Sequence

from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.inspector.verifying.queue import verify_queue
from cec_store.inspector.verifying.results import BytesSoFar, Verification
from cec_store.inspector.verifying.state_log import verify_state_log
from cec_store.state_logs.segments import is_state_log
from cec_store.storage.folder import Folder


def verify(
    folder: Folder,
    *,
    records: bool = True,
    rebuilds: bool = False,
    committed: Sequence[tuple[int, int | str]] = (),
    decoder: RowDecoder | None = None,
    progress: BytesSoFar = lambda _: None,
) -> Verification:
    """Check every header, body, link and mark; with ``records`` also what the records say.

    Of a state log, ``rebuilds`` rebuilds every version that is kept, ``committed`` are versions
    that must be there, each with the name by which to find it, and ``decoder`` is held against
    all keys and values.

    Raises:
        NotAQueue: neither a queue here nor a state log.
    """
    if is_state_log(folder):
        return verify_state_log(folder, records, rebuilds, committed, decoder, progress)
    return verify_queue(folder, records, progress)
