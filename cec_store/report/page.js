"use strict";
/* Puts the report's data on the page. */

const report = JSON.parse(document.getElementById("data").textContent);
report.has_versions = report.kind === "state store" || report.kind === "checkpoint";

/* Upright lines with a word at their top. */
const marks = {
  id: "marks",
  afterDatasetsDraw(chart, _, options) {
    const { ctx, chartArea: area, scales } = chart;
    (options.at || []).forEach(([x, word], row) => {
      const place = scales.x.getPixelForValue(x);
      if (!(place >= area.left && place <= area.right)) return;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--soft");
      ctx.setLineDash([3, 3]);
      ctx.beginPath();
      ctx.moveTo(place, area.top);
      ctx.lineTo(place, area.bottom);
      ctx.stroke();
      ctx.textAlign = place > area.right - 60 ? "right" : "left";
      ctx.fillText(word, place + (ctx.textAlign === "right" ? -4 : 4), area.top + 10 + 14 * row);
      ctx.restore();
    });
  },
};

/* -- the plots of one view ---------------------------------------------------------------------- */

const drawn = new Map();

function draw(plot, view, canvas, choice) {
  drawn.get(plot.id)?.destroy();
  const look = lookNow(), config = plot.chart(view, look, report, choice);
  config.plugins = [marks];
  const plugins = config.options.plugins ?? {};
  config.options = {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: true,
    interaction: { mode: "index", intersect: false, axis: "x" },
    ...config.options,
    plugins: {
      ...plugins,
      legend: { position: "top", align: "start", ...plugins.legend,
        labels: { color: look.colour("text"), boxWidth: 12, boxHeight: 12, usePointStyle: plot.id === "skew" } },
    },
  };
  drawn.set(plot.id, new Chart(canvas, config));
}

function figure(plot, view) {
  const box = made("figure", null, at(sectionOf(plot, report)), { class: plot.isWide ? "wide" : "", id: `plot-${plot.id}` });
  made("h3", plot.title, made("figcaption", null, box));
  made("p", plot.what(view, report), box, { class: "soft" });
  let choice = plot.choices?.find(([name]) => report.logs.some((log) => log[name])) ?? plot.choices?.[0];
  const chooser = plot.choices && made("select", null, box, { "aria-label": `what of ${plot.title}` });
  const frame = made("div", null, box, { class: "plot" });
  const canvas = made("canvas", null, frame, { role: "img", "aria-label": `${plot.title}. The numbers are in the table below.` });
  if (chooser) {
    for (const [name, title] of plot.choices)
      if (report.logs.some((log) => log[name])) made("option", title, chooser, { value: name });
    chooser.value = choice[0];
    chooser.addEventListener("change", () => {
      choice = plot.choices.find(([name]) => name === chooser.value);
      draw(plot, view, canvas, choice);
    });
  }
  const details = made("details", null, box);
  made("summary", "The numbers as a table", details);
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) table(details, plot.title, plot.table(view, report));
  });
  return () => draw(plot, view, canvas, choice);
}

/* The plots that are to be seen, and those of the closed fold, which have no size until it opens. */
let redraws = [], folded = [];

function windowsTable(section, title, what, rows, hasLogs) {
  if (!rows.length) return;
  const box = made("figure", null, at(section), { class: "wide" });
  made("h3", title, made("figcaption", null, box));
  made("p", what, box, { class: "soft" });
  const columns = ["key", ...(hasLogs ? ["log"] : []), "last record", "records back", "changes", "renewals"];
  table(box, title, { columns, texts: hasLogs ? [0, 1] : [0], rows: rows.map((row) => [text.key(row.key), ...(hasLogs ? [text.safe(row.log)] : []),
    text.moment(row.timestamp_us), text.whole(row.records_back), text.whole(row.updates), text.whole(row.renewals)]) }, true);
}

