"use strict";
/* Puts a fleet's data on its page: who runs, who waits for what and until when, what lies in the queues. */

const report = JSON.parse(document.getElementById("data").textContent);
const { queries, queues, totals, checkpoints, outage } = report;
const KINDS = { running: "runs", "held back": "held", paused: "rests", failing: "fails", waiting: "waits", stopped: "rests" };

const nameOf = (path) => text.safe(path.split("/").filter(Boolean).at(-1) ?? path);
const records = (n) => n === null ? "unknown" : text.count(n, "record");
const clock = (us) => text.moment(us).slice(11, 19);

function until(query) {
  return query.arrivals === null ? "–" : query.expected_us === null ? "nobody knows" : text.second(query.expected_us);
}

function header() {
  at("path").textContent = text.safe(report.path);
  at("about").textContent = `fleet · driver ${text.safe(report.driver)} · noted ${text.second(report.written_us)} · looked at ${text.second(report.made_us)}`;
  const broken = queues.filter((each) => each.problem && (each.writer === null || queries.find((query) => query.query === each.writer).batch !== null));
  const bad = broken.length || queries.some((each) => each.state === "failing") || report.driver.startsWith("silent");
  const all = totals.running === totals.queries;
  made("div", text.safe(report.summary), at("sound"), { class: `verdict${bad ? " bad" : all ? " good" : ""}` });
  if (report.message) made("p", text.safe(report.message), at("sound"));
  const failed = queries.filter((each) => each.failures);
  if (!failed.length && !broken.length) return;
  const list = made("ul", null, at("sound"), { class: "faults" });
  for (const each of failed)
    made("li", text.safe(`${each.query} has failed ${each.failures === 1 ? "once" : `${text.whole(each.failures)} times`}: ${each.reason}`), list);
  for (const each of broken) made("li", text.safe(each.problem), list);
}

function tiles() {
  const tile = tilesIn("tiles"), newest = checkpoints.at(-1);
  tile("queries that run", `${text.whole(totals.running)} of ${text.whole(totals.queries)}`,
    [["held_back", "held back"], ["paused", "paused"], ["failing", "failing"], ["waiting", "waiting"], ["stopped", "stopped"]]
      .filter(([name]) => totals[name]).map(([name, said]) => `${text.whole(totals[name])} ${said}`).join(", "));
  tile("executors", text.whole(totals.executors), `${text.count(totals.cores, "core")}${outage ? ` of ${text.number(outage.cores_before)} before the failure` : ""}`);
  tile("queries keep busy", text.count(totals.cores_asked, "core"), "all of them together, as measured or declared");
  tile("still to be read", totals.records_waiting === null ? "unknown" : text.whole(totals.records_waiting), "records, by all queries");
  if (newest) tile("global checkpoint", text.duration(report.made_us - newest.taken_us), `old, number ${text.whole(newest.number)}`);
  else tile("global checkpoint", "none", "was taken yet");
  if (outage) tile("recovers since", text.second(outage.since_us), `${text.count(outage.arrivals_us.length, "executor")} came since`);
}

function figure(section, title, what) {
  const box = made("figure", null, at(section), { class: "wide" });
  made("h3", title, made("figcaption", null, box));
  if (what) made("p", what, box, { class: "soft" });
  return box;
}

/** Sources and sink of a query that are no queues, with their distance from the inputs. */
const outer = (each) => [...each.sources.map((name) => [name, each.level - 1]), ...(each.sink === null ? [] : [[each.sink, each.level + 1]])];

function graph() {
  const nodes = [
    ...queues.map((each) => ({ id: each.path, level: each.level, shape: "queue", kind: each.problem ? "queue broken" : "queue", title: nameOf(each.path), lines: [] })),
    ...queries.flatMap((each) => outer(each).map(([name, level]) => ({ id: `outer ${name}`, level, shape: "queue", kind: "queue", title: text.safe(name), lines: ["no queue"] })))
      .filter((node, place, all) => all.findIndex((other) => other.id === node.id) === place),
    ...queries.map((each) => ({ id: `query ${each.query}`, level: each.level, shape: "query", kind: KINDS[each.state], title: text.safe(each.query),
      lines: [each.expected_us !== null ? `held until ${clock(each.expected_us)}` : each.state,
        each.records_waiting ? `${records(each.records_waiting)} to read` : each.records_waiting === 0 ? "nothing left to read" : ""].filter(Boolean) })),
  ];
  const edges = queries.flatMap((each) => [
    ...[...each.reads, ...each.sources.map((name) => `outer ${name}`)].map((path) => [path, `query ${each.query}`]),
    [`query ${each.query}`, each.sink === null ? each.writes : `outer ${each.sink}`]]);
  drawGraph(figure("graph", "The graph", "Queues are round, queries are boxes; data flows down."), "The graph of queries and queues", nodes, edges);
  const columns = ["query", "state", "waits for", "more executors", "until about", "priority", "cores", "batch", "to read", "oldest since", "reads", "writes"];
  table(figure("graph", "Queries", "Each after those that it reads."), "Queries", { columns, texts: [0, 1, 2, 10, 11], rows: queries.map((each) => [
    text.safe(each.query), each.state, text.safe(each.waits_for), each.arrivals === null ? "–" : text.whole(each.arrivals), until(each), each.priority === null ? "–" : text.whole(each.priority),
    each.cores === null ? "not known" : text.number(each.cores), each.batch === null ? "none" : text.whole(each.batch), records(each.records_waiting),
    each.waiting_since_us === null ? "–" : text.second(each.waiting_since_us), [...each.reads.map(nameOf), ...each.sources.map(text.safe)].join(", "), each.sink === null ? nameOf(each.writes) : text.safe(each.sink)]) }, true);
}

function inQueues() {
  const columns = ["queue", "records", "written in all", "partitions", "written by", "read by", "where"];
  table(figure("queues", "Queues", "Records that are kept, and how many were ever written."), "Queues", { columns, texts: [0, 4, 5, 6], rows: queues.map((each) => [
    nameOf(each.path), each.problem ? "–" : text.whole(each.records), each.problem ? "–" : text.whole(each.end), each.problem ? "–" : text.whole(each.partitions),
    each.writer === null ? "others" : text.safe(each.writer), each.readers.map(text.safe).join(", ") || "nobody in the fleet",
    each.problem ? text.safe(each.problem) : text.safe(each.path)]) }, true);
}

function back() {
  if (!checkpoints.length) return void made("p", "No global checkpoint was taken yet.", at("back"), { class: "wide" });
  const names = queries.map((each) => each.query);
  table(figure("back", "Global checkpoints that are kept", "The last batch of each query inside: rollback and fork go on from there."), "Global checkpoints",
    { columns: ["number", "taken", ...names.map(text.safe)], rows: [...checkpoints].reverse().map((each) => [text.whole(each.number),
      text.second(each.taken_us), ...names.map((name) => each.batches[name] === null || each.batches[name] === undefined ? "anew" : text.whole(each.batches[name]))]) }, true);
}

header();
tiles();
graph();
inQueues();
back();
at("foot").textContent = `cec-store ${report.release} · this page loads nothing`;
