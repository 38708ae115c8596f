"""`cec-store size`: what a query will need."""

import json

import pytest
from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.state_logs.sizing import StateShape, state_size
from support.command_line.json_schemas import check

ASKED = ("size", "--keys", "20000000", "--changes", "500000", "--partitions", "64")


def test_document_and_words_say_the_same() -> None:
    document = CliRunner().invoke(app, [*ASKED, "--json"])
    assert document.exit_code == 0, document.output
    found = json.loads(document.stdout)
    check("size", found)
    assert found["extent_records_most"] == 40_000_000
    said = CliRunner().invoke(app, ASKED)
    assert said.exit_code == 0
    for part in ("40,000,000 records", "70 puts and 64 gets", "2.1 GiB to 4.4 GiB",
                 "of which 4.0 GiB are segments not yet rolled: one of 64.0 MiB"):  # fmt: skip
        assert part in said.stdout


@pytest.mark.parametrize(
    ("keys", "factor"), [(20_000_000, 2.0), (20_000_000, 10.0), (1_000, 2.0), (0, 1.25)]
)
def test_memory_is_never_less_than_the_extent_that_is_in_it(keys: int, factor: float) -> None:
    size = state_size(StateShape(keys, 16, 24, 1_000, 200, extent_factor=factor))
    rows = min(size.extent_raw_bytes_most, max(200 * 4 << 20, 4 * keys * 40))
    assert size.heap_bytes_most - 75 * keys >= rows
    assert size.local_bytes_most >= rows


def test_wrong_use_is_one_line() -> None:
    for wrong in (("--extent-factor", "1"), ("--keys", "-1"), ("--partitions", "0")):
        result = CliRunner().invoke(app, [*ASKED, *wrong])
        assert result.exit_code == 2
        assert "Traceback" not in result.output
