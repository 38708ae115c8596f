"use strict";
/* Puts a cluster's data on its page: who owns what, who could take over, what moved. */

const report = JSON.parse(document.getElementById("data").textContent);
const { executors, partitions, moves, totals } = report;
const MIB = 1 << 20;

function header() {
  at("path").textContent = text.safe(report.application);
  at("about").textContent = `state on ${text.count(totals.executors, "executor")} of application ${text.safe(report.application_id)}` +
    ` · as it was at ${text.moment(report.taken_us)}`;
}

function whoever(takeover) {
  if (!takeover) return "anybody, who loads all of it";
  const lag = takeover.lag_versions;
  return `${text.safe(takeover.executor)}, ${lag ? `after ${text.count(lag, "version")}` : "at once"}`;
}

function verdict() {
  const box = at("sound"), bare = totals.partitions - totals.covered;
  made("div", text.safe(report.summary), box, { class: !totals.partitions ? "verdict" : bare ? "verdict bad" : "verdict good" });
  if (report.shortage) made("p", text.safe(report.shortage), box);
  const trouble = partitions.flatMap((each) => each.replicas.filter((one) => one.state !== "warm").map((one) => [each, one]));
  if (!trouble.length) return;
  const list = made("ul", null, box, { class: "faults" });
  for (const [each, one] of trouble.slice(0, 20))
    made("li", text.safe(`${each.query}, operator ${each.operator}, partition ${each.partition}: the replica on executor ` +
      `${one.executor_id} is ${one.state.replace("_", " ")}${one.reason ? `: ${one.reason}` : ""}`), list);
  if (trouble.length > 20) made("li", `and ${text.whole(trouble.length - 20)} more; the table below has all`, list);
}

function tiles() {
  const tile = tilesIn("tiles");
  tile("executors", text.whole(totals.executors), leaving());
  tile("partitions", text.whole(totals.partitions), totals.without_owner ? `${text.whole(totals.without_owner)} without an owner` : "");
  tile("rows of state", text.whole(totals.rows));
  tile("state", text.bytes(totals.state_bytes), "in memory");
  tile("replicas", text.bytes(totals.replica_bytes), totals.state_bytes ? `${text.percent(totals.replica_bytes / totals.state_bytes)} of the state` : "");
  tile("moves", text.whole(totals.moves_done), [[totals.moves_failed, "failed"], [totals.moves_running, "under way"]]
    .filter(([n]) => n).map(([n, name]) => `${text.whole(n)} ${name}`).join(", "));
}

function leaving() {
  const count = executors.filter((each) => each.is_leaving).length;
  return count ? `${text.whole(count)} of them leave` : "";
}

/* -- plots -------------------------------------------------------------------------------------- */

const redraws = [];

function figure(id, section, title, what, config) {
  const box = made("figure", null, at(section), { class: "wide", id: `plot-${id}` });
  made("h3", title, made("figcaption", null, box));
  made("p", what, box, { class: "soft" });
  if (!config) return box;
  const frame = made("div", null, box, { class: "plot" });
  const canvas = made("canvas", null, frame, { role: "img", "aria-label": `${title}. The numbers are in the table below.` });
  let chart = null;
  redraws.push(() => {
    chart?.destroy();
    const look = lookNow(), { type, datasets, labels, scales } = config(look);
    chart = new Chart(canvas, { type, data: { labels, datasets }, options: {
      animation: false, responsive: true, maintainAspectRatio: false, scales,
      plugins: { legend: { position: "top", align: "start", labels: { color: look.colour("text"), boxWidth: 12, boxHeight: 12 } } },
    } });
  });
  return box;
}

function owners() {
  const mib = (bytes) => bytes / MIB;
  const box = figure("owners", "owners", "State and replicas on each executor", "What its own partitions hold in memory, and the replicas of others that it keeps.",
    (look) => ({
      type: "bar", labels: executors.map((each) => `executor ${text.safe(each.executor)}`),
      datasets: [
        { label: "own state", data: executors.map((each) => mib(each.owned_bytes)), ...look.bar("blue") },
        { label: "replicas", data: executors.map((each) => mib(each.replica_bytes)), ...look.bar("teal") },
      ],
      scales: { x: { ...look.axis(""), stacked: true }, y: { ...look.axis("MiB", text.short), stacked: true, beginAtZero: true } },
    }));
  const columns = ["executor", "host", "owns", "rows", "state", "replicas", "of these warm", "their memory", "of at most"];
  table(box, "Executors", { columns, texts: [0, 1], rows: executors.map((each) => [`${text.safe(each.executor)}${each.is_leaving ? " (leaves)" : ""}`,
    text.safe(each.host), text.whole(each.owns), text.whole(each.owned_rows), text.bytes(each.owned_bytes), text.whole(each.replicas),
    text.whole(each.warm_replicas), text.bytes(each.replica_bytes), text.bytes(each.replica_bytes_max)]) }, true);
}

