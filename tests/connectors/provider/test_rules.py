"""The provider against the rules that Spark's own suites set for a state store, one fact a test."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.spark.jvm import run_jvm

RULES = (
    "a late put reaches no other task's commit",
    "a late commit or abort changes nothing for the next task",
    "a call that is under way when its task ends keeps the state from the next task",
    "a scan does not go on once its store has committed or given up",
    "a reader never sees what a writer of its task does",
    "a reader never sees what a writer of its thread does",
    "a reader closed late takes nothing from the next writer",
    "a reader never sees a family that a writer makes or removes",
    "the stores of a join are written at the same time",
    "the last of a join's stores raises what the write of another has raised",
    "a task that ends between a join's commits waits for their writes",
    "an interrupt does not end a join's commits before their writes",
    "a version that is not there has Spark's condition and our cause",
    "a version below zero has Spark's condition",
    "a damaged version has Spark's condition and our cause",
    "the last to commit a version counts",
    "a segment that is cut short while it is read is damage that names it",
    "errors of the storage say which path they are about",
    "a row that is too large is refused with its key, operator and what to do",
    "a scan shows what was there when it began",
    "a scan of nothing shows nothing that comes later",
    "a scan that is left early is over, and others go on with what they began with",
    "an iterator that seeks shows what is there then",
    "a long list is read whole and once",
    "an append to a list puts little again",
    "changes of a long list are told once",
    "keys of Spark's own families are not counted",
    "an error in maintenance is counted and tried again",
    "a fatal error in maintenance passes",
    "maintenance deletes no more versions at a time than Spark says",
    "settings of Spark's that change nothing are told once",
    "an interrupt in a commit to a queue is an interrupt",
    "a load is told, and one of more than a second is a warning",
    "a target counts as unmet by what loads have taken",
    "gets, puts and removals of a task are counted",
    "an extent is told for each partition",
    "what an address in a local file has is what was written there",
    "room in local files that nobody holds is used again",
    "nothing stands in Spark's local folders while local files are open",
    "a local folder that is gone is passed over, and none at all is an error that names them",
    "an interrupt neither fails local files nor gets lost",
    "a local disk that is full fails the batch by name, and the next attempt goes on",
    "rows are in the heap up to memoryBytes, and in local files above",
    "rows of a large version leave nothing in the heap that a local file may have",
    "a state that another one takes the place of gives back its local room and its share of the "
    "heap",
    "a provider that is closed gives back its local room",
    "rows that went to a local file together stay until the last of them is gone",
    "an index of a table over a run has what a map has",
    "a scan of an index gives each key once, whatever is put and merged meanwhile",
    "more keys of the last hash than a run has spare slots are found in it",
    "an index stays in the heap while the local disk is full, and goes on",
    "a load says what to do where the local disk has no room for an index",
    "an index that is made of hashes has each key",
    "keys that are put in order at once are in the order of their bytes",
    "keys in order are what a map has, and a scan of them what was there when it began",
    "keys in order are found whatever bytes they begin with, and in whatever order they come and "
    "go",
    "maintenance deletes nothing while a segment that is needed does not begin as one",
    "changes behind a damaged frame are not passed over",
    "a key directory of a lineage that was gone back to is kept",
    "a key directory that cannot be read once is used the next time, and an interrupt passes",
    "of rows that come newest first an index has the first one of each key",
    "an index is in the heap up to memoryBytes, and above in local files, after a load too",
    "a load by a key directory reads no row before it is asked for",
    "rows of any lengths come out of the log as they were put",
    "no damaged byte of a key directory is believed",
    "a key directory of another attempt is not used",
    "keys of another log are not believed",
    "a key directory says which rows can be due",
    "a version of several frames has a key directory",
    "frames have the live rows of their part of a version, and no later times",
    "no key directory goes on from one that is damaged",
    "a key directory of which a file is gone is passed over, and one is made anew",
    "a row that cannot be read fails its batch by name, and the state is loaded anew",
    "two key directories are kept, and none of a segment that is gone",
    "a recovery time bounds what lies behind a key directory, and the extent no more",
    "keys in order come out of sorted runs, and no row is read",
    "keys in order that the heap has no room for are read from the rows",
    "a key directory is due where a segment of the last one goes",
    "a segment that is forgotten takes its key directories with it",
    "a family that is in order later has its keys read from the rows",
    "no damaged byte of a sorted run is believed",
    "no segment stays open once the rows of a state were brought, nor where they could not be",
    "a load passes over the keys once for all families that the heap has room for",
    "a load that is checked fails where a key directory says otherwise than the log",
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one run of all of them says: nothing of those that hold, with V1 and with V2."""
    root: Path = tmp_path_factory.mktemp("rules")
    return run_jvm("rules", root=root, timeout_s=300)


def test_every_rule_is_run(said: dict[str, str]) -> None:
    assert set(said) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str, said: dict[str, str]) -> None:
    assert said[rule] == ""
