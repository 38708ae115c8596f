"""Stream operators: windowed aggregate and join, filter, map and union, and what drives them."""

from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.contract import Effects, InputBatch, Operator, Source, Step
from cec_store.operators.inputs.sources import ArrowSource, QueueSource
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.recovery import Recovery
from cec_store.operators.runner import Runner, record_schema
from cec_store.operators.stateless import Filter, Map, Union

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
