"""What a state takes by the sums is what was measured, or more where it is a bound."""

import re

import pytest

from cec_store.state_logs.sizing import StateShape, index_bytes, state_size
from support.paths import BENCH


def results() -> str:
    return (
        (BENCH / "RESULTS.md").read_text("utf-8").split("## `python bench/spark/providers.py`")[1]
    )


def measured(name: str) -> float:
    found = re.search(rf'"{name}": ([\d.]+)', results())
    assert found
    return float(found[1])


def test_heap_of_four_million_keys() -> None:
    found = state_size(StateShape(4_000_000, 16, 24, 100_000, 2))
    assert found.heap_bytes * 0.8 <= measured("heap_4m_gb") * 1e9 <= found.heap_bytes_most


def test_disk_and_batches_are_bounds() -> None:
    row = re.search(r"^cec +[\d.]+ +[\d.]+ +[\d.]+ +\d+ +\d+ +([\d.]+)$", results(), re.MULTILINE)
    wrote = re.search(r"^cec .*\| +\d+ +\d+ +\d+ +(\d+)$", results(), re.MULTILINE)
    assert row
    assert wrote
    found = state_size(StateShape(1_000_000, 16, 24, 10_000, 2))
    assert float(row[1]) * 1e6 <= found.disk_bytes_most
    assert int(wrote[1]) * 1e3 <= found.batch_bytes_most


def test_sums_by_hand() -> None:
    found = state_size(StateShape(100_000, 10, 30, 300, 4, 4.0, 10, 2.0))
    assert (found.extent_records_most, found.batch_records_most) == (400_000, 400)
    assert found.extent_bytes_most == 400_000 * 20
    assert found.disk_bytes_most == (400_000 + 10 * 400) * 20 + 4 * (64 << 20)
    assert (found.heap_bytes, found.heap_bytes_most) == (11_500_000, 23_500_000)
    assert (found.index_bytes, found.local_bytes_most) == (3_600_000, 18_400_000)
    assert (found.puts_per_batch, found.gets_per_batch) == (pytest.approx(4.4), 4)
    assert state_size(StateShape(1, 8, 8, 1, 3)).extent_records_most == 3 * 8_192


def test_an_index_of_many_keys_has_in_the_heap_what_has_changed() -> None:
    assert index_bytes(65_536) == 65_536 * 36
    assert index_bytes(80_000) == 65_536 * 48 + 14_000
    assert index_bytes(8_000_000) == 1_000_000 * 48 + 1_400_000
    assert state_size(StateShape(16_000_000, 8, 8, 1, 2)).index_bytes == 2 * index_bytes(8_000_000)


@pytest.mark.parametrize(
    "wrong",
    [{"keys": -1}, {"stores": 0}, {"extent_factor": 1.0}, {"compression": 0.5}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    given = {"keys": 1, "key_bytes": 8, "value_bytes": 8, "changes": 1, "stores": 1, **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        StateShape(**given)  # type: ignore[arg-type]
