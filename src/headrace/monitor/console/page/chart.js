// Charts of rates over time, in SVG.

import { h, replace, s } from "./dom.js";
import * as format from "./format.js";

const WIDTH = 600;
const HEIGHT = 132;
const BOTTOM = 18;

function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((top) => top >= value);
}

// `series` is a list of {id, title}; points are {time, values} with one value for each, oldest first.
export function chart(title, series, { unit = format.rate, mostSeconds = 300, suffix = "" } = {}) {
  let seconds = 60;
  const legend = h("span", { class: "legend" });
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title });
  const scale = h("span", { class: "hidden-text" });
  const topValue = h("span", { class: "top-value" });
  const node = h("figure", { class: "panel chart" }, h("figcaption", {}, h("h2", {}, title), legend), topValue, svg, scale);
  let points = [];
  let hovered = null;

  const x = (time, end) => WIDTH - ((end - time) / (seconds * 1000)) * WIDTH;
  const y = (value, top) => (HEIGHT - BOTTOM) * (1 - value / top) + 2;

  function draw() {
    const end = points.length ? points[points.length - 1].time : Date.now();
    const span = points.length ? (end - points[0].time) / 1000 : 0;
    seconds = [60, 120, 180].find((one) => span <= one) ?? mostSeconds;
    const shown = points.filter((point) => point.time >= end - seconds * 1000);
    const top = niceTop(Math.max(0, ...shown.flatMap((point) => point.values)));
    const parts = [0, 0.5, 1].map((share) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(top * share, top), y2: y(top * share, top), "vector-effect": "non-scaling-stroke" }));
    series.forEach((one, index) => {
      const line = shown.map((point) => `${x(point.time, end).toFixed(1)},${y(point.values[index], top).toFixed(1)}`);
      if (line.length < 2) return;
      const base = y(0, top).toFixed(1);
      parts.push(s("g", { class: `s-${one.id}` },
        s("path", { class: "area", d: `M${line[0].split(",")[0]},${base}L${line.join("L")}L${line[line.length - 1].split(",")[0]},${base}Z` }),
        s("path", { class: "line", d: `M${line.join("L")}` })));
    });
    const current = hovered === null ? shown[shown.length - 1] : nearest(shown, hovered, end);
    if (hovered !== null && current) {
      const place = x(current.time, end);
      parts.push(s("line", { class: "cursor", x1: place, x2: place, y1: 0, y2: HEIGHT - BOTTOM, "vector-effect": "non-scaling-stroke" }));
    }
    replace(svg, ...parts);
    labels(top, current, end);
  }

  // Texts are not in the SVG, which is stretched.
  const axis = h("div", { class: "axis" });
  node.append(axis);

  function labels(top, current, end) {
    replace(axis, h("span", {}, `${format.duration(seconds)} ago`), h("span", {}, hovered !== null && current ? format.time(current.time).slice(11) : "now"));
    topValue.textContent = `${unit(top)}${suffix}`;
    replace(legend, ...series.map((one, index) => h("span", {}, h("i", { class: `key ${one.id}` }), `${one.title} `, h("b", {}, current ? unit(current.values[index]) : "–"), suffix)));
    scale.textContent = current ? series.map((one, index) => `${one.title} ${unit(current.values[index])}${suffix}`).join(", ") : "no data yet";
  }

  function nearest(shown, share, end) {
    const time = end - (1 - share) * seconds * 1000;
    return shown.reduce((best, point) => (best && Math.abs(best.time - time) <= Math.abs(point.time - time) ? best : point), null);
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    hovered = (event.clientX - box.left) / box.width;
    draw();
  });
  svg.addEventListener("pointerleave", () => { hovered = null; draw(); });
  draw();
  return { node, update(all) { points = all; draw(); } };
}

export function spark(values, width = 84, height = 20) {
  const top = Math.max(...values, 1e-9);
  const step = width / Math.max(values.length - 1, 1);
  const line = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 2 - (value / top) * (height - 4)).toFixed(1)}`);
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, values.length > 1 && s("path", { d: `M${line.join("L")}` }));
}

// Rates from counters: remembers the last values of each key.
export class Rates {
  constructor(keep = 30) {
    this.keep = keep;
    this.seen = new Map();
  }

  // Per second since the last call for this key, for each counter; nothing the first time.
  next(key, time, counters) {
    const before = this.seen.get(key);
    const entry = { time, counters, history: before?.history || [] };
    let rates = before?.rates || counters.map(() => NaN);
    if (before && time > before.time) {
      const elapsed = (time - before.time) / 1000;
      rates = counters.map((value, index) => Math.max(0, (value - before.counters[index]) / elapsed));
      entry.history = [...entry.history, rates[0]].slice(-this.keep);
    }
    entry.rates = rates;
    this.seen.set(key, entry);
    return entry;
  }

  forgetAllBut(keys) {
    for (const key of this.seen.keys()) if (!keys.has(key)) this.seen.delete(key);
  }
}