function show(view) {
  for (const chart of drawn.values()) chart.destroy();
  drawn.clear();
  for (const section of ["flow", "cost", "why", "specialists"]) at(section).replaceChildren();
  at("h-cost").textContent = view.open_windows ? "What will a restart cost?" : "How much is there?";
  tiles(view);
  const hasLogs = view.name === "all logs";
  windowsTable("cost", "The oldest keys", "Written last the longest ago, they decide how far back a restart reads. " +
    "“Changes” and “renewals” are records that it meets on the way.", view.windows.oldest, hasLogs);
  windowsTable("specialists", "The windows that fill it", "Those with the most records within the extent.",
    view.windows.busiest.filter((row) => row.updates + row.renewals > 1), hasLogs);
  if (!view.recovery && !report.totals.open_windows)
    made("p", report.sound ? "No operator keeps windows here, so a restart has no state to read."
      : "Damage hides the windows, if an operator keeps any.", at("cost"), { class: "wide" });
  const wanted = PLOTS.filter((plot) => plot.has(view, report));
  redraws = [], folded = [];
  for (const plot of wanted) (sectionOf(plot, report) === "specialists" ? folded : redraws).push(figure(plot, view));
  at("deeper-title").textContent = view.open_windows ? "For specialists: where the extent comes from, and what another target would cost"
    : "For specialists: the files of the log";
  at("inside").hidden = !at("why").childElementCount;
  at("deeper").hidden = !at("specialists").childElementCount;
  redraw();
}

function redraw() {
  const seen = at("deeper").open ? [...redraws, ...folded] : redraws;
  seen.forEach((each) => each());
  document.documentElement.dataset.plots = `${drawn.size}/${seen.length}`;
}

/* Of state that one of Spark's own providers keeps. */
function stores() {
  at("inside").hidden = at("deeper").hidden = true;
  const known = report.logs.filter((log) => log.store), loads = known.filter((log) => log.store.restart);
  const sum = (of) => loads.reduce((all, log) => all + of(log.store.restart), 0);
  const read = (load) => load.snapshot_bytes + load.change_bytes, list = at("tiles");
  const tile = (name, value) => { const box = made("div", null, list); made("dt", name, box); made("dd", value, box); };
  tile("to read", text.bytes(sum(read)));
  tile("files to read", text.whole(sum((load) => load.snapshot_files + load.change_files)));
  tile("on disk", text.bytes(known.reduce((all, log) => all + log.store.bytes, 0)));
  const columns = ["store", "files", "size", "begins with snapshot", "its size", "changes since", "their size", "to read"];
  const box = made("figure", null, at("cost"), { class: "wide" });
  made("p", `Kept by ${text.safe(report.provider)}. A restart reads a snapshot, and what each version since has changed.`, box, { class: "soft" });
  table(box, "What a restart reads", { columns, texts: [0], rows: known.map(({ name, store }) => {
    const load = store.restart, none = "–";
    return [text.safe(name), text.whole(store.files), text.bytes(store.bytes), ...(load ? [load.snapshot_version === null ? none : text.whole(load.snapshot_version),
      text.bytes(load.snapshot_bytes), text.whole(load.change_files), text.bytes(load.change_bytes), text.bytes(read(load))] : Array(5).fill(none))];
  }) }, true);
  document.documentElement.dataset.plots = "0/0";
}

/* -- words and figures -------------------------------------------------------------------------- */

function tiles(view) {
  const isAll = view.name === "all logs" || report.logs.length === 1;
  at("tiles").replaceChildren();
  const tile = tilesIn("tiles");
  const log = isAll ? report.totals : report.logs.find((each) => each.name === view.name);
  if (view.open_windows) {
    const { load_s, replay_s, replay_rows, cores } = view.restart, { source, fixed_source } = report.rates, last = report.last_restart;
    const how = `${[source, fixed_source].includes("default") ? "a guess" : "estimated"}, on ${text.count(cores, "core")}`;
    tile("a restart now", text.estimate(load_s + replay_s), replay_rows
      ? `${how}: load ${text.estimate(load_s)}, replay ${text.count(replay_rows, "row")} ${text.estimate(replay_s)}`
      : `${how}, to load; no input is read again`);
    if (last && isAll) tile("the last restart, at most", text.estimate(last.first_batch_s), `batch ${text.whole(last.batch)}, with its work and any outage in it` +
      (last.later_batch_s === null ? "" : `; the batches since ${text.estimate(last.later_batch_s)}`));
    if (log.extent_bytes) tile("to read", text.bytes(log.extent_bytes), `of ${text.bytes(log.bytes)}`);
    tile("open windows", text.whole(view.open_windows), "keys with state");
    tile("extent", text.whole(view.extent_records), `records to read, ${text.number(view.extent_records / view.open_windows)} × the open windows`);
    if (log.age_us !== null) tile("oldest record", text.duration(log.age_us), "behind the newest");
  }
  const logs = isAll && report.logs.length > 1 ? `, ${text.count(report.logs.length, "log")}` : "";
  tile("records", text.whole(log.records), `${text.count(log.frames, "frame")}, ${text.count(log.segments, "segment")}${logs}`);
}

