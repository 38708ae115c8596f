#!/usr/bin/env bash
# @platformatic/kafka 2.12.1 (npm): the partition of a key by its `defaultPartitioner`, which is murmur2, as in Kafka's Java client. A
# guess: it is that of the Java client, as with kafka-python 3.0.12, aiokafka 0.14.0 and kafkajs 2.2.4, so that topics can be joined.
#
# Seen: it takes 32 bits of the hash and the others 31, so about half of all keys go elsewhere, unless the count of partitions is a power
# of two: with 1, 2, 4 and 8, as tests have them, all agree. Its `compatibilityPartitioner`, which must be asked for, agrees.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check aiokafka==0.14.0 kafka-python==3.0.12
npm install --silent --no-fund --no-audit --prefix "$folder" @platformatic/kafka@2.12.1
npm install --silent --no-fund --no-audit --prefix "$folder" kafkajs@2.2.4
cd "$folder"
cat > partitions.mjs <<'JAVASCRIPT'
import { compatibilityPartitioner, defaultPartitioner } from '@platformatic/kafka';
import kafkajs from 'kafkajs';

const ofKafkajs = kafkajs.Partitioners.DefaultPartitioner();
const partitions = (key, count) => {
  const partitionMetadata = Array.from({ length: count }, (_, partitionId) => ({ partitionId, leader: 0 }));
  const kafkajsPartition = ofKafkajs({ topic: 't', partitionMetadata, message: { key } });
  return [defaultPartitioner({}, key) % count, compatibilityPartitioner({}, key) % count, kafkajsPartition];
};
const keys = Array.from({ length: 1000 }, (_, number) => Buffer.from(`user:${number}`));
console.log(JSON.stringify([8, 12].map((count) => keys.map((key) => partitions(key, count)))));
JAVASCRIPT
node partitions.mjs > partitions.json
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import json
from aiokafka.partitioner import DefaultPartitioner
from kafka.partitioner.default import murmur2

keys = [f"user:{number}".encode() for number in range(1000)]
with open("partitions.json") as file:
    seen = json.load(file)
others = {}
for count, rows in zip((8, 12), seen, strict=True):
    everyone = list(range(count))
    by_java = [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert by_java == [DefaultPartitioner()(key, everyone, everyone) for key in keys]
    assert by_java == [compatible for _, compatible, _ in rows] == [of_kafkajs for _, _, of_kafkajs in rows]
    others[count] = sum(of_platformatic != partition for (of_platformatic, _, _), partition in zip(rows, by_java, strict=True))
print(importlib.metadata.version("kafka-python"), others)
assert others[8] == 0 and 400 < others[12] < 600
PYTHON
