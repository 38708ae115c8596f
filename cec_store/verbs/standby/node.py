"""The verb `cec-store standby node`: a process that is primary or standby as needs be."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cec_store.standby.leases import KeepAlive
from cec_store.standby.nodes.election import NodeRules
from cec_store.standby.nodes.job import Job
from cec_store.standby.nodes.node import Node
from cec_store.standby.nodes.notes import NodeNote
from cec_store.terminal.exit_status import wrong_use
from cec_store.terminal.screens import Screen
from cec_store.verbs.arguments import count_of
from cec_store.verbs.fleet.stopping import Sigterm
from cec_store.verbs.standby.factories import product_of

LeaseName = Annotated[str, typer.Option("--lease", help="The lease that its nodes compete for.")]


def node_verb(
    job: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="Returns the cec_store.Job to run.")
    ],
    name: Annotated[str, typer.Option("--name", help="Of this node, which no other node has.")],
    lag_max: Annotated[
        Any,
        typer.Option(
            parser=count_of(0),
            metavar="RECORDS",
            help="A node that lacks more of the log does not take over by itself.",
        ),
    ] = None,
    damping: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two failovers, at least.")
    ] = NodeRules.damping_s,
    turn: Annotated[
        float, typer.Option(metavar="SECONDS", help="To wait for each node that is ahead.")
    ] = NodeRules.turn_s,
    period: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two signs of life.")
    ] = KeepAlive.period_s,
    misses: Annotated[
        int, typer.Option(help="Signs of life that may be missing.")
    ] = KeepAlive.misses,
    lease: LeaseName = "primary",
) -> None:
    """Be the primary or a standby of an operator, as needs be, until SIGTERM or Ctrl-C.

    Give all nodes the same options but --name.
    """
    screen = Screen()

    def show(note: NodeNote, reason: str) -> None:
        at = "" if note.position is None else f" at offset {note.position:,}"
        screen.note(f"{name}: {note.state.value}{at} ({reason})")

    is_asked = False

    def stop() -> None:
        nonlocal is_asked
        is_asked = True

    with wrong_use():
        rules = NodeRules(lag_max, damping, turn)
        node = Node(
            name, job_of(job), rules=rules, lease=lease, keep_alive=KeepAlive(period, misses),
            on_change=show,
        )  # fmt: skip
    with Sigterm() as sigterm:
        sigterm.calls(stop)
        node.run(lambda: not is_asked)


def job_of(name: str) -> Job:
    """Return the job of the function that ``module:function`` names.

    Raises:
        ValueError: there is no such function, or it fails or returns something else.
    """
    made = product_of(name, lambda factory: factory() if callable(factory) else factory)
    if not isinstance(made, Job):
        raise ValueError(f"{name} gives {made!r}, and has to return a cec_store.Job")
    return made
