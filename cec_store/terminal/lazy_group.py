"""A group of verbs, each imported when it is called: `--help` needs none of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup

from cec_store.errors import CecError
from cec_store.terminal.exit_status import CUT_OFF, INTERRUPTED, WRONG_USE, status_of, tell
from cec_store.terminal.streams import close_output


class Verb(NamedTuple):
    """A verb before it is imported."""

    help: str
    """The first line of what its own `--help` says."""
    load: Callable[[], Any]
    """Gives its function, or a `typer.Typer` with verbs below it."""
    example: str
    """Words behind ``cec-store`` that do something useful, for the end of its help."""


class _Completion(NamedTuple):
    value: str
    help: str
    type: str = "plain"


class LazyGroup(TyperGroup):
    """Turns what can go wrong into one line and a status."""

    groups: ClassVar[Mapping[str, Mapping[str, Verb]]] = {}
    """Verbs by name, under the titles that the help has."""

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """All verbs by name, in the order of the help."""
        return {name: verb for verbs in self.groups.values() for name, verb in verbs.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.verbs]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        verb = self.verbs.get(cmd_name)
        if verb is None:
            return None
        loaded = verb.load()
        if not isinstance(loaded, typer.Typer):
            single = typer.Typer(
                add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
            )
            single.command(cmd_name)(loaded)
            loaded = single
        command = typer.main.get_command(loaded)
        command.name = cmd_name  # a group has none of its own
        command.epilog = f"Example: cec-store {verb.example}"
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, verbs in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.help) for name, verb in verbs.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.verbs and not ctx.resilient_parsing:
            from difflib import get_close_matches  # only a mistyped name needs it

            close = get_close_matches(args[0], self.verbs)
            advice = f" Did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"no command {args[0]!r}.{advice}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        completions = [
            _Completion(n, v.help) for n, v in self.verbs.items() if n.startswith(incomplete)
        ]
        return completions or super().shell_complete(ctx, incomplete)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*args, **extra)  # prints the help
        except BrokenPipeError:
            close_output()
            raise typer.Exit(CUT_OFF) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            close_output()
            raise typer.Exit(CUT_OFF) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except typer.BadParameter as error:
            if error.param is not None:  # of one option or argument, which the parser names
                raise
            tell(error.message)
            raise typer.Exit(WRONG_USE) from error
        except (CecError, FileExistsError, FileNotFoundError) as error:
            tell(str(error))
            raise typer.Exit(status_of(error)) from error
        except OSError as error:  # of the output: its disk is full, say
            close_output()
            what = error.strerror or str(error)
            tell(f"the output could not be written: {what}")
            raise typer.Exit(WRONG_USE) from error
