"""Stream operators: windowed aggregate and join, filter, map and union, and what drives them."""

from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, SessionWindow, TimeWindow
from cec_store.operators.checking import Observation, check_declaration, observe
from cec_store.operators.choosing import Luck
from cec_store.operators.contract import Effects, InputBatch, Operator, Source, Step
from cec_store.operators.inputs.sources import ArrowSource, QueueSource
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.join.resample import Resample
from cec_store.operators.ordering.sort import BSort
from cec_store.operators.recovery import Recovery
from cec_store.operators.runner import Runner, record_schema
from cec_store.operators.stateless import Filter, Map, RandomFilter, Union
from cec_store.operators.taxonomy import Chance, NetworkType, RecoveryType, type_of_network

__all__ = [
    "Aggregate",
    "ArrowSource",
    "BSort",
    "Chance",
    "CountWindow",
    "Effects",
    "Filter",
    "InputBatch",
    "Luck",
    "Map",
    "NetworkType",
    "Observation",
    "Operator",
    "QueueSource",
    "RandomFilter",
    "Recovery",
    "RecoveryType",
    "Resample",
    "Runner",
    "SessionWindow",
    "Source",
    "Step",
    "TimeWindow",
    "Union",
    "WindowJoin",
    "check_declaration",
    "observe",
    "record_schema",
    "type_of_network",
]
