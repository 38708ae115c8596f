"""Says so when a batch is not written because the queue has that batch, or a later one, already.

After a failure Spark runs the last batch once more: that is as it should be. Another writer under
the same name, or the same one from a new checkpoint, loses its output: that is a warning.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from cec_store.format.commit import Commit, Staged
from cec_store.log.chain import Chain
from cec_store.partitioned.commits import newest_first
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import COMMITS_FOLDER

_log = logging.getLogger(__name__)


def say_repeated(
    folder: FolderTree, query: str, batch: int, staged: Iterable[Staged], advice: str
) -> None:
    """Log what became of the rows of a batch that the queue did not take.

    Raises:
        CorruptLog: the log of commits is damaged.
    """
    rows = _rows_by_partition(staged)
    if not rows:
        return
    commits = newest_first(Chain(folder.folder(COMMITS_FOLDER)))
    newest = next(commits, Commit())
    last = newest.queries[query]
    what = (
        f"{folder.path}: {rows.total()} rows of batch {batch} of {query!r} are not written: "
        f"the queue has its batches up to {last}"
    )
    if batch < last:
        _log.warning("%s. %s", what, advice)
        return
    found = next((c for c in (newest, *commits) if (c.query, c.batch) == (query, batch)), None)
    if found is not None and _rows_by_partition(found.staged) != rows:
        _log.warning("%s, and this one with other rows. %s", what, advice)
    else:
        _log.info("%s: the batch has been run again", what)


def _rows_by_partition(staged: Iterable[Staged]) -> Counter[int]:
    rows: Counter[int] = Counter()
    for piece in staged:
        rows[piece.partition] += piece.records
    return +rows
