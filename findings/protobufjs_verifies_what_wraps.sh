#!/usr/bin/env bash
# protobufjs 8.8.1 (npm): `verify`, which is documented to tell whether a plain object is a valid message, before `encode`. A guess: a
# number that the field's type cannot hold is not valid, as 1.5 and a text are not for an int32 (protobuf for Python refuses it).
#
# Seen: any integer is valid, and `encode` keeps its lowest bits: 2^32 + 1 in an int32 or fixed32 is 1, 2^32 in a uint32 and 2^64 in an
# int64 are 0, -1 in a uint64 is 2^64 - 1. A BigInt is refused by `verify`, and `encode` writes 0 for it without an error, while
# `fromObject` takes it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" protobufjs@8.8.1
cat > seen.js <<'JS'
const protobuf = require("protobufjs");
console.log(require("protobufjs/package.json").version);
const source = 'syntax = "proto3"; message M { int32 i = 1; uint32 u = 2; fixed32 f = 3; sint32 s = 4; int64 l = 5; uint64 g = 6; }';
const M = protobuf.parse(source).root.lookupType("M");
const again = (message) => M.toObject(M.decode(M.encode(message).finish()), { longs: String, defaults: true });
const messages = [
  { i: 1.5 }, { i: "5" }, { i: 2 ** 31 }, { i: 2 ** 32 + 1 }, { u: -1 }, { u: 2 ** 32 }, { f: 2 ** 32 + 1 }, { s: 2 ** 31 },
  { l: 2 ** 63 }, { l: 2 ** 64 }, { g: -1 }, { l: 5n },
];
for (const message of messages) {
  const [[name, value]] = Object.entries(message);
  console.log(`${name} = ${value}: ${M.verify(message) ?? "valid"}, encoded as ${again(message)[name]}`);
}
console.log(`fromObject of a BigInt: ${again(M.fromObject({ l: 5n })).l}`);
JS
node seen.js | tee seen
diff seen - <<'SEEN'
8.8.1
i = 1.5: i: integer expected, encoded as 1
i = 5: i: integer expected, encoded as 5
i = 2147483648: valid, encoded as -2147483648
i = 4294967297: valid, encoded as 1
u = -1: valid, encoded as 4294967295
u = 4294967296: valid, encoded as 0
f = 4294967297: valid, encoded as 1
s = 2147483648: valid, encoded as -2147483648
l = 9223372036854776000: valid, encoded as -9223372036854775808
l = 18446744073709552000: valid, encoded as 0
g = -1: valid, encoded as 18446744073709551615
l = 5: l: integer|Long expected, encoded as 0
fromObject of a BigInt: 5
SEEN
