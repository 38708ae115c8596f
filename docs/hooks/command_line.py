"""The page with every verb and option, written by typer from the program itself."""

from typing import Any

import typer
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from cec_store.cli import app

_HEAD = """# The command line, every option

Made from the program, as `cec-store VERB --help` prints it. [What they do](../cli.md)
has more to say.

"""


def command_line() -> str:
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="cec-store")
    text = get_docs_for_click(obj=command, ctx=context, name="cec-store", title=" ")
    return _HEAD + text.partition("\n")[2]


def on_files(files: Files, *, config: Any) -> Files:
    files.append(File.generated(config, "reference/command-line.md", content=command_line()))
    return files
