"""Numbers on the command line: one grammar for counts, one for sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cec_store.cli import app
from cec_store.format.retention import Retention
from cec_store.inspector.measuring.extent_history import WhatIf, parse_what_if
from cec_store.values import parse_count, parse_size
from support.places import damaged_queues as made


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0), ("1000", 1000), ("1_000", 1000), ("1,000,000", 10**6), ("1e6", 10**6),
        ("1E6", 10**6), ("1M", 10**6), ("1m", 10**6), ("1.5M", 1_500_000), ("2.5e3", 2500),
        ("10 k", 10_000), ("3G", 3 * 10**9), ("1T", 10**12), (" 7 ", 7), ("1.50", None),
        ("1.5", None), ("1.0", 1), ("-1", None), ("", None), ("k", None), ("1e-3", None),
        ("1x", None), ("1MiB", None), ("1__0", None), ("0x10", None), ("nan", None),
        ("1e999", None), ("٣", None), ("1,5", None), ("1,5M", None), ("12,34,567", None),
    ],
)  # fmt: skip
def test_counts(text: str, count: int | None) -> None:
    if count is None:
        with pytest.raises(ValueError, match="no whole number"):
            parse_count(text)
    else:
        assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512), ("1e6", 10**6), ("10GiB", 10 << 30), ("10gib", 10 << 30), ("1.5KiB", 1536),
        ("1.5MB", 1_500_000), ("64 MiB", 64 << 20), ("3TiB", 3 << 40), ("9B", 9), ("0", 0),
        ("1.5B", None), ("1M", None), ("MiB", None), ("", None), ("-1MiB", None),
        ("1,5GiB", None),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int | None) -> None:
    """A bare M could be minutes to a retention and 2^20 to Spark, and is refused."""
    if size is None:
        with pytest.raises(ValueError, match="no size"):
            parse_size(text)
    else:
        assert parse_size(text) == size


@given(st.integers(0, 10**18))
def test_any_number_is_read_however_it_is_written(number: int) -> None:
    for text in (str(number), f"{number:,}", f"{number:_}"):
        assert parse_count(text) == parse_size(text) == number
    assert parse_size(f"{number}KiB") == number << 10


def test_retentions_and_targets_take_the_same_numbers() -> None:
    assert Retention.of("1.5GiB") == Retention.of(3 << 29)
    assert Retention.of("1e3MB") == Retention.of(10**9)
    assert str(Retention.of("5min")) == "5min"
    assert parse_what_if("Q=1e5,U=2.5k") == WhatIf(extent_records=100_000, replay_rows=2500)
    for text in ("5m", "1.5d", "5"):
        with pytest.raises(ValueError, match="no retention"):
            Retention.of(text)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("places") / "queue"
    made.make_operator_queue(path, 300)
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.parametrize(
    ("plain", "written"),
    [
        (("extent", "QUEUE", "--top", "1000"), ("extent", "QUEUE", "--top", "1e3")),
        (("dump", "QUEUE", "--last", "2000"), ("dump", "QUEUE", "-n", "2k")),
        (("dump", "QUEUE", "--max-bytes", "4096"), ("dump", "QUEUE", "--max-bytes", "4KiB")),
        (("tail", "QUEUE", "-n", "1000000"), ("tail", "QUEUE", "-n", "1M")),
        (("replay", "QUEUE", "--limit", "1000"), ("replay", "QUEUE", "--limit", "1_000")),
        (("size", "--keys", "10000000", "--changes", "100000", "--value-bytes", "2048"),
         ("size", "--keys", "10M", "--changes", "1e5", "--value-bytes", "2KiB")),
    ],
)  # fmt: skip
def test_verbs_take_them(plain: tuple[str, ...], written: tuple[str, ...], queue: Path) -> None:
    one, other = (
        run(*(queue if word == "QUEUE" else word for word in words)) for words in (plain, written)
    )
    assert (one.exit_code, other.exit_code) == (0, 0), other.output
    assert one.stdout == other.stdout
    assert one.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("extent", "QUEUE", "--top", "1.5"), ("extent", "QUEUE", "--top", "-1"),
        ("replay", "QUEUE", "--limit", "0"), ("dump", "QUEUE", "--max-bytes", "4m"),
        ("size", "--keys", "many", "--changes", "1"), ("demo", "--rows", "100"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_wrong_use(words: tuple[str, ...], queue: Path) -> None:
    result = run(*(queue if word == "QUEUE" else word for word in words))
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert words[-2] in result.stderr or "no whole number" in result.stderr
