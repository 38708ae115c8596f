"""Which source and sink `register` takes: the jar's where it can, and else those in Python."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.setup import session as setup
from cec_store.connectors.spark.setup.settings import DATA_SOURCE, PROVIDER, PUSHDOWN_KEY
from cec_store.errors import SparkUnavailable

pytest.importorskip("pyspark")


class Session:
    """As much of one as is asked."""

    def __init__(self, *loadable: str) -> None:
        self.names: list[str] = []
        self.settings: dict[str, str] = {}
        self._jsparkSession = object()
        utils = SimpleNamespace(classIsLoadable=lambda name: name in loadable)
        spark = SimpleNamespace(util=SimpleNamespace(Utils=utils))
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark)))
        self.dataSource = SimpleNamespace(register=lambda kind: self.names.append(kind.name()))
        self.conf = SimpleNamespace(set=self.settings.__setitem__)


class Client:
    """Of a server that knows the source, or does not."""

    def __init__(self, condition: str) -> None:
        self.names: list[str] = []
        self._condition = condition
        self.dataSource = SimpleNamespace(register=lambda kind: self.names.append(kind.name()))
        self.conf = SimpleNamespace(set=lambda name, value: None)

    @property
    def read(self) -> Any:
        from pyspark.errors import PySparkException

        def load() -> Any:
            raise PySparkException("as a server says it", errorClass=self._condition)

        return SimpleNamespace(format=lambda name: SimpleNamespace(load=load))


def test_the_source_of_a_jar_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "compiled_jar", None)  # is not asked for
    session = Session(PROVIDER, DATA_SOURCE)
    cec_spark.register(session)
    # Spark refuses a source in Python by the name of one of a jar.
    assert session.names == ["cec_python"]
    assert session.settings == {PUSHDOWN_KEY: "true"}


def test_without_a_jar_the_source_is_the_one_in_python(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_java(variables: object) -> None:
        raise SparkUnavailable("no Java")

    monkeypatch.setattr(setup, "compiled_jar", no_java)
    session = Session()
    with caplog.at_level(logging.WARNING, "cec_store"):
        cec_spark.register(session)
    assert session.names == ["cec", "cec_python"]
    assert "no Java" in caplog.text


def test_an_older_jar_is_not_mixed_with_this_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(setup, "compiled_jar", None)
    session = Session(PROVIDER)
    with caplog.at_level(logging.WARNING, "cec_store"):
        cec_spark.register(session)
    assert session.names == ["cec", "cec_python"]
    assert "an older jar of cec-store" in caplog.text


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("PYTHON_DATA_SOURCE_ERROR", ["cec_python"]),
        ("DATA_SOURCE_NOT_FOUND", ["cec", "cec_python"]),
    ],
)
def test_a_server_of_spark_connect_is_asked(condition: str, names: list[str]) -> None:
    client = Client(condition)
    cec_spark.register(client)
    assert client.names == names


def test_a_file_of_a_pipeline_may_not_change_its_session_and_still_registers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from pyspark.errors import PySparkException

    def refuse(condition: str) -> Any:
        def change(name: str, value: str) -> None:
            raise PySparkException("as a pipeline says it", errorClass=condition)

        return SimpleNamespace(set=change)

    session = Session(PROVIDER, DATA_SOURCE)
    session.conf = refuse("SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF")
    with caplog.at_level(logging.INFO, "cec_store"):
        cec_spark.register(session)
    assert session.names == ["cec_python"]
    assert PUSHDOWN_KEY in caplog.text
    session.conf = refuse("CANNOT_MODIFY_CONFIG")
    with pytest.raises(PySparkException, match="as a pipeline says it"):
        cec_spark.register(session)
