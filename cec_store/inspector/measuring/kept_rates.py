"""Rates measured by `--calibrate`, kept in one file of the user's cache folder."""

from __future__ import annotations

from pathlib import Path

from cec_store.connectors.spark.setup.environment import VARIABLES, cache_folder, publish
from cec_store.inspector.measuring.crash_costs import LoadRates, rates_as_text, rates_of_text


def _path() -> Path:
    return cache_folder(VARIABLES).parent / "rates.json"


def known_rates() -> LoadRates:
    """Return the rates of this user's last calibration; the defaults where there was none."""
    try:
        text = _path().read_text("utf-8")
    except (OSError, ValueError):
        return LoadRates()
    return rates_of_text(text) or LoadRates()


def keep_rates(rates: LoadRates) -> Path:
    """Save the rates for later calls and return the file, which may be deleted at any time."""
    return publish(_path(), rates_as_text(rates).encode())
