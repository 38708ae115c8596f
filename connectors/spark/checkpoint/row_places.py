"""Places of rows and their parts among the bytes of many, and the numbers at such places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints


@dataclass(frozen=True)
class Steps:
    """Places that are as far from one another as the first two: no list of them is needed."""

    first: int
    step: int
    count: int

    def __len__(self) -> int:
        return self.count

    @overload
    def __add__(self, more: int) -> Steps: ...
    @overload
    def __add__(self, more: Ints) -> Ints: ...
    def __add__(self, more: int | Ints) -> Steps | Ints:
        if isinstance(more, int):
            return Steps(self.first + more, self.step, self.count)
        return self[:] + more

    def __getitem__(self, which: Any) -> Ints:
        places: Ints = (self.first + self.step * np.arange(self.count))[which]
        return places


Places = Steps | Ints


@dataclass(frozen=True)
class Ranges:
    """Places of rows, or of parts of them."""

    start: Places
    sizes: Ints
    """Bytes of each; a single number where all have as many."""

    @cached_property
    def end(self) -> Ints:
        """Behind their last bytes."""
        return self.start + self.sizes

    def take(self, which: Any) -> Ranges:
        sizes = np.broadcast_to(self.sizes, len(self.start))
        return Ranges(self.start[which], sizes[which])


def ranges_at(places: NDArray[np.int32]) -> Ranges:
    """Rows that begin at each of these places and end at the next."""
    size = places[1] - places[0]
    if (places[1:] - places[:-1] == size).all():
        steps = Steps(int(places[0]), int(size), len(places) - 1)
        return Ranges(steps, np.array([size], np.int64))
    wide = places.astype(np.int64)
    return Ranges(wide[:-1], np.diff(wide))


@dataclass(frozen=True)
class Heap:
    """All bytes that rows and their parts lie in."""

    buffer: pa.Buffer
    data: NDArray[np.uint8]

    def read(self, at: Places, dtype: str) -> NDArray[Any]:
        """The number at each place, however it is aligned. All places must be inside.

        By steps several times as fast.
        """
        size = np.dtype(dtype).itemsize
        if not len(at):
            return np.empty(0, dtype)
        if isinstance(at, Steps):
            return np.ndarray((at.count,), dtype, self.data, at.first, (at.step,)).copy()
        anywhere = np.ndarray((len(self.data) - size + 1,), dtype, self.data, 0, (1,))
        return anywhere[at]
