"""Reads the acknowledgements of a queue's consumers from the files in its folder."""

from __future__ import annotations

from contextlib import suppress

from cec_store.format.acknowledgement import ACKNOWLEDGEMENT_BYTES, Acknowledgement, damaged
from cec_store.storage.folder import Folder
from cec_store.storage.names import acknowledgement_name, consumer_of


def read_acknowledgement(folder: Folder, name: str, log_id: bytes) -> Acknowledgement:
    """What a consumer has acknowledged.

    Raises:
        FileNotFoundError: there is no such consumer.
        CorruptLog: its file is damaged, or another queue's.
        UnsupportedVersion: a later format wrote it.
    """
    file_name = acknowledgement_name(name)
    path = f"{folder.path}/{file_name}"
    said = Acknowledgement.decode(folder.read(file_name, 0, ACKNOWLEDGEMENT_BYTES + 1), path)
    if said.log_id != log_id:
        raise damaged(path, 16, "the acknowledgement belongs to another queue")
    return said


def acknowledgements(folder: Folder, log_id: bytes) -> dict[str, Acknowledgement]:
    """What each registered consumer has acknowledged; raises as :func:`read_acknowledgement`."""
    found = {}
    for name in filter(None, map(consumer_of, folder.names())):
        with suppress(FileNotFoundError):  # dropped meanwhile
            found[name] = read_acknowledgement(folder, name, log_id)
    return found
