"""Layouts: the node of each key group, and those of its copies. The paper's sections 3 and 5.

A key group is whatever is moved as one, on Spark a state partition; a copy is the paper's
checkpoint, on Spark a warm replica.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOWHERE = -1
"""Value in place of a node's index: the group has no owner, or lacks this copy."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Key groups and nodes are known by their place in these tuples.

    Raises:
        ValueError: arrays of other shapes, or an index that no node has.
    """

    groups: tuple[Hashable, ...]
    nodes: tuple[Hashable, ...]
    owner: Ints
    """Index of each group's node; shape (groups,)."""
    holders: Ints
    """Index of the node of each copy, or NOWHERE; shape (groups, copies)."""

    def __post_init__(self) -> None:
        if len(set(self.groups)) < len(self.groups) or len(set(self.nodes)) < len(self.nodes):
            raise ValueError("a group or node is named twice")
        count = len(self.groups)
        if self.owner.shape != (count,) or self.holders.shape[:1] != (count,):
            raise ValueError(
                f"{count} groups, but owners of shape {self.owner.shape} and copies of "
                f"{self.holders.shape}"
            )
        for places in (self.owner, self.holders):
            if places.size and not NOWHERE <= places.min() <= places.max() < len(self.nodes):
                raise ValueError(f"there are {len(self.nodes)} nodes; a place names another")

    @classmethod
    def of(
        cls,
        owners: Mapping[Hashable, Hashable | None],
        nodes: Sequence[Hashable],
        holders: Mapping[Hashable, Iterable[Hashable]] | None = None,
    ) -> Layout:
        """Build a layout from the names of groups, their owners, and nodes.

        An owner that is no node counts as none, and so does a copy at such a node, at its group's
        owner, or at a node for the second time: none of these helps when a node is lost.
        """
        number = {node: index for index, node in enumerate(nodes)}
        groups = tuple(owners)
        owner = [NOWHERE if name is None else number.get(name, NOWHERE) for name in owners.values()]
        copies = []
        for group, at in zip(groups, owner, strict=True):
            named = dict.fromkeys((holders or {}).get(group, ()))
            places = [number[name] for name in named if name in number]
            copies.append([index for index in places if index != at])
        most = max(map(len, copies), default=0)
        padded = [row + [NOWHERE] * (most - len(row)) for row in copies]
        return cls(
            groups,
            tuple(nodes),
            np.array(owner, np.int64),
            np.array(padded, np.int64).reshape(len(groups), most),
        )

    @property
    def held(self) -> Bools:
        """True where a node has a copy of a group; shape (groups, nodes)."""
        held = np.zeros((len(self.groups), len(self.nodes)), np.bool_)
        group, copy = np.nonzero(self.holders != NOWHERE)
        held[group, self.holders[group, copy]] = True
        return held

    @property
    def owned(self) -> Bools:
        """True where a node processes a group; shape (groups, nodes)."""
        owned: Bools = self.owner[:, None] == np.arange(len(self.nodes))
        return owned

    def with_holders(self, holders: Ints) -> Layout:
        """Return this layout with other copies, shape (groups, copies)."""
        return replace(self, holders=holders)

    def moved(self, group: int, target: int) -> Layout:
        """Return the layout after a migration.

        Where the target had a copy, the old owner's state has become one in its place (Algorithms 1
        and 2). After a direct migration, which ends with Algorithm 1 as well, it is a copy where
        the group lacks one; those that are there stay where they were.
        """
        owner, holders = self.owner.copy(), self.holders.copy()
        copies = holders[group]
        used = np.flatnonzero(copies == target)
        place = used if used.size else np.flatnonzero(copies == NOWHERE)[:1]
        copies[place] = owner[group]
        owner[group] = target
        return replace(self, owner=owner, holders=holders)

    def holder_names(self) -> dict[Hashable, tuple[Hashable, ...]]:
        """The copies of each group by name."""
        return {
            group: tuple(self.nodes[index] for index in row if index != NOWHERE)
            for group, row in zip(self.groups, self.holders.tolist(), strict=True)
        }


def violations(layout: Layout) -> list[str]:
    """Return breaches of constraint 1: a copy with its group, or with another of its copies."""
    problems = []
    for group, owner, row in zip(
        layout.groups, layout.owner.tolist(), layout.holders.tolist(), strict=True
    ):
        held_by = [index for index in row if index != NOWHERE]
        if owner in held_by:
            problems.append(f"{layout.nodes[owner]} processes {group} and holds a copy of it")
        if len(set(held_by)) < len(held_by):
            problems.append(f"two copies of {group} are at one node")
    return problems
