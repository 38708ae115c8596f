"""The provider that keeps the state of a Spark query."""

from __future__ import annotations

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER, PROVIDER_KEY
from cec_store.errors import NotAQueue


def provider_of(checkpoint: Checkpoint) -> str:
    """Its class, as the newest offsets say that can be read; ours where none do."""
    return checkpoint.newest_settings().get(PROVIDER_KEY, PROVIDER)


def require_logs(path: str, provider: str | None, instead: str) -> None:
    """Raise :class:`NotAQueue` where one of Spark's own providers keeps the state."""
    if provider in BUILT_IN.values():
        raise NotAQueue(f"{path}: its state is kept by {provider}, which has no logs; {instead}")
