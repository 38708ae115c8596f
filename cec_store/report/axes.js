"use strict";
/* Axes of plots, and what their charts have in common. */

const TIME_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 15552000, 31536000];

function timeTicks(scale) {
  const span = (scale.max - scale.min) / 1e6;
  const room = Math.max(2, Math.floor(scale.chart.width / 130));
  const step = 1e6 * (TIME_STEPS_S.find((s) => span / s <= room) || span / room || 1);
  scale.ticks = [];
  for (let at = Math.ceil(scale.min / step) * step; at <= scale.max; at += step)
    scale.ticks.push({ value: at });
  /* On a phone no round moment may be inside. */
  if (scale.ticks.length < 2) scale.ticks = [{ value: scale.min }, { value: scale.max }];
}

function shortMoment(us, span) {
  const said = text.moment(us);
  if (span > 2 * 864e8) return said.slice(0, 10);
  return span > 6e8 ? said.slice(5, 16).replace("T", " ") : said.slice(11, 19);
}

/* Of a log: versions, moments where they tell frames apart, or the numbers of frames. */
function alongOf(rows, by) {
  const times = rows.timestamp_us, number = rows.number;
  const differs = times.filter((us, at) => at && us > times[at - 1]).length;
  if (by !== "version" && (by === "time" || (number.length > 2 && differs > number.length / 2)))
    return { name: report.has_versions ? "time of the commit (UTC)" : "time of the records (UTC)", at: times, say: text.moment, isTime: true };
  if (by !== "version") return { name: "frame", at: number, say: (n) => `frame ${text.whole(n)}`, tick: text.short, isTime: false };
  /* Of a version between two points the time of the one before. */
  const span = times.at(-1) - times[0];
  const timeOf = (n) => times[Math.max(0, number.findLastIndex((each) => each <= n))];
  return { name: "version, and when it was committed (UTC)", at: number, isTime: false,
    say: (n) => `version ${text.whole(n)}, ${text.moment(timeOf(n))}`, tick: (n) => [text.short(n), shortMoment(timeOf(n), span)] };
}

function axisX(along, look) {
  const axis = look.axis(along.name, (n) => text.short(n));
  axis.type = "linear";
  axis.grid = { display: false };
  if (along.at.length) [axis.min, axis.max] = [Math.min(...along.at), Math.max(...along.at)];
  if (axis.min === axis.max) delete axis.min, delete axis.max;
  if (along.isTime) {
    axis.afterBuildTicks = timeTicks;
    axis.ticks.callback = function (us) { return shortMoment(us, this.max - this.min); };
  } else {
    axis.ticks.precision = 0;
    axis.ticks.callback = (n) => along.tick(n);
  }
  return axis;
}

/* Ticks at round numbers of bytes. */
function axisBytes(look, title, more) {
  const axis = { ...look.axis(title, text.bytes), ...more };
  axis.afterBuildTicks = (scale) => {
    const step = 2 ** Math.ceil(Math.log2(Math.max(scale.max / 6, 1)));
    scale.ticks = [];
    for (let at = 0; at <= scale.max; at += step) scale.ticks.push({ value: at });
  };
  return axis;
}

/* Ticks at 1, 2 and 5 times the powers of ten. */
function axisLog(look, title, say, more) {
  const axis = { ...look.axis(title, say), type: "logarithmic", ...more };
  axis.afterBuildTicks = (scale) => {
    const powers = Math.log10(scale.max / scale.min), digits = powers > 4 ? [1] : powers > 2 ? [1, 3] : [1, 2, 5];
    scale.ticks = [];
    for (let power = Math.floor(Math.log10(scale.min)); power <= Math.ceil(Math.log10(scale.max)); power++)
      for (const digit of digits) {
        const at = digit * 10 ** power;
        if (at >= scale.min && at <= scale.max) scale.ticks.push({ value: at });
      }
  };
  return axis;
}

const xy = (xs, ys) => xs.map((x, at) => ({ x, y: ys[at] }));
const titled = (say) => ({ title: (items) => items.length ? say(items[0]) : "" });
const ranges = (edges, say) => edges.slice(0, -1).map((from, at) => `${say(from)} to ${say(edges[at + 1])}`);
/* Many bars stand without gaps, which would be all that is seen on a phone. */
const crowded = (bars) => bars.length > 50 ? { categoryPercentage: 1, barPercentage: 1 } : {};
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

function histogram(look, labels, counts, name, unit) {
  return {
    type: "bar",
    data: { labels, datasets: [{ ...look.bar("blue"), label: "windows", data: counts,
      categoryPercentage: 1, barPercentage: 0.94 }] },
    options: {
      scales: {
        x: { ...look.axis(name), grid: { display: false }, ticks: { ...look.ticks, maxRotation: 0, autoSkipPadding: 18,
          callback(at) { return unit(at); } } },
        y: look.axis("windows", text.short),
      },
      plugins: { legend: { display: false } },
    },
  };
}
