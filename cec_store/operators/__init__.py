"""Stream operators: windowed aggregate and join, filter, map and union, and what drives them."""

from cec_store.operators.aggregate import Aggregate
from cec_store.operators.effects import Effects, InputBatch, Operator, Source, Step
from cec_store.operators.join import WindowJoin
from cec_store.operators.runner import Recovery, Runner, record_schema
from cec_store.operators.sources import ArrowSource, QueueSource
from cec_store.operators.stateless import Filter, Map, Union
from cec_store.operators.windows import CountWindow, TimeWindow

__all__ = [
    "Aggregate",
    "ArrowSource",
    "CountWindow",
    "Effects",
    "Filter",
    "InputBatch",
    "Map",
    "Operator",
    "QueueSource",
    "Recovery",
    "Runner",
    "Source",
    "Step",
    "TimeWindow",
    "Union",
    "WindowJoin",
    "record_schema",
]
