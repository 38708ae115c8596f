"""Layouts and loads drawn by hypothesis, or by a seed."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from cec_store.placement.layout import Floats, Layout


@dataclass(frozen=True, eq=False)
class Case:
    """A layout without copies, and loads of shape (groups, samples)."""

    layout: Layout
    loads: Floats
    copies: int
    seed: int

    @property
    def random(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def made(groups: int, nodes: int, seed: int, copies: int = 1, samples: int = 40) -> Case:
    """Loads that follow some of three causes; some groups have none, and some never vary."""
    random = np.random.default_rng([groups, nodes, seed])
    causes = random.normal(size=(3, samples))
    weights = random.normal(size=(groups, 3)) * (random.random((groups, 3)) < 0.5)
    noise = random.normal(size=(groups, samples)) * random.choice([0.0, 1.0], (groups, 1))
    loads = np.maximum(0.0, 3 + weights @ causes + noise)
    owner = random.integers(0, nodes, groups)
    names = tuple(f"g{n}" for n in range(groups)), tuple(f"n{n}" for n in range(nodes))
    layout = Layout(*names, owner, np.zeros((groups, 0), np.int64))
    return Case(layout, loads, copies, seed)


@st.composite
def cases(draw: st.DrawFn, groups_max: int = 12, nodes_max: int = 6) -> Case:
    nodes = draw(st.integers(2, nodes_max))
    groups = draw(st.integers(1, groups_max))
    copies = draw(st.integers(1, min(3, nodes - 1)))
    return made(groups, nodes, draw(st.integers(0, 10_000)), copies)
