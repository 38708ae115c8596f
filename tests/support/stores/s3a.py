"""Spark's own client of S3: the jars that it lacks, and settings for a server of this machine."""

from __future__ import annotations

import pytest

from cec_store.connectors.spark.setup.compiler import find_spark
from support.stores.maven import jar


def s3a_jars() -> list[str]:
    if (find_spark().jars / "hadoop-client-api-3.4.1.jar").exists():
        pytest.skip("the Hadoop of Spark 4.0 lacks what this hadoop-aws calls")
    # As hadoop-aws of Spark's Hadoop names them.
    named = [
        ("org.apache.hadoop", "hadoop-aws", "3.5.0"),
        ("software.amazon.awssdk", "bundle", "2.35.4"),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ]
    return [str(jar(*each)) for each in named]


def s3a_settings(address: str) -> dict[str, str]:
    """Of a Spark session. It gives up sooner than by default: who writes has to bear that."""
    said = {
        "endpoint": address,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "id",
        "secret.key": "secret",
        "attempt.maximum": "2",
        "retry.interval": "50ms",
        "retry.limit": "2",
        "retry.throttle.interval": "50ms",
        "retry.throttle.limit": "2",
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in said.items()}
    return {**settings, "spark.jars": ",".join(s3a_jars())}
