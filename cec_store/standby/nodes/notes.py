"""Notes that a node's signs of life carry, and the names of nodes' leases, docs/format.md §14."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum

from cec_store.standby.lease_format import NOTE_BYTES_MAX, check_lease_name

_BETWEEN = ".node."
_REASON_MAX = 500


class NodeState(str, Enum):
    """States of a node, as it notes them."""

    WARMING = "warming"
    """The node has not read all that was in the log when it began to follow."""
    READY = "ready"
    PRIMARY = "primary"
    REFUSED = "refused"
    """The node could not take over, so that another one should."""


@dataclass(frozen=True)
class NodeNote:
    """State and position of a node, at its last sign of life."""

    state: NodeState = NodeState.WARMING
    position: int | None = None
    """Offset up to which it has followed the log, or has made it durable; ``None``: nothing."""
    end: int | None = None
    """End of the log when it last looked; ``None`` where there is no log yet."""
    reason: str = ""
    """Reason why it has refused, or waits though nobody is at work; else empty."""

    @property
    def lag(self) -> int | None:
        """Records of the log that the node has not read; ``None`` where it follows nothing."""
        if self.position is None or self.end is None:
            return None
        return max(0, self.end - self.position)


def encode_note(note: NodeNote) -> bytes:
    """Return the note as JSON, at most :data:`NOTE_BYTES_MAX` bytes: long reasons are cut."""
    fields = {**asdict(note), "reason": note.reason[:_REASON_MAX]}
    return json.dumps(fields, sort_keys=True).encode()[:NOTE_BYTES_MAX]


def decode_note(data: bytes) -> NodeNote | None:
    """Return a note; ``None`` for bytes that are none, such as those of another kind of lease."""
    try:
        fields = json.loads(data)
        note = NodeNote(
            NodeState(fields["state"]), fields["position"], fields["end"], fields["reason"]
        )
    except (ValueError, TypeError, KeyError):
        return None
    numbers = (note.position, note.end)
    if not all(n is None or (type(n) is int and n >= 0) for n in numbers):
        return None
    return note if type(note.reason) is str else None


def node_lease(lease: str, node: str) -> str:
    """Return the name of the lease that a node holds for as long as it runs.

    Raises:
        ValueError: not a lease's name, or one that would be taken for a node's.
    """
    if _BETWEEN in f"{check_lease_name(lease)}." or _BETWEEN in f".{node}":
        raise ValueError(f"{_BETWEEN!r} cannot be in the name of a lease or of a node")
    check_lease_name(node)
    return check_lease_name(f"{lease}{_BETWEEN}{node}")


def node_of(name: str) -> tuple[str, str] | None:
    """Return lease and node of such a name; ``None`` for any other lease."""
    lease, between, node = name.partition(_BETWEEN)
    return (lease, node) if between and lease and node else None
