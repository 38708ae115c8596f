"""Programs that answer as Java does."""

import shlex
from pathlib import Path

from cec_store.connectors.spark.setup.java import VECTOR_FLAG


def make_java(home: Path, version: str, *, has_vector: bool = True) -> Path:
    """A `java` that says who it is, and without arguments of ours prints what it was given."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = f'case " $* " in *" {VECTOR_FLAG} "*) echo Module not found; exit 1;; esac'
    program.write_text(
        "#!/bin/sh\n"
        f"{'' if has_vector else refusal}\n"
        'case "$*" in *-version*)\n'
        f"  echo '    java.home = '{shlex.quote(str(home))}\n"
        f"  echo '    java.specification.version = {version}'; exit;;\n"
        "esac\n"
        'printf "<%s>" "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program
