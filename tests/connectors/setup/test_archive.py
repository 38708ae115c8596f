"""What the JVMs of tests are told."""

import subprocess

import pytest

from cec_store.connectors.spark.setup.java import find_java
from support.spark import archive

pytestmark = pytest.mark.spark


def test_a_session_of_many_tests_has_room_for_its_code() -> None:
    """It had 48 MiB, the default with one compiler. Filled, Spark's classes no longer load."""
    command = [str(find_java().executable), *archive.submit_options().split()]
    done = subprocess.run(
        [*command, "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    flags = {
        words[1]: words[3] for line in done.stdout.splitlines() if len(words := line.split()) > 3
    }
    assert int(flags["ReservedCodeCacheSize"]) >= 200 << 20
