"""A Maven repository in a folder: a jar, its sources and its pom for each Spark."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from cec_store.connectors.spark.setup.compiler import GROUP, SCALA, artifact, release
from support.release.jars import Jar

_DEPLOY = "org.apache.maven.plugins:maven-deploy-plugin:3.1.4:deploy-file"
_TIMEOUT_S = 600
_POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>cec-store for Spark {spark}</name>
  <description>{description}</description>
  <url>{url}</url>
  <licenses>
    <license>
      <name>{license}</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
      <distribution>repo</distribution>
    </license>
  </licenses>
  <developers>
    <developer><name>{authors}</name></developer>
  </developers>
  <scm>
    <connection>scm:git:{url}.git</connection>
    <url>{url}</url>
  </scm>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId>
      <artifactId>spark-sql_{scala}</artifactId>
      <version>{spark}</version>
      <scope>provided</scope>
    </dependency>
  </dependencies>
</project>
"""


def pom(spark: str, project: Mapping[str, object]) -> str:
    """Return the pom of one Spark's artifact; ``project`` is that table of pyproject.toml.

    Spark itself is `provided`: what starts the jar has it already.
    """
    urls, authors = project["urls"], project["authors"]
    assert isinstance(urls, Mapping)
    assert isinstance(authors, list)
    facts = {
        "group": GROUP,
        "artifact": artifact(spark),
        "version": release(),
        "spark": spark,
        "scala": SCALA,
        "description": project["description"],
        "url": urls["Source"],
        "license": project["license"],
        "authors": ", ".join(author["name"] for author in authors),
    }
    return _POM.format(**{name: escape(str(fact)) for name, fact in facts.items()})


def deploy(jars: list[Jar], project: Mapping[str, object], repository: Path) -> None:
    """Write a repository with Maven itself, which adds checksums and its own metadata.

    Raises:
        SystemExit: there is no `mvn`, or it failed; its message stands above.
    """
    program = shutil.which("mvn")
    if program is None:
        raise SystemExit("there is no mvn, which writes the Maven repository: install maven")
    for jar in jars:
        with tempfile.TemporaryDirectory() as folder:
            pom_file = Path(folder) / "pom.xml"
            pom_file.write_text(pom(jar.spark, project), encoding="utf-8")
            command = [
                program, "-q", "-B", _DEPLOY, f"-Dfile={jar.path}", f"-Dsources={jar.sources}",
                f"-DpomFile={pom_file}", f"-Durl={repository.resolve().as_uri()}",
                "-DrepositoryId=release",
            ]  # fmt: skip
            if subprocess.run(command, cwd=folder, timeout=_TIMEOUT_S).returncode:
                raise SystemExit(f"{jar.path.name} could not be put into {repository}")


def faults(jars: list[Jar], repository: Path) -> list[str]:
    """Return what a repository lacks, or has otherwise than it was built."""
    lacking = []
    for jar in jars:
        stem = f"{artifact(jar.spark)}-{release()}"
        folder = repository.joinpath(*GROUP.split("."), artifact(jar.spark), release())
        for name in (f"{stem}.jar", f"{stem}-sources.jar", f"{stem}.pom"):
            path = folder / name
            if not path.is_file() or not path.with_name(f"{name}.sha1").is_file():
                lacking.append(f"{path} or its checksum is not there")
        if (folder / f"{stem}.jar").is_file() and not _same(folder / f"{stem}.jar", jar.path):
            lacking.append(f"{stem}.jar is another than that of the wheel")
    return lacking


def _same(path: Path, other: Path) -> bool:
    return path.read_bytes() == other.read_bytes()
