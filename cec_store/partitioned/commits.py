"""The log of commits, read from its newest back. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Iterator

from cec_store.errors import CorruptLog, OutOfRange
from cec_store.format.commit import COMMIT_SCHEMA, Commit
from cec_store.log.chain import Chain
from cec_store.log.frames import Frame


def newest_first(chain: Chain) -> Iterator[Commit]:
    """The commits that are left, from the newest back.

    Raises:
        CorruptLog: damaged, or not the log of commits.
    """
    frame = chain.last()
    while frame is not None:
        yield from reversed(_commits(chain, frame))
        try:
            frame = chain.before(frame)
        except OutOfRange:
            return


def newest(chain: Chain) -> Commit:
    """The newest commit; of a queue without any, the one that took in nothing."""
    return next(newest_first(chain), Commit())


def more_than_committed(path: str, end: int, committed: int) -> CorruptLog:
    """The error for a partition to which somebody else than a committer has appended."""
    what = f"it ends with record {end}, and {committed} are committed: somebody appended to it"
    advice = (
        f"what is beyond is read by `cec-store replay {path} --since @{committed}`; keep that, and "
        "restore the folder from a copy: commits would hide behind it"
    )
    return CorruptLog(path, 0, what, advice)


def _commits(chain: Chain, frame: Frame) -> list[Commit]:
    try:
        rows = chain.records(frame).select(COMMIT_SCHEMA.data.names).to_pylist()
        return [Commit.from_row(row) for row in rows]
    except (TypeError, ValueError, KeyError) as error:
        path = chain.reader(frame.address.segment_id).path
        raise CorruptLog(path, frame.address.byte, f"no commit: {error}") from None
