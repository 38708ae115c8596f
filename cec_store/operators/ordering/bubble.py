"""A bounded buffer's smallest item for each new one: passes of a bubble sort on whole arrays."""

from __future__ import annotations

import numpy as np

from cec_store.format.columns import Ints


def pass_through(held: Ints, items: Ints) -> tuple[Ints, Ints]:
    """Put items into a buffer one by one, and take its smallest out for each.

    ``held`` is the buffer. Items differ from one another. What comes out, as many as came in, and
    the buffer then, in order.

    With one place a buffer holds the largest so far, and lets the rest through: one pass of a
    bubble sort. A buffer of n places is n of these in a row. Once a pass lets an ascending sequence
    out, above all that the places after it hold, they only delay it: so there are as many passes as
    items stand out of order, and one more.
    """
    places = np.sort(held)[::-1]
    for number in range(len(places)):
        hold = places[number]
        if (items[1:] > items[:-1]).all() and (items[:1] > hold).all():
            whole = np.concatenate([places[number:][::-1], items])
            out, kept = whole[: len(items)], whole[len(items) :]
            return out, np.sort(np.concatenate([kept, places[:number]]))
        largest = np.maximum.accumulate(np.append(hold, items))
        items = np.minimum(largest[:-1], items)
        places[number] = largest[-1]
    return items, np.sort(places)
