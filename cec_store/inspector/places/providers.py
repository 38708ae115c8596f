"""Which provider keeps the state of a Spark query."""

from __future__ import annotations

from contextlib import suppress

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.setup.settings import PROVIDER, PROVIDER_KEY
from cec_store.errors import CecError


def provider_of(checkpoint: Checkpoint) -> str:
    """Its class, as the newest offsets say that can be read; ours where none do."""
    for batch in reversed(checkpoint.logged_batches()):
        with suppress(CecError):
            return checkpoint.offsets(batch).conf.get(PROVIDER_KEY, PROVIDER)
    return PROVIDER
