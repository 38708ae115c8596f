"""The jar with the state store provider and the queues: carried by the wheel, or compiled on use.

The Scala compiler is a part of pyspark. A jar belongs to one version of Spark and one state of the
sources; both are in its name in the cache, and in the manifest of the one that a wheel carries.
"""

from __future__ import annotations

import logging
import re
import tempfile
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from cec_store.connectors.spark.setup.environment import (
    VARIABLES,
    Variables,
    cache_folder,
    publish,
    run_program,
)
from cec_store.connectors.spark.setup.java import JAVA_NEEDED, Java, find_java
from cec_store.connectors.spark.setup.settings import DATA_SOURCE, EXTENSION
from cec_store.connectors.spark.setup.sides import sources_for
from cec_store.errors import CompilationFailed, SparkUnavailable

_HERE = Path(__file__).resolve().parent.parent
SOURCES = _HERE / "scala"
CARRIED = _HERE / "jars"
KNOWN_TO_COMPILE = "4.0 to 4.3"
SCALA = "2.13"
"""Scala that every Spark 4 is built with, and that a jar's name therefore has."""
GROUP = "io.github.cec-store"
"""Group of our artifacts in a Maven repository."""
_MANIFEST = "META-INF/MANIFEST.MF"
_COMPILER_PARTS = ("scala-compiler", "scala-library", "scala-reflect")
# Half the time of a JVM that optimises: it lives for a few seconds only.
_JVM_FLAGS = ("-Xmx1g", "-Xss4m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_COMPILE_TIMEOUT_S = 600
COMPILATION_S = 10
"""Seconds that compiling takes on two cores, for people who wait for it."""
_OF_INNER_CLASSES = ("transforms", "moving")
"""The rooms of Scala that build on inner classes of Spark: one that has others does without."""
_MESSAGE_CHARACTERS = 4_000
_DOS_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same classes make the same jar
_SOURCES_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
"""File of a jar in which Spark looks for the short names of data sources."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spark:
    """An installed Spark, by its folder of jars."""

    jars: Path
    version: str


def find_spark(variables: Variables = VARIABLES) -> Spark:
    """The Spark that pyspark would start: `SPARK_HOME`, or the one inside the package.

    Raises:
        SparkUnavailable: none is installed, it has no jars, or it is no Spark 4.
    """
    spec = find_spec("pyspark")
    package = Path(spec.origin).parent if spec and spec.origin else None
    told = variables.get("SPARK_HOME")
    homes = [Path(told)] if told else [package / "spark-distribution", package] if package else []
    for home in homes:
        for core in sorted((home / "jars").glob("spark-core_*.jar")):
            version = core.stem.partition("_")[2].partition("-")[2]
            if not version.startswith("4."):
                raise SparkUnavailable(
                    f"{home} is Spark {version}; the state store provider needs Spark 4"
                )
            return Spark(home / "jars", version)
    if not homes:
        raise SparkUnavailable("pyspark is not installed: pip install 'cec-store[spark]'")
    raise SparkUnavailable(
        f"{homes[-1]} has no jars/spark-core_*.jar"
        + (": SPARK_HOME points to no Spark" if told else ": a client-only pyspark has no Spark")
    )


def _scala_files(sources: Path) -> list[Path]:
    files = sorted(sources.rglob("*.scala"))
    if not files:
        raise CompilationFailed(f"{sources} holds no Scala source: the installation is incomplete")
    return files


def sources_key(sources: Path, java: Java | None = None) -> str:
    """Changes with any source, with the folder it is in, and with how it is compiled."""
    digest = sha256(" ".join((*_target_flags(java), _SOURCES_SERVICE)).encode())
    for file in _scala_files(sources):
        data = file.read_bytes()
        name = file.relative_to(sources).as_posix()
        digest.update(f"\0{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:32]


def _target_flags(java: Java | None) -> tuple[str, ...]:
    if java is None or java.knows_older_releases:
        return ("-release", str(JAVA_NEEDED))
    # Without signatures of Java 17 the calls are checked against those of the runtime at hand.
    return (f"-target:{JAVA_NEEDED}",)


def jar(
    variables: Variables = VARIABLES, *, sources: Path = SOURCES, carried: Path = CARRIED
) -> Path:
    """The provider's jar for the installed Spark; compiled if there is none yet (some seconds).

    A line in the log says that it is compiled, because the caller waits for it.

    Raises:
        SparkUnavailable: no Spark 4, or no Java 17 or newer to compile with.
        CompilationFailed: with the compiler's own message.
    """
    place = jar_place(variables, sources=sources, carried=carried)
    if not place.exists():
        spark = find_spark(variables)
        _log.warning(
            "compiling cec-store's jar, once for Spark %s: about %d s",
            spark.version,
            COMPILATION_S,
        )
        publish(place, compile_jar(spark, find_java(variables), sources))
    return place


def jar_place(
    variables: Variables = VARIABLES, *, sources: Path = SOURCES, carried: Path = CARRIED
) -> Path:
    """Path of the jar for the installed Spark; it is not there before it was compiled.

    Raises:
        SparkUnavailable: no Spark 4; or no Java 17 or newer, and no wheel carries the jar.
    """
    spark = find_spark(variables)
    name = jar_name(spark)
    wheels = carried / name
    if _recorded_key(wheels) == sources_key(sources):
        return wheels
    key = sources_key(sources, find_java(variables))
    return cache_folder(variables) / spark.version / key / name


def copy_jar(folder: Path, variables: Variables = VARIABLES) -> Path:
    """The provider's jar under its own name in another folder: a wheel's, or an image's."""
    jar_path = jar(variables)
    return publish(folder / jar_path.name, jar_path.read_bytes())


def jar_name(spark: Spark) -> str:
    """Name with the versions of Spark, of Scala and of this release, as Maven's artifacts have."""
    return f"{artifact(spark.version)}-{release()}.jar"


def artifact(spark_version: str) -> str:
    """Name of the jar's artifact in a Maven repository, which is for this one release of Spark."""
    return f"cec-store-spark-{spark_version}_{SCALA}"


def coordinates(spark_version: str) -> str:
    """Group, artifact and version, as `spark-submit --packages` takes them."""
    return f"{GROUP}:{artifact(spark_version)}:{release()}"


def release() -> str:
    """Version of the installed package; "unknown" where only its files are there."""
    try:
        return version("cec-store")
    except PackageNotFoundError:
        return "unknown"


def compile_jar(spark: Spark, java: Java, sources: Path = SOURCES) -> bytes:
    """Compile all Scala sources against this Spark and pack what comes out.

    What builds on Spark's inner classes is left out where these are others; a warning says so.

    Raises:
        CompilationFailed: with the compiler's own message.
        SparkUnavailable: this Spark lacks the compiler.
    """
    compiler = _compiler_jars(spark)
    files = sources_for(spark.jars, sources, _scala_files(sources))
    try:
        classes = _compiled(spark, java, compiler, files)
    except CompilationFailed as error:
        rest = [
            file for file in files if file.relative_to(sources).parts[0] not in _OF_INNER_CLASSES
        ]
        # A compiler that did not come to its end says nothing of what Spark has.
        if len(rest) == len(files) or error.__cause__ is not None:
            raise
        classes = _compiled(spark, java, compiler, rest)
        _log.warning(
            "Spark %s has other inner classes: what lets transformWithState run on cec-store, what "
            "spares batches with a watermark from reading all of their state, and what moves "
            "checkpoints to it, does not compile against it: %s",
            spark.version,
            error,
        )
    return _packed(spark, sources_key(sources, java), classes)


def _compiled(
    spark: Spark, java: Java, compiler: list[Path], files: list[Path]
) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="cec-store-scala-") as folder:
        command: list[str | Path] = [
            java.executable, *_JVM_FLAGS,
            "-cp", ":".join(map(str, compiler)), "scala.tools.nsc.Main",
            *_target_flags(java), "-nowarn", "-deprecation",
            "-classpath", ":".join(sorted(map(str, spark.jars.glob("*.jar")))),
            "-d", folder, *files,
        ]  # fmt: skip
        try:
            status, text = run_program(command, _COMPILE_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise CompilationFailed(f"the Scala compiler: {error}") from error
        classes = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in Path(folder).rglob("*")
            if path.is_file()
        }
    if status != 0 or not classes:
        message = text.strip()[:_MESSAGE_CHARACTERS]
        raise CompilationFailed(
            f"the provider does not compile against Spark {spark.version}; it is known to do so "
            f"against {KNOWN_TO_COMPILE} (compiler's status {status}):\n{message}"
        )
    return classes


