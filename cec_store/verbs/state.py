"""The verb `cec-store state`."""

from __future__ import annotations

from cec_store.connectors.spark.checkpoint.layout import JOIN_SIDES
from cec_store.inspector.places.points import seq_at, version_at
from cec_store.inspector.showing.states import StoreReader, WindowReader
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.outputs import As, Force, OutputFile, chosen_format, write_rows
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    AtVersion,
    Limit,
    Operator,
    Partition,
    PlacePath,
    Raw,
    StorageOptions,
    Store,
    place_of,
    point_of,
)
from cec_store.verbs.spark.session import Conf
from cec_store.verbs.spark.stored_state import stored_state


def state_verb(
    path: PlacePath,
    at: AtPoint = None,
    version: AtVersion = None,
    operator: Operator = None,
    partition: Partition = None,
    store: Store = None,
    form: As = None,
    output: OutputFile = None,
    force: Force = False,
    raw: Raw = False,
    conf: Conf = None,
    limit: Limit = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Print the state at a version or a time: the keys or windows that were open.

    What Spark's own providers keep is read by Spark, in a session that is begun for it.
    """
    form = chosen_format(form, output, as_json)
    place = place_of(path, storage_options)
    point = point_of(place, at, version)
    with wrong_use():
        logs = place.chosen(operator, partition, store)
        if place.has_versions:
            chosen_version = version_at(place, point)
            is_side = store in JOIN_SIDES and logs[0].store == JOIN_SIDES[store]
            stores = StoreReader(place, logs, raw, partition is None, is_side=is_side)
        else:
            reader = WindowReader(place)
            rows = reader.state(seq_at(place, reader.chain, point))
    if not place.has_versions:
        write_rows(place, rows, form, output, force, limit, version=rows.version)
        return
    with wrong_use(), stored_state(conf, [(place, chosen_version)]) as [stored]:
        rows = stores.state(chosen_version, stored)
        write_rows(place, rows, form, output, force, limit, version=rows.version)
