"""A partitioned queue against docs/format.md §11: its commits, then what they name. Reads only."""

from __future__ import annotations

from dataclasses import replace

from cec_store.errors import CecError, CorruptLog, NotAQueue
from cec_store.inspector.damage.faults import Fault, Note, kind_of
from cec_store.inspector.places.places import Log, Place
from cec_store.inspector.verifying.reference_commits import CommitChecks
from cec_store.inspector.verifying.reference_segments import SegmentChecks, rubbish
from cec_store.inspector.verifying.results import BytesSoFar, VerifiedLog
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.registrations import acknowledged, registered
from cec_store.storage.names import LOG_FOLDER, commit_object_name
from cec_store.storage.stores.folders import store_of
from cec_store.storage.stores.store import Store


def _consumer_faults(store: Store, state: QueueState) -> list[Fault]:
    """Return a fault for each acknowledgement of a consumer that cannot be read."""
    path, faults = f"{store.url}/{commit_object_name(state.number)}", []
    try:
        consumers = registered(state, store.url)
    except CorruptLog as error:
        return [Fault("commit-record", error.path, error.byte, error.reason, True)]
    for name, consumer in consumers.items():
        try:
            acknowledged(store, state, name, consumer.first)
        except CorruptLog as error:
            fault = Fault("consumer-damaged", error.path, error.byte, error.reason, True)
            faults.append(fault)
        except CecError as error:
            faults.append(Fault(kind_of(error), path, 0, str(error), True))
    return faults


def verify_reference(
    place: Place, records: bool, progress: BytesSoFar
) -> tuple[list[Fault], list[Note], list[VerifiedLog]]:
    """Faults and notes of all of it, and what was found in each partition."""
    store = store_of(place.folder)
    assert store is not None
    commits = CommitChecks(store)
    try:
        commits.check()
    except NotAQueue as error:
        fault = Fault("commit-missing", f"{store.url}/{LOG_FOLDER}", 0, str(error), True)
        return [fault], [], []
    except CecError as error:
        return [Fault(kind_of(error), store.url, 0, str(error), True)], [], []
    faults, notes = commits.faults, commits.notes
    logs: list[VerifiedLog] = []
    if commits.state is not None and commits.schema is not None:
        checks = SegmentChecks(store, commits.state, commits.schema, records, progress)
        for number in range(len(commits.state.commit.ends)):
            log = Log(f"partition {number}", place.folder, partition=number)
            verification = checks.partition(number)
            faults += [replace(fault, log=log.name) for fault in verification.faults]
            logs.append(VerifiedLog(log, verification, 0))
    if commits.state is not None:
        faults += _consumer_faults(store, commits.state)
    notes += rubbish(store, commits.named, commits.is_all_known)
    return faults, notes, logs
