#!/usr/bin/env bash
# aedes 1.2.0 (npm), an MQTT broker, with mqtt 5.16.0 as its client: a client whose subscriptions overlap, in a session that outlives the
# connection. MQTT lets a broker send one copy or one for each subscription, and asks for the highest of their qualities. A guess: the
# copies are the same, and of that quality, whether the client is connected or comes back.
#
# Seen: they are not. Of `t/#` and `t/a`, both of quality 1, a connected client gets one copy and one that comes back gets two. Of `t/#`
# with 0 and `t/+` with 1 a connected client gets one copy of quality 0, which nobody acknowledges, in spite of what was granted, and one
# that comes back a copy of quality 1. So readings are counted twice or lost, depending on the network.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" aedes@1.2.0 mqtt@5.16.0
cat > seen.js <<'JS'
const fs = require("fs");
const net = require("net");
const { Aedes } = require("aedes");
const mqtt = require("mqtt");
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function main() {
  const broker = await Aedes.createBroker();
  const server = net.createServer(broker.handle);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `mqtt://127.0.0.1:${server.address().port}`;
  const publisher = await mqtt.connectAsync(url);
  const version = (name) => `${name} ${JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`)).version}`;
  console.log(version("aedes"), version("mqtt"));

  async function session(clientId, seen, work) {
    const client = mqtt.connect(url, { clientId, clean: false, reconnectPeriod: 0 });
    client.on("message", (topic, message, packet) => seen.push(`${message} (${packet.qos})`));
    await new Promise((resolve) => client.on("connect", resolve));
    await work(client);
    await pause(1000);
    await client.endAsync();
  }

  const cases = [[["t/#", 1]], [["t/#", 1], ["t/a", 1]], [["t/#", 0], ["t/+", 1]]];
  for (const [number, subscriptions] of cases.entries()) {
    const seen = [];
    const granted = [];
    await session(`client${number}`, seen, async (client) => {
      for (const [topic, qos] of subscriptions) {
        granted.push(...(await client.subscribeAsync(topic, { qos })).map((grant) => `${grant.topic} with ${grant.qos}`));
      }
      await publisher.publishAsync("t/a", "connected", { qos: 1 });
    });
    await publisher.publishAsync("t/a", "away", { qos: 1 });
    await session(`client${number}`, seen, async () => {});
    console.log(`${granted.join(", ")}: ${seen.join(", ")}`);
  }
  process.exit(0);
}

main();
JS
node seen.js | tee seen
diff seen - <<'SEEN'
aedes 1.2.0 mqtt 5.16.0
t/# with 1: connected (1), away (1)
t/# with 1, t/a with 1: connected (1), away (1), away (1)
t/# with 0, t/+ with 1: connected (0), away (1)
SEEN
