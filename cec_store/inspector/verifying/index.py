"""The timestamp index of a queue against the log that it is derived from. Reads only."""

from __future__ import annotations

from contextlib import closing

from cec_store.errors import CecError
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.inspector.damage.faults import Fault
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.chain import QueueChain
from cec_store.storage.folder import Folder
from cec_store.storage.names import INDEX_FOLDER, INDEX_STAMP
from cec_store.storage.stores.folders import local_of


def check_index(folder: Folder) -> tuple[str, Fault | None]:
    """Return the state of the index in words, and the fault in it or ``None``."""
    local = local_of(folder)
    if local is None or INDEX_FOLDER not in local.names():
        return "none", None
    where = local.folder(INDEX_FOLDER)
    if INDEX_STAMP not in where.names():
        return "not published yet", None
    try:
        chain = chain_at(folder)
        with closing(TimestampIndex(chain)) as index:
            covered = index.stored_frames
            problem = index.problem or _differences(index, chain, covered)
    except CecError:
        return "not checked, because the log is damaged", None
    if problem and "not in the log" not in problem:
        fault = Fault("index", f"{where.path}/{INDEX_STAMP}", 0, problem, False)
        return "wrong", fault
    if problem:
        return f"stale ({problem}); it will be made anew", None
    return f"covers {covered} of {chain.end.seq - chain.first_seq()} frames", None


def _differences(index: TimestampIndex, chain: QueueChain, covered: int) -> str:
    """Ask the index for every frame and for each that raises the largest timestamp."""
    reached_us: int | None = None
    for number, frame in enumerate(chain.frames()):
        if number >= covered:
            break
        header = frame.header
        if index.find_seq(header.seq, chain).address != frame.address:
            return f"frame {header.seq} is not where the index says"
        if reached_us is None or header.max_timestamp_us > reached_us:
            indexed = index.find_timestamp(header.max_timestamp_us, chain)
            if indexed is None or indexed.address != frame.address:
                return f"the index does not find frame {header.seq} by its timestamp"
            reached_us = header.max_timestamp_us
        if index.dropped:
            return index.problem or "the index failed a proof"
    return ""
