"""What a report says that each batch reads of an operator's state."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cec_store.cli import app
from support.paths import DOCS
from support.places.checkpoints import JOIN
from support.places.made_checkpoints import MadeCheckpoint
from support.places.made_joins import note_families
from support.places.reported_places import KEY, VALUE
from support.processes.chromium import browser
from support.processes.drawn import DESK

SCHEMA = json.loads((DOCS / "json" / "report.schema.json").read_text("utf-8"))
WINDOW = {
    "name": "window",
    "type": {
        "type": "struct",
        "fields": [
            {"name": name, "type": "timestamp", "nullable": True, "metadata": {}}
            for name in ("start", "end")
        ],
    },
    "nullable": True,
    "metadata": {"spark.timeWindow": True, "spark.watermarkDelayMs": 25000},
}
DUE, ALL, NONE, UNKNOWN = "rows that are due", "all rows", "none", "unknown"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def column(name: str, kind: str = "long", **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


TS = column("ts", "timestamp", **{"spark.watermarkDelayMs": 5000})
ID = column("id")
TIMEOUT = column("timeoutTimestamp")


def made(
    path: Path, operator: str, key: list[Any], value: list[Any], conf: dict[str, str]
) -> MadeCheckpoint:
    """A checkpoint of one batch and one operator, with what Spark notes of these columns."""
    is_join, is_in_families = operator == "symmetricHashJoin", conf.get(JOIN_FORMAT) in ("3", "4")
    stores = JOIN if is_join and not is_in_families else ("default",)
    checkpoint = MadeCheckpoint(path, KEY, VALUE, partitions=1, stores=stores)
    checkpoint.batch({})
    checkpoint.close()
    offsets = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}
    (path / "offsets" / "0").write_text(f"v1\n{json.dumps(offsets)}\n0")
    texts = [json.dumps({"type": "struct", "fields": fields}) for fields in (key, value)]
    if is_in_families:
        note_families(checkpoint, *texts)
        return checkpoint
    about = {
        "operatorInfo": {"operatorId": 0, "operatorName": operator},
        "stateStoreInfo": [
            {"storeName": name, "numColsPrefixKey": 0, "numPartitions": 1} for name in stores
        ],
    }
    checkpoint.put("_metadata/metadata", f"v1\n{json.dumps(about)}".encode())
    for store in stores:
        checkpoint.put_schema(*texts, store)
    return checkpoint


def report_on(path: Path) -> Any:
    result = CliRunner().invoke(app, ["report", str(path), "--no-verify", "--json"])
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


@pytest.mark.parametrize(
    ("operator", "key", "value", "conf", "reads", "why"),
    [
        ("stateStoreSave", [WINDOW, ID], [ID], {}, DUE, "the time is in its key, window"),
        ("stateStoreSave", [ID], [ID], {}, NONE, "no column of its key is an event time"),
        ("dedupe", [ID, TS], [ID], {}, DUE, "the time is in its key, ts"),
        ("dedupe", [ID], [ID], {}, NONE, "no event time is among its columns"),
        ("dedupeWithinWatermark", [ID], [ID], {}, DUE, "the time is in its value"),
        ("sessionWindowStateStoreSaveExec", [ID], [ID], {}, DUE, "session's end"),
        ("flatMapGroupsWithState", [ID], [ID, TIMEOUT], {}, DUE, "the timeout is in its value"),
        ("applyInPandasWithState", [ID], [ID], {}, NONE, "no timeout"),
        ("flatMapGroupsWithState", [ID], [column("timeoutTimestamp", "integer")], {}, ALL,
         "state format 1"),
        ("symmetricHashJoin", [ID], [ID, TS], {}, DUE, "the time is in its rows"),
        ("symmetricHashJoin", [WINDOW], [ID], {JOIN_FORMAT: "2"}, DUE, "the join's key"),
        ("symmetricHashJoin", [ID], [ID], {}, NONE, "neither side has an event time"),
        ("symmetricHashJoin", [ID], [TS], {JOIN_FORMAT: "3"}, ALL, "state format 3"),
        ("symmetricHashJoin", [ID], [TS], {JOIN_FORMAT: "4"}, DUE, "in the order of their times"),
        ("symmetricHashJoin", [ID], [TS], {JOIN_FORMAT: "two"}, UNKNOWN, "cannot be read"),
        ("globalLimit", [ID], [ID], {}, NONE, "one count"),
        ("anotherOperator", [ID], [ID], {}, UNKNOWN, "does not know the operator"),
        ("stateStoreSave", [{"name": "id"}], [ID], {}, UNKNOWN, "cannot be read"),
        ("stateStoreSave", [WINDOW], [ID], {PROVIDER: ROCKSDB}, ALL, "Spark's own providers"),
        ("symmetricHashJoin", [WINDOW], [ID], {PROVIDER: ROCKSDB}, ALL, "Spark's own providers"),
        ("dedupe", [ID], [ID], {PROVIDER: ROCKSDB}, NONE, "no event time"),
    ],
)  # fmt: skip
def test_report_says_what_each_batch_reads(
    tmp_path: Path, operator: str, key: list[Any], value: list[Any], conf: dict[str, str],
    reads: str, why: str,
) -> None:  # fmt: skip
    path = tmp_path / "checkpoint"
    made(path, operator, key, value, conf)
    document = report_on(path)
    [scan] = document["scans"]
    assert (scan["operator"], scan["reads"]) == (0, reads)
    assert why in scan["why"]
    assert (scan["name"] == "join") is (operator == "symmetricHashJoin")
    told = f"Each batch reads all rows of operator 0 ({scan['name']}): {scan['why']}."
    assert (told in document["summary"]) is (reads == ALL)


def test_queues_and_single_stores_have_no_operators(tmp_path: Path) -> None:
    checkpoint = made(tmp_path / "checkpoint", "dedupe", [ID, TS], [ID], {})
    assert report_on(checkpoint.folder(0))["scans"] == []


def test_page_has_a_row_an_operator(tmp_path: Path) -> None:
    path, page = tmp_path / "checkpoint", tmp_path / "page.html"
    made(path, "symmetricHashJoin", [ID], [TS], {JOIN_FORMAT: "3"})
    result = CliRunner().invoke(app, ["report", str(path), "--no-verify", "-o", str(page)])
    assert "Each batch reads all rows of operator 0 (join)" in " ".join(result.output.split())
    with browser(tmp_path / "browser") as tab:
        tab.open(page, *DESK)
        cells = "[...document.querySelectorAll('#scans tbody tr')].map((e) => e.innerText)"
        assert tab.value("document.querySelector('#scans').checkVisibility()")
        [row] = tab.value(cells)
        assert tab.value("document.documentElement.dataset.errors || ''") == ""
    assert row.split("\t")[:2] == ["0 join", ALL]
