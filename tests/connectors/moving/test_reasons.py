"""What Spark's errors say, taken out of Py4J's words and stacks."""

from cec_store.connectors.spark.moving.state_job import reason_of

CALL = "An error occurred while calling z:org.apache.spark.sql.cecstore.moving.Moving.check.\n"
STACK = "\tat org.apache.spark.sql.Some.method(Some.scala:12)\n"


def test_the_reason_is_that_of_the_jvm_and_not_of_the_call() -> None:
    why = "java.io.FileNotFoundException: File file:/c/state/0/_metadata does not exist"
    assert reason_of(Exception(f"{CALL}: {why}\n{STACK}{STACK}")) == why
    wrapped = f"{CALL}: java.lang.RuntimeException: outer\n{STACK}Caused by: {why}\n{STACK}"
    assert reason_of(Exception(wrapped)) == why
    assert reason_of(Exception("[PATH_NOT_FOUND] Path does not exist: file:/c.")) == (
        "[PATH_NOT_FOUND] Path does not exist: file:/c."
    )
    assert reason_of(ValueError()) == "ValueError"