def has_extension(jar_file: Path) -> bool:
    """Return whether the jar has the extension, and warn if not: see `compile_jar`."""
    with zipfile.ZipFile(jar_file) as archive:
        has = f"{EXTENSION.replace('.', '/')}.class" in archive.namelist()
    if not has:
        _log.warning(
            "%s: transformWithState cannot run on cec-store with this Spark, and batches with a "
            "watermark read all of their state",
            jar_file,
        )
    return has


def _compiler_jars(spark: Spark) -> list[Path]:
    jars = [path for part in _COMPILER_PARTS for path in spark.jars.glob(f"{part}-{SCALA}.*.jar")]
    if len(jars) != len(_COMPILER_PARTS):
        raise SparkUnavailable(
            f"{spark.jars} lacks the Scala {SCALA} compiler that Spark 4 carries: "
            f"{', '.join(_COMPILER_PARTS)}"
        )
    return jars


def _packed(spark: Spark, key: str, classes: dict[str, bytes]) -> bytes:
    manifest = f"Manifest-Version: 1.0\r\nCec-Store-Spark: {spark.version}\r\nCec-Store-Key: {key}"
    entries = {_MANIFEST: f"{manifest}\r\n\r\n".encode()}
    if f"{DATA_SOURCE.replace('.', '/')}.class" in classes:
        entries[_SOURCES_SERVICE] = f"{DATA_SOURCE}\n".encode()
    entries |= sorted(classes.items())
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, _DOS_EPOCH), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def _recorded_key(path: Path) -> str | None:
    """Return the key of the sources of a wheel's jar; None without a readable jar of ours."""
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = archive.read(_MANIFEST).decode(errors="replace")
    except (zipfile.BadZipFile, KeyError, OSError):
        return None  # damaged or not ours: it is compiled anew
    match = re.search(r"^Cec-Store-Key: (\w+)\r?$", manifest, re.MULTILINE)
    return match[1] if match else None
