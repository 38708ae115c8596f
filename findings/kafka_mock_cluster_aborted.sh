#!/usr/bin/env bash
# confluent-kafka 2.16.1 has librdkafka's mock cluster (`test.mock.num.brokers`), for tests without a broker; it takes transactions. A
# guess: a consumer with `isolation.level=read_committed` does not see those that were aborted, and times have offsets.
#
# Seen: it sees all of them, so a test of exactly-once output finds what was never committed (or passes for the wrong reason);
# `offsets_for_times` says "at the end" for every time, without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check confluent-kafka==2.16.1
"$folder/venv/bin/python" - <<'PYTHON'
import confluent_kafka
from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

quiet = {"log_level": 0}
cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", **quiet})
brokers = cluster.list_topics(timeout=30).brokers.values()
address = {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in brokers), **quiet}


def transaction(name, commit):
    producer = Producer({**address, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("rows", name.encode(), partition=0, timestamp=1000)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


transaction("aborted", False)
transaction("committed", True)
consumer = Consumer({**address, "group.id": "g", "isolation.level": "read_committed", "enable.partition.eof": True})
consumer.assign([TopicPartition("rows", 0, 0)])
seen = []
while (message := consumer.poll(30)) is not None:
    if message.error():
        assert message.error().code() == KafkaError._PARTITION_EOF
        break
    seen.append((message.value().decode(), message.timestamp()[1]))
times = [consumer.offsets_for_times([TopicPartition("rows", 0, time)], timeout=30)[0] for time in (0, 1000)]
consumer.close()
print(confluent_kafka.libversion()[0], seen, times)
assert seen == [("aborted", 1000), ("committed", 1000)]
assert [(time.offset, time.error) for time in times] == [(OFFSET_END, None)] * 2
PYTHON
