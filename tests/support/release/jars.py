"""Jars of the provider for several Sparks, with their sources: `make wheel` and `make release`."""

from __future__ import annotations

import argparse
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import (
    Spark,
    compile_jar,
    jar_name,
    sources_key,
)
from cec_store.connectors.spark.setup.java import find_java
from cec_store.connectors.spark.setup.sides import sources_for
from support.paths import ROOT
from support.release.sparks import SPARKS, distribution

DISTRIBUTIONS = ROOT / "build" / "sparks"
_DOS_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources make the same archive


@dataclass(frozen=True)
class Jar:
    """A compiled jar of one Spark, and an archive of the Scala sources that went into it."""

    spark: str
    path: Path
    sources: Path


def built(checkout: Path, into: Path, sources: Path, sparks: Iterable[str]) -> list[Jar]:
    """Compile the Scala of a checkout for each Spark, into folders that are emptied first.

    Archives of sources have a folder of their own, because a wheel takes all jars of ``into``.

    Raises:
        CompilationFailed: with the compiler's own message.
    """
    for folder in (into, sources):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    scala = checkout / "connectors" / "spark" / "scala"
    jars = []
    for version in sparks:
        spark = distribution(version, DISTRIBUTIONS)
        path = into / jar_name(spark)
        print(f"compiling {path.name}", flush=True)
        path.write_bytes(compile_jar(spark, find_java(), scala))
        jars.append(Jar(version, path, sources / f"{path.stem}-sources.jar"))
        pack_sources(spark, scala, checkout / "LICENSE", jars[-1].sources)
    return jars


def pack_sources(spark: Spark, scala: Path, license_file: Path, into: Path) -> None:
    """Pack the sources that this Spark takes, by their paths below the folder of Scala sources."""
    files = sources_for(spark.jars, scala, sorted(scala.rglob("*.scala")))
    entries = {"META-INF/LICENSE": license_file}
    entries |= {path.relative_to(scala).as_posix(): path for path in files}
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in entries.items():
            archive.writestr(
                zipfile.ZipInfo(name, _DOS_EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED
            )


def faults(jar: Jar, scala: Path) -> list[str]:
    """Return what is wrong with a jar: it is damaged, or made from other sources or for another."""
    with zipfile.ZipFile(jar.path) as archive:
        if (damaged := archive.testzip()) is not None:
            return [f"{jar.path.name}: {damaged} is damaged"]
        manifest = archive.read("META-INF/MANIFEST.MF").decode().splitlines()
    expected = (
        f"Cec-Store-Spark: {jar.spark}",
        f"Cec-Store-Key: {sources_key(scala, find_java())}",
    )
    return [f"{jar.path.name}: no {line!r}" for line in expected if line not in manifest]


def main() -> None:
    """Fill `connectors/spark/jars`, from which a wheel takes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sparks", nargs="+", choices=SPARKS, default=SPARKS)
    into = ROOT / "connectors" / "spark" / "jars"
    built(ROOT, into, ROOT / "build" / "sources-jars", parser.parse_args().sparks)


if __name__ == "__main__":
    main()
