"""One answer of each log of a place, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cec_store.errors import CecError, CorruptLog, OutOfRange
from cec_store.inspector.places.places import Log, Place
from cec_store.terminal.documents import document
from cec_store.terminal.exit_status import exit_if_damaged

_Answer = TypeVar("_Answer")


@dataclass
class Gathered(Generic[_Answer]):
    """Answers by log."""

    place: Place
    answers: list[tuple[Log, _Answer]]
    problems: list[tuple[Log, str]]

    @property
    def is_sound(self) -> bool:
        """True if all logs could be read."""
        return not self.problems

    def as_json(
        self,
        to_json: Callable[[_Answer], dict[str, Any]],
        totals: dict[str, Any],
        **own: Any,
    ) -> dict[str, Any]:
        """The document of a verb; of a log that cannot be read only why."""
        documents = {log: {**log.fields(), **to_json(a), "problem": ""} for log, a in self.answers}
        documents |= {log: {**log.fields(), "problem": text} for log, text in self.problems}
        order = [log for log in self.place.logs if log in documents]
        return document(self.place, self.is_sound, [documents[log] for log in order], totals, **own)

    def end(self) -> None:
        """Raises where a log could not be read, and says which."""
        exit_if_damaged(text for _, text in self.problems)


def gather(place: Place, logs: Iterable[Log], ask: Callable[[Log], _Answer]) -> Gathered[_Answer]:
    """Ask all logs.

    Raises:
        CecError: what is asked for is none of damage.
    """
    gathered: Gathered[_Answer] = Gathered(place, [], [])
    for log in logs:
        try:
            gathered.answers.append((log, ask(log)))
        except CecError as error:
            is_damage = isinstance(error, CorruptLog)
            if isinstance(error, OutOfRange) or (len(place.logs) == 1 and not is_damage):
                raise
            gathered.problems.append((log, str(error)))
    return gathered
