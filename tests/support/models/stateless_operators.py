"""Operators without state, each beside a function that says what it puts out for a row."""

import pyarrow.compute as pc

from cec_store.operators.stateless import Filter, Map, Union
from support.models.aggregate_inputs import SCHEMA

STATELESS = {
    "filter": (
        lambda: Filter(pc.field("k") > 0, SCHEMA),
        lambda values: [values] if (values["k"] or 0) > 0 else [],
        1,
    ),
    "map": (
        lambda: Map({"k": pc.field("k"), "u": pc.field("u")}, SCHEMA),
        lambda values: [{"k": values["k"], "u": values["u"]}],
        1,
    ),
    "union": (lambda: Union(SCHEMA, 2), lambda values: [values], 2),
}


class RowByRow:
    """A reference for operators without state."""

    def __init__(self, function):
        self.function = function

    def take(self, row):
        return self.function(row.values)

    @staticmethod
    def state():
        return {}
