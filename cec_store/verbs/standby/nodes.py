"""Verbs over the nodes of a place: `cec-store standby list | switch | pause | resume | wait`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cec_store.standby.leases import Leases, Sign, leases_of
from cec_store.standby.nodes.asking import set_paused, switch
from cec_store.standby.nodes.election import Member
from cec_store.standby.nodes.members import SeenLease, seen_leases
from cec_store.standby.nodes.warming import wait_until_warm
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.screens import Cell, Screen
from cec_store.verbs.arguments import AsJson, StorageOptions, count_of, place_of, storage_options_of
from cec_store.verbs.standby.node import LeaseName

_NOT_WARM = 1
Place = Annotated[
    str, typer.Argument(metavar="PATH", help="A queue or checkpoint, as a path or URL.")
]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", help="To wait at most.")]


def list_verb(path: Place, storage_options: StorageOptions = None, as_json: AsJson = False) -> None:
    """Show who holds the leases of a place, which nodes wait, and how far each one is."""
    leases = _leases_at(path, storage_options)
    seen = seen_leases(leases)
    if not seen:
        place_of(path, storage_options)  # raises where nothing is there at all
    if as_json:
        Screen().document({"path": leases.path, "leases": [_as_json(lease) for lease in seen]})
        return
    screen = Screen()
    if not seen:
        screen.line(f"{leases.path}: nobody holds a lease here")
    for lease in seen:
        _show(screen, leases, lease)


def switch_verb(
    path: Place,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node to take over.")],
    even_if_behind: Annotated[
        bool, typer.Option("--even-if-behind", help="However much of the log it lacks.")
    ] = False,
    timeout: Timeout = 60.0,
    lease: LeaseName = "primary",
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Let a node take over from the primary, which becomes a standby; wait until it has."""
    leases = _leases_at(path, storage_options)
    with wrong_use():
        done = switch(leases, lease, node, even_if_behind=even_if_behind, timeout_s=timeout)
    if as_json:
        Screen().document({"path": leases.path, "lease": lease, **done._asdict()})
    else:
        Screen().line(
            f"{leases.path}: {done.node} is the primary since {done.seconds:.2f} s after it was "
            f"told, with tenure {done.tenure:,}"
        )


def pause_verb(
    path: Place,
    lease: LeaseName = "primary",
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Hold takeovers back, but for switchovers and the return of the last primary."""
    _set(path, lease, storage_options, as_json, is_paused=True)


def resume_verb(
    path: Place,
    lease: LeaseName = "primary",
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Let nodes take over by themselves again."""
    _set(path, lease, storage_options, as_json, is_paused=False)


def wait_verb(
    path: Place,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="By default any standby.")
    ] = None,
    lag_max: Annotated[
        Any,
        typer.Option(parser=count_of(0), metavar="RECORDS", help="Of the log, that it may lack."),
    ] = None,
    timeout: Timeout = 60.0,
    lease: LeaseName = "primary",
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a standby is warm. Exit status 1 if none is within the timeout."""
    leases = _leases_at(path, storage_options)
    with wrong_use():
        is_warm = wait_until_warm(
            path, node, lease=lease, lag_max=lag_max, timeout_s=timeout,
            storage_options=storage_options_of(storage_options),
        )  # fmt: skip
    who = "a standby" if node is None else node
    if as_json:
        Screen().document({"path": leases.path, "lease": lease, "node": node, "warm": is_warm})
    elif is_warm:
        Screen().line(f"{leases.path}: {who} is warm")
    else:
        Screen().line(f"{leases.path}: {who} is not warm after {timeout:g} s", "bold red")
    if not is_warm:
        raise typer.Exit(_NOT_WARM)


def _leases_at(path: str, given: list[Any] | None) -> Leases:
    with wrong_use():
        return leases_of(path, storage_options_of(given))


def _set(path: str, lease: str, given: list[Any] | None, as_json: bool, *, is_paused: bool) -> None:
    leases = _leases_at(path, given)
    with wrong_use():
        order = set_paused(leases, lease, is_paused)
    if as_json:
        Screen().document({"path": leases.path, "lease": lease, "paused": order.is_paused})
        return
    what = "are paused" if order.is_paused else "are not held back"
    Screen().line(f"{leases.path}: takeovers of {lease} {what}")


def _as_json(seen: SeenLease) -> dict[str, Any]:
    holder = seen.holder
    return {
        "name": seen.name,
        "holder": holder.holder or None,
        "sign": holder.sign.value,
        "tenure": holder.tenure,
        "paused": seen.order.is_paused,
        "switch_to": seen.order.names(holder.tenure),
        "nodes": [
            {
                "name": member.name,
                "sign": member.sign.value,
                "state": _state(member),
                "position": member.note.position,
                "end": member.note.end,
                "lag": member.note.lag,
                "reason": member.note.reason or None,
            }
            for member in seen.nodes
        ],
    }


def _state(member: Member) -> str:
    """Return the state that a node has noted; of one that is not alive how it ended."""
    if member.is_alive:
        return member.note.state.value
    return "ended" if member.sign is Sign.RELEASED else "silent"


def _show(screen: Screen, leases: Leases, seen: SeenLease) -> None:
    holder = seen.holder
    who = f"{holder.holder}, {holder.sign.value}" if holder.tenure else "nobody has held it"
    screen.line(f"{leases.path}: {seen.name}: {who}")
    if seen.order.is_paused:
        screen.line(f"takeovers are paused since order {seen.order.number:,}", "bold")
    if (to := seen.order.names(holder.tenure)) is not None:
        screen.line(f"{seen.order.asked_by} has told {to} to take over", "bold")
    if not seen.nodes:
        return
    rows: list[list[Cell]] = [
        [member.name, _state(member), member.note.position, member.note.lag, member.note.reason]
        for member in seen.nodes
    ]
    screen.table(f"{seen.name}: nodes", ["node", "state", "followed up to", "lag", "reason"], rows)