/* Of a queue, whatever view is shown. */
function readers() {
  if (report.has_versions) return;
  const box = at("readers");
  box.hidden = false;
  const kept = { forever: "The queue keeps everything.", consumers: "The queue deletes what all of these have acknowledged." };
  const what = report.retention === null ? "What the queue deletes by itself cannot be read."
    : kept[report.retention] ?? `The queue keeps ${text.safe(report.retention)}, whoever needs more.`;
  const tile = tilesIn("flow-tiles"), lags = report.consumers.map((each) => each.lag_records), flow = report.views[0].throughput;
  tile("consumers", text.whole(lags.length));
  if (lags.length) tile("furthest behind", text.count(Math.max(...lags), "record"), text.safe(report.consumers[lags.indexOf(Math.max(...lags))].name));
  if (report.retention !== null) tile("retention", text.safe(report.retention), "what the queue deletes by itself");
  if (flow) {
    const [unit, seconds] = rateUnit(flow.records_per_s);
    tile("throughput", text.number(seconds * mean(flow.records_per_s)), `records ${unit}, on average, by their own time`);
  }
  if (!report.consumers.length) return void made("p", `No consumer is registered. ${what}`, box);
  made("p", what, box);
  const columns = ["consumer", "partitions", "records not received", "waiting since, by the clock", "behind in event time", "acknowledged"];
  table(made("figure", null, box), "Consumers", { columns, texts: [0], rows: report.consumers.map((each) => [text.safe(each.name),
    text.whole(each.partitions), text.whole(each.lag_records), each.waiting_since_us === null ? "nothing waits" : text.moment(each.waiting_since_us),
    text.duration(each.lag_us), each.acknowledged_us ? text.moment(each.acknowledged_us) : "never"]) });
}

/* Of a checkpoint: by operator, what it reads of all of its state in each batch. */
function scans() {
  if (!report.scans.length) return;
  const box = at("scans");
  box.hidden = false;
  made("p", "The rows that it changes, and of the others those that are due by the watermark or a timeout, if it can find them. " +
    "For that the session needs cec-store's extension; without it, all rows: the metric cecNarrowedScans is 0 then.", box);
  table(made("div", null, box), "What each batch reads", { columns: ["operator", "reads", "because"], texts: [0, 1, 2],
    rows: report.scans.map((each) => [text.safe(`${each.operator} ${each.name}`.trim()), text.safe(each.reads), text.safe(each.why)]) });
}

function header() {
  at("path").textContent = text.safe(report.path);
  const version = report.version === null ? "" : ` · version ${text.whole(report.version)}`;
  at("about").textContent = `${report.kind}${version} · looked at ${text.moment(report.made_us)}`;
  /* Of stores that Spark's own provider keeps there are figures, and no views of logs. */
  const restart = report.views.length ? report.views[0].restart : null, asked = report.recovery_time_s;
  const isLate = restart && asked !== null && report.totals.open_windows > 0 && restart.load_s + restart.replay_s > asked;
  const box = at("sound");
  made("div", text.safe(report.summary), box,
    { class: !report.sound || isLate ? "verdict bad" : report.verified !== null ? "verdict good" : "verdict" });
  for (const note of report.notes) made("div", text.safe(note), box, { class: "soft" });
  if (report.sound) return;
  const list = made("ul", null, box, { class: "faults" });
  for (const fault of report.damage) {
    const line = made("li", null, list);
    made("b", text.safe(fault.what), line);
    made("div", `${text.safe(fault.path)}, byte ${text.whole(fault.byte)}`, line, { class: "soft" });
    if (fault.effect || fault.advice) made("div", text.safe(`${fault.effect}. ${fault.advice}`), line);
  }
}

function chooser() {
  if (report.views.length < 2) return;
  const select = at("view");
  report.views.forEach((view, n) => made("option", text.safe(view.name), select, { value: n }));
  const rest = report.logs.length - report.views.length + 1;
  if (rest > 0) at("view-note").textContent = `the ${report.views.length - 1} logs with the largest extents; the others are in the tables`;
  select.addEventListener("change", () => show(report.views[Number(select.value)]));
  at("chooser").hidden = false;
}

header();
readers();
scans();
chooser();
at("foot").textContent = `Times are for one log after the other, at ${report.rates.source === "default" ? "guessed rates: cec-store extent --calibrate measures this machine's"
  : "the rates of the machine that made this page"}. cec-store ${report.release} · plots by Chart.js ${Chart.version} · this page loads nothing`;
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
if (report.views.length) show(report.views[0]);
else stores();
at("deeper").addEventListener("toggle", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
/* Paper has light colours and another width. */
matchMedia("print").addEventListener("change", redraw);
