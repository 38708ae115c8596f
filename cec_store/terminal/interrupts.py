"""An interrupt that Python or a library would swallow is raised once more.

An interrupt is raised between any two steps of the main thread. Where that is in a finalizer or in
the callback of a weak reference (Python's own import of a module has such callbacks), Python prints
it as an "exception ignored" and goes on, and Ctrl-C has had no effect. Libraries in C may drop one
without a word: what goes on until Ctrl-C asks for it each time round.
"""

from __future__ import annotations

import _thread
import signal
import sys
import time
from types import FrameType

AGAIN_AFTER_S = 0.01
"""Seconds until it is raised again: by then the finalizer or callback has come to its end."""


def raise_swallowed_interrupts_again() -> None:
    """Have the main thread interrupted anew where Python has swallowed an interrupt."""
    show = sys.unraisablehook

    def look(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            show(unraisable)
        elif not sys.is_finalizing():
            _thread.start_new_thread(_interrupt_soon, ())

    sys.unraisablehook = look


def _interrupt_soon() -> None:
    time.sleep(AGAIN_AFTER_S)
    _thread.interrupt_main()


_has_come = False


def note_interrupts() -> None:
    """Have interrupts of the main thread noted as they are raised, unless they are ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _raise_noted)


def _raise_noted(number: int, frame: FrameType | None) -> None:
    global _has_come
    _has_come = True
    signal.default_int_handler(number, frame)


def raise_noted_interrupt() -> None:
    """Raise a `KeyboardInterrupt` where one has come, and whoever calls this goes on."""
    if _has_come:
        raise KeyboardInterrupt
