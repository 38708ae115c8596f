"""Which provider keeps the state of a Spark query."""

from __future__ import annotations

from contextlib import suppress

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER, PROVIDER_KEY
from cec_store.errors import CecError, NotAQueue


def provider_of(checkpoint: Checkpoint) -> str:
    """Its class, as the newest offsets say that can be read; ours where none do."""
    for batch in reversed(checkpoint.logged_batches()):
        with suppress(CecError):
            return checkpoint.offsets(batch).conf.get(PROVIDER_KEY, PROVIDER)
    return PROVIDER


def require_logs(path: str, provider: str | None, instead: str) -> None:
    """Raise :class:`NotAQueue` where one of Spark's own providers keeps the state."""
    if provider in BUILT_IN.values():
        raise NotAQueue(f"{path}: its state is kept by {provider}, which has no logs; {instead}")
