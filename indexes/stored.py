"""The index on disk, as values: what it covers, what it claims, and the log's word on a claim."""

from __future__ import annotations

from collections.abc import Callable

from cec_store.errors import CecError
from cec_store.format.frame import SEGMENT_HEADER_BYTES
from cec_store.indexes.entries import (
    NOTHING_REACHED,
    About,
    Broken,
    Place,
    Reach,
    seq_key,
    timestamp_key,
)
from cec_store.indexes.environment import ABOVE_ALL_KEYS, Environment
from cec_store.indexes.recent import Recent
from cec_store.log.chain import Chain
from cec_store.log.frames import Frame
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, Address


def is_trimmed(claim: Place | Reach, chain: Chain) -> bool:
    """Whether the claimed frame has left the log."""
    return claim.segment_id < chain.segments.start


def prove(claim: Place | Reach, chain: Chain) -> Frame | None:
    """The frame that the index claims; ``None`` if it is trimmed or beyond the chain's end.

    Raises:
        Broken: the log has another frame there, or none.
    """
    if is_trimmed(claim, chain):
        return None
    try:
        frame = chain.frame_at(claim.address)
        end_byte = chain.segment_end(claim.segment_id) if claim.seq < chain.end.seq else None
    except (CecError, OSError, ValueError) as error:
        raise Broken(f"frame {claim.seq} is not at {claim.address}: {error}") from error
    header = frame.header
    if (header.seq, header.header_crc) != (claim.seq, claim.header_crc):
        raise Broken(f"another frame than {claim.seq} is at {claim.address}")
    if isinstance(claim, Reach) and header.max_timestamp_us != claim.upto_us:
        raise Broken(f"frame {claim.seq} does not reach {claim.upto_us}")
    if end_byte is None:
        return None
    if frame.next_address.byte > end_byte:
        raise Broken(f"frame {claim.seq} at {claim.address} is not part of the log")
    return frame


class Stored:
    """An open file of the index. Every method raises :class:`Broken` where a row is not sound."""

    def __init__(self, environment: Environment, log_id: bytes, about: About | None) -> None:
        self.environment = environment
        self._log_id = log_id
        self.about = about
        """What it covers; ``None``: nothing yet."""

    @classmethod
    def reconcile(cls, environment: Environment, chain: Chain) -> tuple[Stored, Recent]:
        """Take a file that was published, if what it covers is in the log to its last frame.

        Returns it, and the place from where the log is to be followed on.
        """
        log_id = chain.manifest.log_id
        about = About.decode(environment.about(), log_id)
        try:
            # A writer may have published more than this chain has seen.
            current = chain if about.last.seq < chain.end.seq else Chain(chain.folder)
        except (CecError, OSError) as error:
            raise Broken(f"the log cannot be read: {error}") from error
        last = prove(about.last, current)
        if last is None:
            raise Broken("the index covers what is not in the log")
        recent = Recent(about.last.seq + 1, last.next_address, about.reached_us)
        return cls(environment, log_id, about), recent

    @property
    def reached_us(self) -> int:
        """Largest timestamp of all that is covered; below every timestamp if nothing is."""
        return self.about.reached_us if self.about else NOTHING_REACHED

    @property
    def frames(self) -> int:
        """How many frames are covered; 0 if the first row cannot tell."""
        try:
            first = self._first()
        except Broken:
            return 0
        return self.about.last.seq + 1 - first.seq if self.about and first else 0

    def _first(self) -> Place | None:
        row = self.environment.first_frame()
        return Place.decode(row, self._log_id) if row else None

    def reach(self, timestamp_us: int) -> Reach:
        """The first frame at or above a timestamp that is not above :attr:`reached_us`."""
        row = self.environment.timestamp(timestamp_key(timestamp_us))
        if row is None:
            raise Broken(f"no row for {timestamp_us} below {self.reached_us}")
        reach = Reach.decode(row, self._log_id)
        if not reach.from_us <= max(timestamp_us, MIN_TIMESTAMP_US) <= reach.upto_us:
            raise Broken(f"the row for {timestamp_us} is missing")
        return reach

    def place(self, seq: int) -> Place | None:
        """Where frame ``seq`` stands; ``None`` if that is not covered."""
        if self.about is None or not 0 <= seq <= self.about.last.seq:
            return None
        with self.environment.frames() as get:
            return self._place(seq, get)

    def _place(self, seq: int, get: Callable[[bytes], bytes | None]) -> Place | None:
        key = seq_key(seq)
        value = get(key)
        return None if value is None else Place.decode((key, value), self._log_id)

    def place_of_offset(self, offset: int) -> Place | None:
        """The last covered frame that begins at or before the offset: they rise with ``seq``."""
        place = self._first()
        if self.about is None or place is None or offset < place.first_offset:
            return None
        low, high = place.seq, self.about.last.seq
        with self.environment.frames() as get:
            while low < high:
                middle = (low + high + 1) // 2
                probe = self._place(middle, get)
                if probe is None:
                    raise Broken(f"frame {middle} is missing")
                if probe.first_offset <= offset:
                    low, place = middle, probe
                else:
                    high = middle - 1
        return place

    def append(self, recent: Recent) -> Recent:
        """Cover these frames too, in one transaction; returns what takes up from there."""
        about = recent.about()
        rows = recent.rows(self._log_id)
        self.environment.append(*rows, about.encode(self._log_id))
        self.about = about
        return recent.after(about.reached_us)

    def needs_trim(self, chain: Chain) -> bool:
        """Whether trimmed frames are covered.

        Raises:
            Broken: all of them are trimmed, so there is nothing to go on from.
        """
        if self.about is None:
            return False
        if is_trimmed(self.about.last, chain):
            raise Broken("all that the index covers is trimmed")
        first = self._first()
        return first is not None and is_trimmed(first, chain)

    def trim(self, chain: Chain) -> None:
        """Remove trimmed frames, and let those shine that they outshone.

        Raises:
            CecError: the log is damaged where it has to be read again.
        """
        assert self.about is not None
        about, kept = self.about, self._first_kept(chain)
        hidden, first_seq = Recent(), about.last.seq + 1
        for frame in chain.frames(Address(chain.segments.start, SEGMENT_HEADER_BYTES)):
            first_seq = min(first_seq, frame.header.seq)
            if frame.header.seq >= (kept.seq if kept else about.last.seq + 1):
                break
            hidden.add(frame)
        rows = hidden.rows(self._log_id)[1]
        if kept is not None:
            rows.append(kept._replace(from_us=hidden.reached_us + 1).encode(self._log_id))
        else:
            about = about._replace(reached_us=hidden.reached_us)
        limit = timestamp_key(kept.upto_us) if kept else ABOVE_ALL_KEYS
        self.environment.trim(seq_key(first_seq), limit, rows, about.encode(self._log_id))
        self.about = about

    def _first_kept(self, chain: Chain) -> Reach | None:
        """The first frame to raise the maximum that is still there."""
        next_us = MIN_TIMESTAMP_US
        while next_us <= MAX_TIMESTAMP_US:
            row = self.environment.timestamp(timestamp_key(next_us))
            if row is None:
                break
            reach = Reach.decode(row, self._log_id)
            if not is_trimmed(reach, chain):
                return reach
            next_us = reach.upto_us + 1
        return None
