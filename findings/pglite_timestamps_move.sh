#!/usr/bin/env bash
# PGlite 0.5.17 (npm), PostgreSQL in a JavaScript process: a Date that goes into a column of TIMESTAMP, without a zone, and comes out
# again. A guess: it is the same Date, as with TIMESTAMPTZ, whichever zone it was written in: both ways take UTC, or both the process's
# zone.
#
# Seen: a Date is written in UTC and read in the zone of the process (TZ), so in New York noon comes back five hours later (four in
# summer), and each time that a row is read and written again it moves on. In a zone of UTC it stays. DATE and TIMESTAMPTZ are right, and
# texts are as they are in the database.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" @electric-sql/pglite@0.5.17
cat > seen.js <<'JS'
const { PGlite } = require("@electric-sql/pglite");

async function main() {
  const database = new PGlite();
  await database.exec("CREATE TABLE rows (plain TIMESTAMP, zoned TIMESTAMPTZ, day DATE)");
  for (const text of ["2020-01-15T12:00:00.000Z", "2020-07-15T12:00:00.000Z"]) {
    const first = { plain: new Date(text), zoned: new Date(text), day: new Date(text.slice(0, 10)) };
    let written = first;
    for (const turn of ["once", "twice"]) {
      await database.query("DELETE FROM rows");
      await database.query("INSERT INTO rows VALUES ($1, $2, $3)", Object.values(written));
      const { rows: [stored] } = await database.query("SELECT plain::text FROM rows");
      written = (await database.query("SELECT * FROM rows")).rows[0];
      const others = ["zoned", "day"].every((name) => written[name].getTime() === first[name].getTime()) ? "equal" : "other";
      console.log(`${process.env.TZ} ${turn}: stored ${stored.plain}, read ${written.plain.toISOString()}, others ${others}`);
    }
  }
  process.exit(0);
}

main();
JS
{
    grep -m 1 '"version"' node_modules/@electric-sql/pglite/package.json
    TZ=UTC node seen.js
    TZ=America/New_York node seen.js
} | tee seen
diff seen - <<'SEEN'
  "version": "0.5.17",
UTC once: stored 2020-01-15 12:00:00, read 2020-01-15T12:00:00.000Z, others equal
UTC twice: stored 2020-01-15 12:00:00, read 2020-01-15T12:00:00.000Z, others equal
UTC once: stored 2020-07-15 12:00:00, read 2020-07-15T12:00:00.000Z, others equal
UTC twice: stored 2020-07-15 12:00:00, read 2020-07-15T12:00:00.000Z, others equal
America/New_York once: stored 2020-01-15 12:00:00, read 2020-01-15T17:00:00.000Z, others equal
America/New_York twice: stored 2020-01-15 17:00:00, read 2020-01-15T22:00:00.000Z, others equal
America/New_York once: stored 2020-07-15 12:00:00, read 2020-07-15T16:00:00.000Z, others equal
America/New_York twice: stored 2020-07-15 16:00:00, read 2020-07-15T20:00:00.000Z, others equal
SEEN
