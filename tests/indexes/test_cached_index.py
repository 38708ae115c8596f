"""The index of a queue in a store: in the user's cache, when first needed, safe to delete."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.storage.stores.folders import folder_at
from support.models.index_oracle import assert_equals_scan, make_queue
from support.stores.copies import contents, in_memory
from support.stores.needed import need

need("fsspec")
BATCHES = [[10 * n, 10 * n + 5] for n in range(50)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cec-store" / "indexes"


@pytest.fixture
def url(tmp_path: Path) -> str:
    make_queue(tmp_path / "q", BATCHES, roll_every=7)
    shutil.rmtree(tmp_path / "q" / "index", ignore_errors=True)
    return in_memory(tmp_path / "q")


def chain_of(url: str) -> Chain:
    return Chain(folder_at(url))


def folders(cache: Path) -> list[Path]:
    return sorted(cache.iterdir()) if cache.exists() else []


def test_it_is_made_at_the_first_search_for_a_moment(url: str, cache: Path) -> None:
    chain = chain_of(url)
    index = TimestampIndex(chain)
    found = index.lookup(chain).find_offset(5)
    assert found is not None
    index.close()
    assert folders(cache) == []
    index = TimestampIndex(chain)
    assert index.lookup(chain).find_timestamp(200) is not None
    index.close()
    assert [path.name for path in folders(cache)] == [chain.manifest.log_id.hex()]
    again = TimestampIndex(chain_of(url))
    assert again.stored_frames == len(BATCHES)
    assert again.problem == ""
    again.close()


def test_it_answers_as_a_scan_does(url: str, cache: Path) -> None:
    index = TimestampIndex(chain_of(url))
    assert_equals_scan(index, chain_of(url))
    index.close()
    index = TimestampIndex(chain_of(url))
    assert_equals_scan(index, chain_of(url))
    index.close()


def test_it_may_be_deleted_or_damaged_at_any_time(url: str, cache: Path) -> None:
    chain = chain_of(url)
    index = TimestampIndex(chain)
    index.find_timestamp(100)
    index.close()
    (folder,) = folders(cache)
    for file in folder.iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
    damaged = TimestampIndex(chain)
    assert damaged.problem != ""
    assert_equals_scan(damaged, chain)
    damaged.close()
    shutil.rmtree(cache)
    gone = TimestampIndex(chain)
    assert_equals_scan(gone, chain)
    gone.close()
    assert len(folders(cache)) == 1


def test_where_no_cache_can_be_written_a_scan_answers(url: str, cache: Path) -> None:
    cache.parent.parent.mkdir()
    cache.parent.write_text("in the way")
    chain = chain_of(url)
    index = TimestampIndex(chain)
    assert_equals_scan(index, chain)
    assert "cannot be written" in index.problem
    index.close()


def test_two_queues_have_two(url: str, cache: Path, tmp_path: Path) -> None:
    make_queue(tmp_path / "other", BATCHES[:9], roll_every=3)
    for each in (url, in_memory(tmp_path / "other")):
        before = contents(folder_at(each).root)  # type: ignore[union-attr, arg-type]
        index = TimestampIndex(chain_of(each))
        index.find_timestamp(50)
        index.close()
        assert contents(folder_at(each).root) == before  # type: ignore[union-attr, arg-type]
    assert len(folders(cache)) == 2
