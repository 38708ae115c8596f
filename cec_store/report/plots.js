"use strict";
/* What is drawn of a view: for each plot its words, its chart and its table. */

const sectionOf = (plot, report) => typeof plot.section === "string" ? plot.section : plot.section(report);

const mean = (numbers) => sum(numbers) / numbers.length;

/* The shortest time in which there is a record, on average, and its seconds. */
function rateUnit(rates) {
  const units = [["a second", 1], ["a minute", 60], ["an hour", 3600], ["a day", 86400]];
  return units.find(([, seconds]) => seconds * mean(rates) >= 1) ?? units.at(-1);
}

const PLOTS = [
  {
    id: "throughput", section: "flow", isWide: true, title: "Throughput",
    has: (view) => view.throughput !== null,
    what(view) {
      const { records_per_s: rates, bytes_per_s: bytes } = view.throughput, [unit, seconds] = rateUnit(rates);
      return `${text.number(seconds * mean(rates))} records ${unit} on average, ${text.number(seconds * Math.max(...rates))} at most, ` +
        `and ${text.bytes(seconds * mean(bytes))} ${unit}, by the records' own time.`;
    },
    chart(view, look) {
      const rows = view.throughput, until = rows.until_us, span = until.at(-1) - until[0], [unit, seconds] = rateUnit(rows.records_per_s);
      return {
        type: "bar",
        data: { labels: until.map(text.moment), datasets: [{ ...look.bar("blue"), label: `records ${unit}`,
          data: rows.records_per_s.map((rate) => seconds * rate), categoryPercentage: 1, barPercentage: 0.94 }] },
        options: {
          scales: {
            x: { ...look.axis("time of the records (UTC)"), grid: { display: false }, ticks: { ...look.ticks, maxRotation: 0, autoSkipPadding: 18,
              callback: (at) => shortMoment(until[at], span) } },
            y: { ...look.axis(`records ${unit}`, text.short), beginAtZero: true },
          },
          plugins: {
            legend: { display: false },
            tooltip: { callbacks: { title: (items) => items.length ? `until ${items[0].label}` : "",
              label: (item) => `${text.number(item.parsed.y)} records, ${text.bytes(seconds * rows.bytes_per_s[item.dataIndex])} ${unit}` } },
          },
        },
      };
    },
    table(view) {
      const rows = view.throughput, [unit, seconds] = rateUnit(rows.records_per_s);
      return {
        columns: ["until", `records ${unit}`, `bytes ${unit}`],
        rows: rows.until_us.map((us, at) => [text.moment(us), text.number(seconds * rows.records_per_s[at]), text.bytes(seconds * rows.bytes_per_s[at])]),
      };
    },
  },
  {
    id: "history", section: "cost", isWide: true, title: "Extent over time",
    has: (view) => view.history !== null && view.history.number.length > 0,
    what: (view) => "What a restart would have had to read, against the windows that were open. The default target is twice " +
      `the open windows, or what is read in no time: ${text.whole(view.history.default_target.at(-1))} records now, if nobody has set another.`,
    chart(view, look, report) {
      const rows = view.history, along = alongOf(rows, report.has_versions ? "version" : "frame");
      const line = (name, colour, ys, more) =>
        ({ ...look.line(colour), label: name, data: xy(along.at, ys),
          ...(along.at.length < 3 ? { pointRadius: 4 } : {}), ...more });
      const low = rows.extent_records_low;
      const sets = [
        line("extent", "blue", rows.extent_records, { fill: "origin", backgroundColor: look.faint("blue") }),
        line("open windows", "orange", rows.open_windows),
      ];
      /* Far above all else it would only flatten the rest. */
      if (Math.max(...rows.default_target) < 3 * Math.max(...rows.extent_records))
        sets.push(line("default target", "grey", rows.default_target, { borderDash: [6, 4] }));
      if (low.some((q, at) => q < rows.extent_records[at]))
        sets.splice(1, 0, line("smallest extent of the stretch", "blue", low, { borderWidth: 1, borderDash: [2, 2] }));
      if (view.name === "all logs")
        sets.push(line("extent of the largest log", "teal", rows.largest_extent_records, { borderWidth: 1.5 }));
      return {
        type: "line", data: { datasets: sets },
        options: {
          scales: { x: axisX(along, look), y: { ...look.axis("records", text.short), beginAtZero: true, grace: "5%" } },
          plugins: { tooltip: { callbacks: titled((item) => along.say(item.parsed.x)) } },
        },
      };
    },
    table: (view, report) => ({
      columns: [report.has_versions ? "version" : "frame", "time", "extent", "smallest extent", "largest log's extent", "open windows", "default target"],
      rows: view.history.number.map((n, at) => [text.whole(n), text.moment(view.history.timestamp_us[at]),
        ...["extent_records", "extent_records_low", "largest_extent_records", "open_windows", "default_target"]
          .map((name) => text.whole(view.history[name][at]))]),
    }),
  },
  {
    id: "recovery", section: "specialists", isWide: true, title: "What another target would cost",
    has: (view) => view.recovery !== null,
    what: (view) => "A larger target makes restarts longer and checking cheaper. " + (view.recovery.is_simulated
      ? "Loads and checks are those that each target would have given over the recorded history; recorded were " +
        `${text.number(view.recovery.recorded_checks_per_record)} checks for each other record.`
      : "Between two checks of a window the log advances by the target less the open windows, so each record brings windows ÷ (target − windows) checks."),
    chart(view, look) {
      const rows = view.recovery, checks = rows.checks_per_record;
      const x = axisLog(look, "target, records", text.short, {
        min: Math.min(rows.now || Infinity, rows.extent_target[0]), max: Math.max(rows.now, rows.extent_target.at(-1)) });
      const line = (name, colour, ys, more) => ({ ...look.line(colour), label: name, data: xy(rows.extent_target, ys), pointRadius: 2, ...more });
      return {
        type: "line",
        data: { datasets: [
          line("load at most, seconds", "blue", rows.load_s),
          line("checks for each other record", "orange", checks, { yAxisID: "right" }),
        ] },
        options: {
          scales: {
            x,
            y: { ...look.axis("load, seconds", text.number), beginAtZero: true },
            right: { ...look.axis("checks for each other record", text.number), beginAtZero: true, position: "right", grid: { display: false } },
          },
          plugins: {
            marks: { at: [[rows.now, "extent now"], [view.history?.default_target.at(-1), "default target"]] },
            tooltip: { callbacks: titled((item) => `target: ${text.whole(item.parsed.x)} records`) },
          },
        },
      };
    },
    table: (view) => ({
      columns: ["target", "largest extent", "load, seconds", "checks for each other record"],
      rows: view.recovery.extent_target.map((q, at) => [text.whole(q), text.whole(view.recovery.extent_records[at]),
        text.number(view.recovery.load_s[at]), text.number(view.recovery.checks_per_record[at])]),
    }),
  },
  {
    id: "renewing", section: "specialists", isWide: false, title: "Which windows hold the extent",
    has: (view) => view.renewing !== null && view.open_windows > 0,
    what(view) {
      const at = view.renewing.share.findIndex((share) => share >= 0.1);
      const left = view.renewing.extent_records[at], share = text.percent(view.renewing.share[at]);
      if (left > 0.9 * view.extent_records)
        return `Renewing the oldest ${share} of the windows would hardly shorten the extent: many others are almost as old.`;
      return `Renewing the oldest ${share} of the windows ` +
        `(${text.whole(view.renewing.windows[at])} records written) would take the extent from ` +
        `${text.whole(view.extent_records)} to ${text.whole(left)} records.`;
    },
    chart(view, look) {
      const rows = view.renewing;
      return {
        type: "line",
        data: { datasets: [{ ...look.line("blue"), label: "extent left", fill: "origin", backgroundColor: look.faint("blue"),
          data: xy(rows.share.map((share) => 100 * share), rows.extent_records) }] },
        options: {
          scales: {
            x: { ...look.axis("oldest windows renewed, %", text.number), type: "linear", grid: { display: false }, min: 0, max: 100 },
            y: { ...look.axis("records left in the extent", text.short), beginAtZero: true },
          },
          plugins: {
            legend: { display: false },
            tooltip: { callbacks: titled((item) => `${text.whole(rows.windows[item.dataIndex])} windows renewed`) },
          },
        },
      };
    },
    table: (view) => ({
      columns: ["share renewed", "windows", "extent left"],
      rows: view.renewing.share.map((share, at) => [text.percent(share), text.whole(view.renewing.windows[at]),
        text.whole(view.renewing.extent_records[at])]),
    }),
  },
  {
    id: "footprints", section: "specialists", isWide: false, title: "Slow and fast windows",
    has: (view) => view.footprints !== null && view.open_windows > 0,
    what(view) {
      const { windows, updates, renewals } = view.footprints;
      const records = sum(updates) + sum(renewals), fast = windows.slice(3), most = sum(updates.slice(3)) + sum(renewals.slice(3));
      const share = sum(fast) ? `${text.percent(sum(fast) / sum(windows))} of the windows have five or more: ` +
        `theirs are ${text.percent(most / records)} of the records.` : "No window has five or more.";
      return `How many records in the extent an open window has. ${share} ` +
        "Slow windows, on the left, hold the extent open; fast ones fill it.";
    },
    chart(view, look) {
      const rows = view.footprints, from = rows.from;
      const labels = from.map((n, at) => at === from.length - 1 ? `${n}+` : from[at + 1] - n > 1 ? `${n}–${from[at + 1] - 1}` : `${n}`);
      const records = Math.max(1, sum(rows.updates) + sum(rows.renewals));
      const set = (name, colour, counts, total, more) => ({ ...look.bar(colour), label: name, counts,
        data: counts.map((n) => 100 * n / Math.max(1, total)), ...more });
      return {
        type: "bar",
        data: { labels, datasets: [
          set("windows", "orange", rows.windows, sum(rows.windows), { stack: "windows" }),
          set("records: window changed", "blue", rows.updates, records, { stack: "records" }),
          set("records: written again", "teal", rows.renewals, records, { stack: "records" }),
        ] },
        options: {
          scales: {
            x: { ...look.axis("records of a window in the extent"), stacked: true, grid: { display: false } },
            y: { ...look.axis("%", text.number), stacked: true },
          },
          plugins: { tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ` +
            `${text.whole(item.dataset.counts[item.dataIndex])} (${text.number(item.parsed.y)} %)` } } },
        },
      };
    },
    table: (view) => ({
      columns: ["records, from", "windows", "records: window changed", "records: written again"],
      rows: view.footprints.from.map((n, at) => [n, ...["windows", "updates", "renewals"]
        .map((name) => text.whole(view.footprints[name][at]))]),
    }),
  },
  ...[["records", "in records", "records behind the end", text.short],
    ["time_us", "in time", "behind the newest record", text.duration]].map(([name, title, axis, say]) => ({
    id: `ages-${name}`, section: "specialists", isWide: false, title: `Age of the last records, ${title}`,
    has: (view) => view.ages[name] !== null,
    what: () => name === "records" ? "How far back each open window was written last. The oldest decides how far a restart reads."
      : "The same by the timestamps of the records.",
    chart: (view, look) => {
      const { edges, windows } = view.ages[name];
      return histogram(look, ranges(edges, say), windows, axis, (at) => say(edges[at]));
    },
    table: (view) => ({
      columns: ["age", "windows"],
      rows: ranges(view.ages[name].edges, say).map((range, at) => [range, text.whole(view.ages[name].windows[at])]),
    }),
  })),
  {
    id: "segments", section: "specialists", isWide: true, title: "Map of the log",
    has: (view) => view.segments.length > 0,
    what(view, report) {
      const total = sum(view.segments.map((s) => s.footprint_bytes + s.superseded_bytes + s.abandoned_bytes + s.other_bytes));
      const live = sum(view.segments.map((s) => s.footprint_bytes + s.superseded_bytes));
      const each = view.name === "all logs" ? "Each bar is a log." : "Each bar is a segment, the oldest first.";
      return report.totals.open_windows ? `${each} A restart reads ${text.percent(live / Math.max(1, total))} of the bytes: ` +
        `the last records of open windows, and what stands between them.` : each;
    },
    chart(view, look, report) {
      const names = view.segments.map((s) => text.safe(s.name));
      const sets = [["footprint_bytes", "last records", "blue"], ["superseded_bytes", "superseded, but read", "teal"],
        ["other_bytes", report.totals.open_windows ? "not needed by a restart" : "bytes", "grey"],
        ["abandoned_bytes", "given up", "red"]]
        .map(([name, label, colour]) => ({ ...look.bar(colour), ...crowded(names), label, data: view.segments.map((s) => s[name]) }))
        .filter((set) => set.data.some((n) => n > 0));
      return {
        type: "bar", data: { labels: names, datasets: sets },
        options: {
          scales: {
            x: { ...look.axis(view.name === "all logs" ? "logs, in order" : "segments, the oldest first"), stacked: true, grid: { display: false },
              ticks: { ...look.ticks, maxRotation: 0, autoSkipPadding: 12, callback(at) {
                return names.length < 7 && this.chart.width > 700 ? names[at] : text.whole(at + 1);
              } } },
            y: axisBytes(look, "", { stacked: true }),
          },
          plugins: { tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${text.bytes(item.parsed.y)}` } } },
        },
      };
    },
    table: (view) => ({
      columns: ["", "last records", "superseded, but read", "not needed by a restart", "given up"], texts: [0],
      rows: view.segments.map((s) => [text.safe(s.name), ...["footprint_bytes", "superseded_bytes", "other_bytes", "abandoned_bytes"]
        .map((name) => text.bytes(s[name]))]),
    }),
  },
  {
    id: "written", section: (report) => report.has_versions ? "why" : "specialists", isWide: true, title: "Bytes written",
    has: (view) => view.written.number.length > 0,
    what: (view) => ({ version: "By the version that they made, as far back as the log is kept.",
      frame: "By frame, as far back as the log is kept.", time: "By the time of the records." })[view.written.by],
    chart(view, look) {
      const rows = view.written, along = alongOf(rows, rows.by);
      const labels = along.at.map((n) => along.say(n)), span = along.at.at(-1) - along.at[0];
      return {
        type: "bar",
        data: { labels, datasets: [{ ...look.bar("blue"), label: "bytes", data: rows.bytes, categoryPercentage: 1, barPercentage: 0.9, ...crowded(labels) }] },
        options: {
          scales: {
            x: { ...look.axis(along.name), grid: { display: false }, ticks: { ...look.ticks, maxRotation: 0, autoSkipPadding: 18,
              callback: (at) => along.isTime ? shortMoment(along.at[at], span) : along.tick(along.at[at]) } },
            y: axisBytes(look, ""),
          },
          plugins: {
            legend: { display: false },
            tooltip: { callbacks: { label: (item) => `${text.bytes(item.parsed.y)}, ${text.whole(rows.records[item.dataIndex])} records` } },
          },
        },
      };
    },
    table: (view) => ({
      columns: [view.written.by, "time", "bytes", "records"],
      rows: view.written.number.map((n, at) => [text.whole(n), text.moment(view.written.timestamp_us[at]),
        text.bytes(view.written.bytes[at]), text.whole(view.written.records[at])]),
    }),
  },
  {
    id: "lifetimes", section: "specialists", isWide: true, title: "How long closed windows lived",
    has: (view) => view.lifetimes !== null,
    what: (view) => `Of the ${text.whole(sum(view.lifetimes.windows))} windows that opened and closed within the extent, ` +
      "in records of the log. They need no checks, if the extent is longer than they live.",
    chart: (view, look) => histogram(look, ranges(view.lifetimes.edges, text.short), view.lifetimes.windows,
      "records from opening to closing", (at) => text.short(view.lifetimes.edges[at])),
    table: (view) => ({
      columns: ["records", "windows"],
      rows: ranges(view.lifetimes.edges, text.whole).map((range, at) => [range, text.whole(view.lifetimes.windows[at])]),
    }),
  },
  {
    id: "skew", section: "why", isWide: true, title: "Skew between partitions",
    has: (view, report) => report.logs.length > 1 && view.name === "all logs",
    what: () => "A restart takes as long as its slowest partition.",
    choices: [["extent_records", "extent", text.short], ["open_windows", "open windows", text.short],
      ["extent_bytes", "bytes of the extent", text.bytes], ["bytes", "bytes of the log", text.bytes],
      ["records", "records of the log", text.short]],
    chart(view, look, report, choice) {
      const [name, title, say] = choice, groups = new Map();
      for (const log of report.logs) {
        if (log.partition === null) continue;
        const store = log.store && log.store !== "default" ? `, ${log.store}` : "";
        const group = log.operator === null ? "partitions" : `operator ${log.operator}${store}`;
        if (!groups.has(group)) groups.set(group, []);
        groups.get(group).push({ x: log.partition, y: log[name] });
      }
      const count = Math.max(...report.logs.map((log) => log.partition)) + 1;
      /* Stores of a partition side by side: they often are of a size. */
      [...groups.values()].forEach((rows, at) => rows.forEach((row) => { row.x += (at - (groups.size - 1) / 2) * 0.16; }));
      const colours = ["blue", "orange", "teal", "red", "grey"];
      const sets = [...groups].map(([group, data], at) => ({ ...look.line(colours[at % 5]), label: text.safe(group), data,
        showLine: false, pointRadius: data.length > 80 ? 2 : 4, pointHoverRadius: 5, pointStyle: ["circle", "rect", "triangle", "rectRot"][at % 4] }));
      return {
        type: "line", data: { datasets: sets },
        options: {
          interaction: { mode: "nearest", intersect: false },
          scales: {
            x: { ...look.axis("partition", text.whole), type: "linear", grid: { display: false }, min: -0.5, max: count - 0.5,
              ticks: { ...look.ticks, precision: 0, includeBounds: false } },
            y: say === text.bytes ? axisBytes(look, "", { min: 0 }) : { ...look.axis(title, say), beginAtZero: true },
          },
          plugins: { tooltip: { callbacks: { title: (items) => items.length ? `partition ${Math.round(items[0].parsed.x)}` : "",
            label: (item) => `${item.dataset.label}: ${say(item.parsed.y)}` } } },
        },
      };
    },
    table: (view, report) => ({
      columns: ["log", "windows", "extent, records", "extent, size", "log", "records", "sound"], texts: [0],
      rows: report.logs.map((log) => [text.safe(log.name), text.whole(log.open_windows), text.whole(log.extent_records),
        text.bytes(log.extent_bytes), text.bytes(log.bytes), text.whole(log.records), log.sound ? "yes" : "no"]),
    }),
  },
];
