"use strict";
/* What every page is made of: words and figures, elements, tables, and the look of plots. What comes from
   elsewhere goes in as text, never as markup. */

const text = {
  count: (n, name) => `${text.whole(n)} ${name}${n === 1 ? "" : "s"}`,
  whole: (n) => Math.round(n).toLocaleString("en-US"),
  number: (n) => Math.abs(n) >= 100 ? text.whole(n) : Number(n.toPrecision(3)).toLocaleString("en-US"),
  short: (n) => Math.abs(n) < 10000 ? text.number(n)
    : n.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 }),
  percent: (share) => `${text.number(100 * share)} %`,
  bytes(n) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; Math.abs(n) >= 1024 && unit < 4; unit++) n /= 1024;
    return `${unit ? text.number(n) : text.whole(n)} ${units[unit]}`;
  },
  duration(us) {
    if (!us) return us === 0 ? "0" : "–";
    for (const [name, size] of [["d", 864e8], ["h", 36e8], ["min", 6e7], ["s", 1e6], ["ms", 1e3]])
      if (us >= 2 * size || (name === "ms" && us >= size)) return `${text.number(us / size)} ${name}`;
    return `${text.whole(us)} µs`;
  },
  /* No more exact than an estimate can be. */
  estimate: (s) => s >= 10 ? `${text.whole(s)} s` : s >= 1 ? `${s.toFixed(1)} s` : s >= 1e-3 ? `${text.whole(1e3 * s)} ms` : s ? "< 1 ms" : "0",
  moment(us) {
    const date = new Date(us / 1000);
    return Number.isNaN(date.getTime()) ? String(us) : date.toISOString().replace(/\.000Z$/, "Z");
  },
  second: (us) => text.moment(1e6 * Math.floor(us / 1e6)),
  /* Logs may come from anyone: what is no plain character is spelled out. */
  safe: (value) => String(value).replace(/[\p{C}\p{Zl}\p{Zp}]/gu,
    (c) => `\\u{${c.codePointAt(0).toString(16)}}`),
  value: (value) => text.safe(typeof value === "string" ? value.replace(/^(\d{4}-\d\d-\d\d)T00:00:00Z$/, "$1")
    : JSON.stringify(value)),
  key(key) {
    if (key === null || typeof key !== "object" || Array.isArray(key)) return text.value(key);
    return Object.entries(key).map(([name, value]) =>
      `${text.safe(name)} ${value !== null && typeof value === "object" && !Array.isArray(value)
        ? `(${text.key(value)})` : text.value(value)}`).join(", ");
  },
};

const errors = [];
window.addEventListener("error", (event) => {
  errors.push(event.message);
  document.documentElement.dataset.errors = errors.join("\n");
});

const at = (id) => document.getElementById(id);

function made(name, words, parent, more = {}) {
  const element = document.createElement(name);
  if (words !== undefined && words !== null) element.textContent = words;
  for (const [key, value] of Object.entries(more)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

/* Adds figures to a list of them. */
function tilesIn(id) {
  return (name, value, more) => {
    const box = made("div", null, at(id));
    made("dt", name, box);
    const said = made("dd", value, box);
    if (more) made("small", more, said);
  };
}

function table(parent, caption, { columns, rows, texts = [] }, isTitled = false) {
  const scroll = made("div", null, parent, { class: isTitled ? "scroll unseen" : "scroll", tabindex: "0", role: "region", "aria-label": caption });
  const grid = made("table", null, scroll);
  made("caption", caption, grid);
  const head = made("tr", null, made("thead", null, grid)), body = made("tbody", null, grid);
  columns.forEach((name, n) => made("th", name, head, { scope: "col", class: texts.includes(n) ? "text" : "" }));
  for (const row of rows) {
    const line = made("tr", null, body);
    row.forEach((cell, n) => n ? made("td", cell, line, texts.includes(n) ? { class: "text" } : {})
      : made("th", cell, line, { scope: "row", class: texts.includes(n) ? "text" : "" }));
  }
}

/* -- the look of the plots, from the page's own colours ----------------------------------------- */

function lookNow() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const ticks = { color: colour("soft") };
  return {
    ticks,
    colour,
    faint: (name) => `${colour(name)}22`,
    line: (name) => ({ borderColor: colour(name), backgroundColor: colour(name), borderWidth: 2, pointRadius: 0,
      pointHoverRadius: 4, tension: 0 }),
    bar: (name) => ({ backgroundColor: colour(name), maxBarThickness: 64 }),
    axis: (title, say) => ({
      title: { display: Boolean(title), text: title, color: colour("soft") },
      grid: { color: colour("line") }, border: { color: colour("line") },
      ticks: say ? { ...ticks, maxRotation: 0, autoSkipPadding: 14, callback: (n) => say(n) } : ticks,
    }),
  };
}
