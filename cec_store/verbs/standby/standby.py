"""The verbs below `cec-store standby`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from cec_store.verbs.standby.node import node_verb
from cec_store.verbs.standby.nodes import (
    list_verb,
    pause_verb,
    resume_verb,
    switch_verb,
    wait_verb,
)
from cec_store.verbs.standby.passive import standby_verb

_OF_SPARK = "spark"
_EXAMPLE = "Example: cec-store standby "


class _Verbs(TyperGroup):
    """Takes a first word that is no verb for the checkpoint of a Spark application."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = [_OF_SPARK, *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Verbs, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _standby() -> None:
    """Keep processes ready that continue a query or an operator whose process has failed.

    `cec-store standby CHECKPOINT -- COMMAND` is `standby spark CHECKPOINT -- COMMAND`.
    """


app.command(_OF_SPARK, epilog=_EXAMPLE + "spark checkpoints/totals -- python job.py")(standby_verb)
app.command("node", epilog=_EXAMPLE + "node jobs:averages --name a")(node_verb)
app.command("list", epilog=_EXAMPLE + "list queues/totals")(list_verb)
app.command("switch", epilog=_EXAMPLE + "switch queues/totals b")(switch_verb)
app.command("pause", epilog=_EXAMPLE + "pause queues/totals")(pause_verb)
app.command("resume", epilog=_EXAMPLE + "resume queues/totals")(resume_verb)
app.command("wait", epilog=_EXAMPLE + "wait queues/totals --node b")(wait_verb)
