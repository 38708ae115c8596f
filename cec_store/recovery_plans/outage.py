"""Failed partitions and the needs of each failed query, which all planners work from.

Failed partitions that the same failed queries need come back together or not at all, so they are
one **block**, with the sum of their costs. No plan of whole queries loses anything by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cec_store.recovery_plans.membership import Bools, Floats, Ints, Membership
from cec_store.recovery_plans.topology import Partition, Topology

NONE = -1
"""Mark in place of an index: no block, since no query needs the partition; or no query."""
EQUAL = 1e-9
"""Sums of costs that mean the same may differ in the last digits: this share of the room."""


@dataclass(frozen=True, eq=False)
class Outage:
    """Failed partitions, failed queries and blocks, each known by its place; `of` makes one."""

    topology: Topology
    failed: Ints
    """Partitions of the topology, ascending."""
    queries: Ints
    """Queries of the topology that need a failed partition."""
    priority: Floats
    """Priority of each of these queries."""
    block_of: Ints
    """Block of each failed partition, or NONE."""
    cost: Floats
    """Cost of each block."""
    needs: Membership
    """Blocks of each failed query."""
    sharers: Membership
    """Failed queries that need each block."""

    @classmethod
    def of(
        cls,
        topology: Topology,
        failed: Iterable[Partition],
        left_out: Collection[Partition] = (),
    ) -> Outage:
        """Build an outage from the partitions that have failed.

        Args:
            left_out: outputs of queries that are not to be planned for.

        Raises:
            ValueError: a partition that the topology does not have.
        """
        failed = set(failed)
        if strange := [partition for partition in failed if partition not in topology.index]:
            raise ValueError(f"{strange[0]} is no partition of this topology")
        places = sorted(topology.index[partition] for partition in failed)
        outputs = [topology.partitions[partition] for partition in topology.outputs.tolist()]
        kept = sum(1 << n for n, partition in enumerate(outputs) if partition not in left_out)
        blocks: dict[int, int] = {}
        block_of = np.full(len(places), NONE, np.int64)
        for number, place in enumerate(places):
            if queries := topology.needed_by[place] & kept:
                block_of[number] = blocks.setdefault(queries, len(blocks))
        block, query = _members(list(blocks), len(outputs))
        failed_queries = np.unique(query)
        query = np.searchsorted(failed_queries, query)
        has = block_of != NONE
        at = np.array(places, np.int64)
        return cls(
            topology,
            at,
            failed_queries,
            topology.priority[failed_queries],
            block_of,
            np.bincount(block_of[has], topology.cost[at[has]], len(blocks)).astype(np.float64),
            Membership.of_pairs(query, block, len(failed_queries)),
            Membership.of_pairs(block, query, len(blocks)),
        )

    @cached_property
    def query_cost(self) -> Floats:
        """Cost of all failed partitions of each query, shape (queries,)."""
        return self.needs.summed(self.cost)

    @cached_property
    def weight(self) -> Floats:
        """Sum of c / f for each query: the cost of each block, divided by the queries that share
        it.
        """
        return self.needs.summed(self.cost / self.sharers.sizes)

    @property
    def sharing_max(self) -> int:
        """The paper's d: by how many failed queries one partition is shared at most."""
        return int(self.sharers.sizes.max(initial=0))

    def covered(self, chosen: Bools) -> Bools:
        """Return one flag for each block: True if these queries need it."""
        covered = np.zeros(len(self.cost), np.bool_)
        covered[self.needs.members[chosen[self.needs.rows]]] = True
        return covered

    def taken(self, chosen: Bools) -> Bools:
        """Return one flag for each failed partition: True if these queries need it."""
        return np.append(self.covered(chosen), False)[self.block_of]

    @cached_property
    def number(self) -> dict[Partition, int]:
        """Place of each failed query, by its output."""
        return {self.output(place): place for place in range(len(self.queries))}

    @cached_property
    def _in_block(self) -> Membership:
        """Places in `failed` of each block's partitions."""
        has = np.flatnonzero(self.block_of != NONE).astype(np.int64)
        return Membership.of_pairs(self.block_of[has], has, len(self.cost))

    def failed_of(self, query: int) -> Ints:
        """Return the places in `failed` of the partitions that the query needs."""
        return self._in_block.gathered(self.needs.of(query))[1]

    def output(self, query: int) -> Partition:
        """Return the output partition of a failed query, by the query's place."""
        return self.topology.partitions[int(self.topology.outputs[self.queries[query]])]


def _members(sets: list[int], count: int) -> tuple[Ints, Ints]:
    """Sets of numbers below ``count``, as whole numbers: pairs of a set's place and a member."""
    width = (count + 7) // 8
    packed = np.frombuffer(
        b"".join(members_of.to_bytes(width, "little") for members_of in sets), np.uint8
    )
    bits = np.unpackbits(packed.reshape(len(sets), width), axis=1, bitorder="little")
    rows, members = np.nonzero(bits)
    return rows.astype(np.int64), members.astype(np.int64)
