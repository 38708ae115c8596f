"""Standard output and error: text that they cannot encode, and readers that have gone."""

from __future__ import annotations

import codecs
import errno
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from cec_store.terminal.exit_status import CUT_OFF

_LOOK_S = 1.0
"""Seconds between looks at an output to which nothing is written."""


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return JSON's escapes for what cannot be encoded, and the position behind it.

    Documents stay valid JSON by that.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    numbers = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in numbers), error.end


codecs.register_error("cec-store-escaped", _escaped)


def escape_what_cannot_be_shown() -> None:
    """A character that the terminal's encoding lacks is shown as its number, and no error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="cec-store-escaped")


def close_output() -> None:
    """Nobody reads it any more; what is buffered goes nowhere."""
    with suppress(BrokenPipeError):
        sys.stdout.close()


def refuse_closed_output() -> None:
    """Raise ``BrokenPipeError`` if nobody reads standard output any more: no write would tell."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # a text in memory, as in tests
        return
    output = select.poll()
    output.register(number, 0)
    if any(events & (select.POLLERR | select.POLLHUP) for _, events in output.poll(0)):
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more")


@contextmanager
def stopping_with_output(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` once nobody reads standard output any more, while the block waits for rows.

    Raises:
        BrokenPipeError: at the end of the block, if nobody does.
    """
    is_over = Event()

    def look() -> None:
        while not is_over.wait(_LOOK_S):
            try:
                refuse_closed_output()
            except BrokenPipeError:
                stop()
                return

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    refuse_closed_output()


@contextmanager
def flushed() -> Iterator[None]:
    """Write all that the block has printed, however it ends."""
    try:
        try:
            yield
        finally:
            if not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        close_output()
        sys.exit(CUT_OFF)
