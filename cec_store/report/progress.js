"use strict";
/* Plots over time of what a query's batches took, from the progress file in its checkpoint. */

/* Points at the ends of stretches; where nothing is known of a time the line is broken. */
function alongProgress(rows, ys) {
  const points = [];
  rows.until_us.forEach((us, at) => {
    if (rows.is_after_gap[at]) points.push({ x: rows.from_us[at], y: null });
    points.push({ x: us, y: ys[at] });
  });
  return points;
}

function progressPlot(id, title, what, unit, lines, say) {
  const has = (rows) => lines.some(([, name]) => rows[name].some((y) => y !== null));
  return {
    id, section: "flow", isWide: true, title,
    has: (view, report) => report.progress !== null && has(report.progress),
    what: (view, report) => what(report.progress),
    chart(view, look, report) {
      const rows = report.progress;
      const along = { name: "time (UTC)", at: [rows.from_us[0], ...rows.until_us], say: text.moment, isTime: true };
      const few = rows.until_us.length < 3 || rows.is_after_gap.some(Boolean);
      return {
        type: "line",
        data: { datasets: lines.filter(([, name]) => rows[name].some((y) => y !== null)).map(([label, name, colour, more]) =>
          ({ ...look.line(colour), label, data: alongProgress(rows, rows[name]), spanGaps: false, ...(few ? { pointRadius: 2 } : {}), ...more })) },
        options: {
          scales: { x: axisX(along, look), y: { ...look.axis(unit, say), beginAtZero: true, grace: "5%" } },
          plugins: { tooltip: { callbacks: titled((item) => text.moment(item.parsed.x)) } },
        },
      };
    },
    table: (view, report) => ({
      columns: ["until", "batch", ...lines.map(([label]) => label)],
      rows: report.progress.until_us.map((us, at) => [text.moment(us), text.whole(report.progress.batch[at]),
        ...lines.map(([, name]) => report.progress[name][at] === null ? "–" : text.number(report.progress[name][at]))]),
    }),
  };
}

const gapsIn = (rows) => {
  const count = rows.is_after_gap.filter(Boolean).length;
  return count ? ` ${text.count(count, "gap")}: nothing ran then, or nothing was told.` : "";
};

PLOTS.unshift(
  progressPlot("batch-time", "Batch time and commit latency",
    (rows) => `The last batches took ${text.number(rows.batch_s.at(-1))} s each, ${text.number(Math.max(...rows.batch_max_s))} s the longest.` + gapsIn(rows),
    "seconds", [["batch", "batch_s", "blue"], ["longest batch", "batch_max_s", "blue", { borderWidth: 1, borderDash: [2, 2] }],
      ["commit of the mean store", "commit_s", "orange"]], text.number),
  progressPlot("input-rate", "Input rate",
    (rows) => `${text.number(rows.rows_per_s.at(-1))} rows a second at the end, ${text.number(Math.max(...rows.rows_per_s))} at most.` + gapsIn(rows),
    "rows a second", [["rows a second", "rows_per_s", "blue", { fill: "origin" }]], text.short),
  progressPlot("watermark", "Watermark",
    (rows) => `How far the watermark is behind the clock: ${text.duration(1e6 * rows.watermark_lag_s.findLast((s) => s !== null))} at the end.` + gapsIn(rows),
    "seconds behind", [["watermark behind the clock, seconds", "watermark_lag_s", "teal"]], text.short),
);
