"use strict";
/* Draws the graph of a fleet: what is read stands above what reads it. */

const BOX = { width: 154, query: 62, queue: 34, across: 20, down: 34, margin: 6 };

function svg(name, parent, more, words) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(more)) element.setAttribute(key, value);
  if (words !== undefined) element.textContent = words;
  parent.append(element);
  return element;
}

const fitting = (words, most) => [...words].length > most ? `${[...words].slice(0, most - 1).join("")}…` : words;

/* Nodes by level, each near to the middle of what leads to it. */
function layers(nodes, edges) {
  const rows = [];
  for (const node of nodes) (rows[node.level] ??= []).push(node);
  const place = new Map();
  for (const row of rows) {
    const middle = (node) => {
      const above = edges.filter(([, to]) => to === node.id).map(([from]) => place.get(from)).filter((at) => at !== undefined);
      return above.length ? above.reduce((a, b) => a + b) / above.length : 0.5;
    };
    const wish = new Map(row.map((node) => [node, middle(node)]));
    row.sort((a, b) => wish.get(a) - wish.get(b));
    row.forEach((node, at) => place.set(node.id, (at + 0.5) / row.length));
  }
  return rows;
}

/* `nodes`: id, level, kind (a class), title and lines; `edges`: pairs of ids. */
function drawGraph(parent, label, nodes, edges) {
  const rows = layers(nodes, edges), at = new Map();
  const widest = Math.max(...rows.map((row) => row.length));
  const width = widest * (BOX.width + BOX.across) - BOX.across + 2 * BOX.margin;
  let y = BOX.margin;
  for (const row of rows) {
    const height = Math.max(...row.map((node) => BOX[node.shape]));
    const step = (width - 2 * BOX.margin) / row.length;
    row.forEach((node, n) => at.set(node.id, { x: BOX.margin + step * (n + 0.5), y, height: BOX[node.shape] }));
    y += height + BOX.down;
  }
  const height = y - BOX.down + BOX.margin;
  const scroll = made("div", null, parent, { class: "graph", tabindex: "0", role: "region", "aria-label": label });
  const drawing = svg("svg", scroll, { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${label}. The table below has it in words.` });
  for (const [from, to] of edges) {
    const a = at.get(from), b = at.get(to), top = a.y + a.height, middle = (top + b.y) / 2;
    svg("path", drawing, { class: "edge", d: `M${a.x},${top} C${a.x},${middle} ${b.x},${middle} ${b.x},${b.y - 5}` });
    svg("path", drawing, { class: "tip", d: `M${b.x - 4},${b.y - 7} L${b.x + 4},${b.y - 7} L${b.x},${b.y} Z` });
  }
  for (const node of nodes) {
    const { x, y: top, height: tall } = at.get(node.id), group = svg("g", drawing, { class: `node ${node.kind}` });
    svg("title", group, {}, [node.title, ...node.lines].join(", "));
    svg("rect", group, { x: x - BOX.width / 2, y: top, width: BOX.width, height: tall, rx: node.shape === "queue" ? tall / 2 : 8 });
    const lines = [node.title, ...node.lines], first = top + tall / 2 - 8 * (lines.length - 1) + 4;
    lines.forEach((words, n) => svg("text", group, { x, y: first + 16 * n, class: n ? "line" : "name", "text-anchor": "middle" },
      fitting(words, n ? 25 : 20)));
  }
}
