#!/usr/bin/env bash
# confluent-kafka 2.16.1 has librdkafka's mock cluster (`test.mock.num.brokers`), for tests without a broker. A guess: what it acknowledged
# can be consumed while the cluster lives, as from a broker whose retention is a week.
#
# Seen: each partition keeps its last 5 MB. Of 30 messages of 900 kB all are acknowledged, the consumer that asks for offset 0 begins at
# 25 (`auto.offset.reset=earliest`, without an error), and the low watermark is 25.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check confluent-kafka==2.16.1
"$folder/venv/bin/python" - <<'PYTHON'
import confluent_kafka
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

quiet = {"log_level": 0}
cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", **quiet})
brokers = cluster.list_topics(timeout=30).brokers.values()
address = {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in brokers), **quiet}
producer = Producer({**address, "acks": "all", "batch.num.messages": 1})
acknowledged = []
for row in range(30):
    producer.produce("rows", bytes(900_000), partition=0, on_delivery=lambda error, message: acknowledged.append((error, message.offset())))
    producer.flush(30)
consumer = Consumer({**address, "group.id": "g", "auto.offset.reset": "earliest", "enable.partition.eof": True})
consumer.assign([TopicPartition("rows", 0, 0)])
seen = []
while (message := consumer.poll(30)) is not None:
    if message.error():
        assert message.error().code() == KafkaError._PARTITION_EOF
        break
    seen.append(message.offset())
marks = consumer.get_watermark_offsets(TopicPartition("rows", 0), timeout=30)
consumer.close()
print(confluent_kafka.libversion()[0], len(acknowledged), seen, marks)
assert acknowledged == [(None, offset) for offset in range(30)]
assert seen == [25, 26, 27, 28, 29] and marks == (25, 30)
PYTHON
