"""Effects of a failure that readers downstream see, by comparing outputs: the paper's 3.1, Table 2.

Networks are small, and of one type each. An output is a row: the first and the last input that it
is made of, and its value. Inputs are numbers; a failure is a number of inputs processed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulators.standby.networks import Ints
from cec_store.operators.taxonomy import NetworkType, RecoveryType
from cec_store.standby.schemes import Scheme

WINDOW, ADVANCE, BLOCK = 10, 5, 4
INPUTS = 120
# Inputs by which the last message before a failure may lag: those of one interval.
_STALE = 2 * WINDOW + 3
# Window lengths of two keys that alternate. They differ, so that no moment suits both.
_LENGTHS = (6, 10)


@dataclass(frozen=True)
class Execution:
    """The order in which a node processed its inputs."""

    order: Ints

    def followed_by(self, processed: int, random: np.random.Generator) -> Execution:
        """The same until so many inputs are processed, and then as chance has it."""
        rest = _shuffled(np.sort(self.order[processed:]), random)
        return Execution(np.concatenate([self.order[:processed], rest]))


def _shuffled(inputs: Ints, random: np.random.Generator) -> Ints:
    """Merged from several streams: nothing gets far from its place."""
    rank = np.arange(len(inputs)) // BLOCK + random.random(len(inputs))
    return inputs[np.argsort(rank, kind="stable")]


def execution(kind: NetworkType, random: np.random.Generator) -> Execution:
    """Return a run over all inputs, in random order for an arbitrary network."""
    inputs = np.arange(INPUTS, dtype=np.int64)
    return Execution(_shuffled(inputs, random) if kind is NetworkType.ARBITRARY else inputs)


def outputs(kind: NetworkType, run: Execution, begin: int = 0, since: int = 0) -> Ints:
    """All that a run puts out.

    ``begin``: where its state was empty, which decides how its windows lie; ``since``: outputs
    whose last input stands before that are left out.
    """
    if kind is NetworkType.REPEATABLE:
        at = np.arange(begin, INPUTS)
        rows = [np.stack([at, at, run.order[at]], axis=1)]
    elif kind is NetworkType.CONVERGENT:
        ends = np.arange(begin - begin % ADVANCE + ADVANCE, INPUTS + 1, ADVANCE)
        rows = [_rows(run, np.maximum(begin, ends - WINDOW), ends, 1)]
    elif kind is NetworkType.DETERMINISTIC:
        # Each key's windows begin with the first of its inputs that is seen.
        firsts = [begin + (begin + key) % 2 for key in range(2)]
        pairs = zip(firsts, _LENGTHS, strict=True)
        whole = [(np.arange(first, INPUTS - n + 1, n), n) for first, n in pairs]
        rows = [_rows(run, first, first + n, 2) for first, n in whole]
    else:
        starts = np.arange(begin, INPUTS - WINDOW // 2 + 1, WINDOW // 2)
        rows = [_rows(run, starts, starts + WINDOW // 2, 1)]
    every = np.concatenate(rows)
    every = every[np.lexsort((every[:, 0], every[:, 1]))]
    kept: Ints = every[every[:, 1] >= since]
    return kept


def _rows(run: Execution, starts: Ints, ends: Ints, step: int) -> Ints:
    """A row for each window; the value is a sum that tells apart what inputs it had."""
    weights = np.cumsum(np.concatenate([[0], (run.order + 1) ** 2]))
    values = weights[ends] - weights[starts]
    if step == 2:
        pairs = zip(starts, ends, strict=True)
        values = np.array([((run.order[a:b:2] + 1) ** 2).sum() for a, b in pairs])
    return np.stack([starts, ends - step, values], axis=1).astype(np.int64)


def _covers(rows: Ints) -> bool:
    """Return True if every input has an effect, but for the last ones, whose windows are still
    open.
    """
    marks = np.zeros(INPUTS + 1, dtype=np.int64)
    np.add.at(marks, rows[:, 0], 1)
    np.add.at(marks, rows[:, 1] + 1, -1)
    return bool((np.cumsum(marks)[: INPUTS - 2 * WINDOW] > 0).all())


def recovery_type(before: Ints, after: Ints, expected: Ints) -> RecoveryType:
    """Return the recovery type that outputs before and after a failure show.

    ``expected`` are the outputs of the same run without the failure.
    """
    if not _covers(np.concatenate([before, after])):
        return RecoveryType.GAP
    if np.array_equal(np.concatenate([before, after]), expected):
        return RecoveryType.PRECISE
    is_repeated = after[:, 1] <= before[-1, 1]
    if not np.array_equal(np.concatenate([before, after[~is_repeated]]), expected):
        return RecoveryType.DIVERGENT
    known = {tuple(row) for row in before.tolist()}
    same = all(tuple(row) in known for row in after[is_repeated].tolist())
    return RecoveryType.REPEATING if same else RecoveryType.CONVERGENT


def _fail(
    scheme: Scheme, kind: NetworkType, failed: int, is_precise: bool, random: np.random.Generator
) -> RecoveryType:
    """One failure, once so many inputs were processed."""
    primary = execution(kind, random)
    every = outputs(kind, primary)
    before = every[every[:, 1] < failed]
    acknowledged = int(before[before[:, 1] < failed - _STALE][-1, 1]) + 1
    known = failed - int(random.integers(1, _STALE))
    # With determinants logged it does what the primary did, windows and order alike.
    follows = is_precise and kind in (NetworkType.ARBITRARY, NetworkType.DETERMINISTIC)
    if scheme is Scheme.AMNESIA:
        after = outputs(kind, primary, begin=failed + WINDOW)
        return recovery_type(before, after, every)
    if scheme is Scheme.EVENTUAL or (
        scheme is Scheme.PASSIVE and is_precise and kind is NetworkType.ARBITRARY
    ):
        # Output that was not yet in the log, or in a checkpoint, was never sent.
        before = every[every[:, 1] < known]
        again = primary if kind is not NetworkType.ARBITRARY else primary.followed_by(known, random)
        return recovery_type(before, outputs(kind, again, since=known), outputs(kind, again))
    if scheme is Scheme.UPSTREAM and not follows:
        begin = int(every[every[:, 1] >= acknowledged][:, 0].min())
        again = execution(kind, random)
        after = outputs(kind, again, begin=begin)
    elif scheme is Scheme.PASSIVE:
        again = primary.followed_by(known, random) if kind is NetworkType.ARBITRARY else primary
        after = outputs(kind, again, since=acknowledged)
    else:
        again = primary if follows else execution(kind, random)
        after = outputs(kind, again, since=acknowledged)
    if is_precise:
        after = after[after[:, 1] > before[-1, 1]]
    return recovery_type(before, after, every)


def observed(
    scheme: Scheme,
    kind: NetworkType,
    *,
    is_precise: bool = False,
    failures: int = 60,
    seed: int = 0,
) -> RecoveryType:
    """The weakest of what failures at random moments come to."""
    random = np.random.default_rng([seed, list(Scheme).index(scheme)])
    order = list(RecoveryType)
    moments = random.integers(3 * WINDOW + _STALE, INPUTS - 3 * WINDOW, failures)
    types = [_fail(scheme, kind, int(failed), is_precise, random) for failed in moments]
    return max(types, key=order.index)