function takeovers() {
  if (!partitions.length) return;
  const box = figure("takeover", "takeover", "Partitions", "A warm replica reads only the versions that it lacks." +
    (partitions[0].cold_load_us === null ? "" : " A load without one is estimated by those that there were."));
  const columns = ["query", "operator", "partition", "version", "rows", "state", "owner", "takeover by", "without a replica", "replicas"];
  table(box, "Partitions", { columns, texts: [0, 6, 7, 9], rows: partitions.map((each) => [text.safe(each.query), text.whole(each.operator),
    text.whole(each.partition), text.whole(each.version), text.whole(each.rows), text.bytes(each.state_bytes), each.owner === null ? "gone" : text.safe(each.owner),
    whoever(each.takeover), each.cold_load_us === null ? "not measured" : `about ${text.duration(each.cold_load_us)}`,
    each.replicas.map((one) => text.safe(`${one.executor_id}: ${one.state.replace("_", " ")}`)).join(", ") + (each.is_placed ? " (placed)" : "")]) }, true);
}

function came(isFromReplica) { return isFromReplica ? "from a replica" : "from the log"; }

function costs() {
  if (!moves.length) return void made("p", "Nothing has moved on purpose.", at("moves"), { class: "wide" });
  const done = moves.filter((each) => each.state === "done");
  const summary = figure("costs", "moves", "What moves cost", "The first batch on the new owner waits for what it reads; the whole move, " +
    "with the making of a replica where there was none, goes on beside the batches.", done.length ? (look) => ({
    type: "scatter",
    datasets: [[true, "teal"], [false, "orange"]].map(([isFromReplica, colour]) => ({
      label: came(isFromReplica), backgroundColor: look.colour(colour), pointRadius: 4,
      data: done.filter((each) => each.is_from_replica === isFromReplica).map((each) => ({ x: each.number, y: each.load_us / 1e3 })) })),
    scales: { x: { ...look.axis("number of the move"), ticks: { ...look.ticks, precision: 0 } }, y: { ...look.axis("read before the batch, ms", text.short), beginAtZero: true } },
  }) : null);
  if (report.costs.length) table(summary, "What moves cost", { columns: ["protocol", "state came", "moves", "records read", "a batch waited (median)", "at most", "in all (median)"],
    texts: [0, 1], rows: report.costs.map((each) => [text.safe(each.protocol), came(each.is_from_replica), text.whole(each.moves), text.whole(each.records_read),
      text.duration(each.load_us_median), text.duration(each.load_us_max), text.duration(each.took_us_median)]) }, true);
  const box = figure("moved", "moves", "Moves", "The newest first; the driver keeps the last 1,000.");
  const columns = ["ordered", "query", "operator", "partition", "from", "to", "protocol", "state", "records read", "a batch waited", "in all", "why"];
  table(box, "Moves", { columns, texts: [1, 7, 11], rows: [...moves].reverse().map((each) => [text.moment(each.ordered_us), text.safe(each.query),
    text.whole(each.operator), text.whole(each.partition), each.from === null ? "gone" : text.safe(each.from), text.safe(each.to), text.safe(each.protocol),
    `${each.state.replace("_", " ")}${each.state === "done" ? ` ${came(each.is_from_replica)}` : ""}`, text.whole(each.records_read),
    text.duration(each.load_us), each.took_us === null ? "–" : text.duration(each.took_us), text.safe(each.reason)]) }, true);
}

function happened() {
  if (!report.events.length) return void made("p", "Nothing has happened yet.", at("events"), { class: "wide" });
  const box = figure("events", "events", "Events", "The newest first, as the driver has seen them; it keeps the last 2,000.");
  const columns = ["when", "what", "query", "operator", "partition", "executor", "from", "move", "why"];
  table(box, "Events", { columns, texts: [1, 2, 5, 6, 8], rows: [...report.events].reverse().map((each) => [text.moment(each.at_us),
    text.safe(each.kind.replace("_", " ")), each.partition ? text.safe(each.partition.query) : "", each.partition ? text.whole(each.partition.operator) : "",
    each.partition ? text.whole(each.partition.partition) : "", text.safe(each.executor), each.from === null ? "" : text.safe(each.from),
    each.move === null ? "" : text.whole(each.move), text.safe(each.reason)]) }, true);
}

header();
verdict();
tiles();
owners();
takeovers();
costs();
happened();
at("foot").textContent = `From ${text.safe(report.path)}. cec-store ${report.release} · plots by Chart.js ${Chart.version} · this page loads nothing`;
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
const redraw = () => redraws.forEach((each) => each());
redraw();
document.documentElement.dataset.plots = `${redraws.length}/${redraws.length}`;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
