"""Facts about the end of a segment, for each combination of answers, at their limits."""

import itertools
from collections.abc import Iterator

from cec_store.format.ends import EndFacts, LogKind

BAD, STEP = 1000, 700
"""The bad byte, and the first byte of a step that is not finished."""
Answers = tuple[bool, ...]


def facts_of(answers: Answers) -> Iterator[EndFacts]:
    """Numbers that give these answers, at their limits and apart from them."""
    sealed, at_seal, newer, vouched, in_step, at_end, frame_beyond, unfinished = answers
    seals = (BAD,) if at_seal else (BAD + 1, BAD + 500)
    for seal, claimed, size in itertools.product(
        seals if sealed else (None,),
        (BAD + 1, BAD + 900) if vouched else (BAD, 0),
        (BAD,) if at_end else (BAD + 1, BAD + 2000),
    ):
        step = STEP if in_step else None
        yield EndFacts(BAD, size, claimed, seal, step, newer, frame_beyond, unfinished)


CASES = [
    (kind, answers, facts)
    for kind in LogKind
    for answers in itertools.product([False, True], repeat=8)
    for facts in facts_of(answers)
]
