"""Checks that an operator's inputs are the queues that its log's positions are of.

A log says how far its inputs were taken. A queue that was made anew since, or another one in its
place, would be read from there on without a word about the rows before.
"""

from __future__ import annotations

from collections.abc import Sequence

from cec_store.format.input_queues import (
    INPUT_QUEUES_BYTES_MAX,
    InputQueues,
    damaged_input_queues,
)
from cec_store.ledger.commit_chain import log_id_at
from cec_store.log.positions import check_queue
from cec_store.operators.contract import Source
from cec_store.storage.folder import Folder
from cec_store.storage.names import INPUTS
from cec_store.storage.publishing import publish_file
from cec_store.storage.stores.folders import store_of


def read_input_queues(folder: Folder) -> InputQueues | None:
    """Return which queues the inputs of this queue's operator are; ``None`` where nothing is said.

    Raises:
        CorruptLog: the file is damaged, or another queue's.
        UnsupportedVersion: a later format wrote it.
    """
    path = f"{folder.path}/{INPUTS}"
    try:
        inputs = InputQueues.decode(folder.read(INPUTS, 0, INPUT_QUEUES_BYTES_MAX + 1), path)
    except FileNotFoundError:
        return None
    if inputs.log_id != log_id_at(folder):
        raise damaged_input_queues(path, 16, "the file belongs to another queue")
    return inputs


def checked_input_queues(folder: Folder, sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the ids of the queues that this log's positions are of, and from now on these sources.

    Raises:
        QueueReplaced: an input is another queue than the one that was read.
        CorruptLog, UnsupportedVersion: as :func:`read_input_queues`.
    """
    return _checked(read_input_queues(folder), folder, sources)


def _checked(
    noted: InputQueues | None, folder: Folder, sources: Sequence[Source]
) -> tuple[str, ...]:
    before = noted.queues if noted is not None else ("",) * len(sources)
    here = [getattr(source, "queue_id", "") for source in sources]
    for number, (queue, source) in enumerate(zip(before, sources, strict=True)):
        if here[number]:
            name = getattr(source, "path", "")
            check_queue(queue, f"{folder.path}, input {number}: {name}", here[number])
    return tuple(new or old for new, old in zip(here, before, strict=True))


def note_input_queues(folder: Folder, sources: Sequence[Source]) -> None:
    """Check the sources, and write down which queues they are before the first row is taken.

    Raises:
        QueueReplaced, CorruptLog, UnsupportedVersion: as :func:`checked_input_queues`.
    """
    noted = read_input_queues(folder)
    queues = _checked(noted, folder, sources)
    if not any(queues) or (noted is not None and noted.queues == queues):
        return
    data = InputQueues.of(log_id_at(folder), queues).encode()
    if folder.appends:
        publish_file(folder, INPUTS, data)
    elif noted is None and (store := store_of(folder)) is not None:
        store.create(INPUTS, [data])
