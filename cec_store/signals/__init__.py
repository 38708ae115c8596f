"""Figures of what runs outside of Spark's metrics, for Prometheus: operators, standbys, fleets."""

from cec_store.signals.prometheus import Signals

__all__ = ["Signals"]
