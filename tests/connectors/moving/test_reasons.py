"""What Spark's errors say, taken out of Py4J's words and stacks."""

import pytest

from cec_store.connectors.spark.moving.state_job import job_error, reason_of
from cec_store.errors import CorruptLog, SparkUnavailable

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


@pytest.mark.parametrize(
    ("why", "is_damage"),
    [
        ("org.apache.spark.SparkException: Job 3 cancelled as part of cancellation", False),
        ("ExecutorLostFailure (executor 1 exited): Remote RPC client disassociated", False),
        ("java.lang.OutOfMemoryError: Java heap space", False),
        ("java.io.IOException: No space left on device", False),
        ("java.nio.file.AccessDeniedException: s3a://bucket/new/x: putObject 403 Forbidden", False),
        (
            "org.apache.hadoop.security.AccessControlException: Permission denied: access=WRITE",
            False,
        ),
        ("java.io.FileNotFoundException: /new/x (Permission denied)", False),
        ("java.net.ConnectException: Connection refused", False),
        ("java.nio.file.FileSystemException: /new/x: Too many open files", False),
        ("java.io.IOException: Disk quota exceeded", False),
        ("java.io.EOFException: Cannot read the file", True),
    ],
)
def test_a_job_that_failed_by_itself_tells_of_no_damage(why: str, is_damage: bool) -> None:
    found = job_error("/c", "Spark cannot read its state", Exception(f"{CALL}: {why}\n{STACK}"))
    assert type(found) is (CorruptLog if is_damage else SparkUnavailable)
    assert why in str(found)
