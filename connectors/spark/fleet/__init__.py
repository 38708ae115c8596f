"""Fleets: queries joined by queues, run, watched and brought back as one; docs/fleets.md."""

from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.missing import OnMissing, Shortage
from cec_store.connectors.spark.fleet.outer import Sink, Source
from cec_store.connectors.spark.fleet.rules import Rules

__all__ = ["Fleet", "FleetDriver", "OnMissing", "Rules", "Shortage", "Sink", "Source"]
