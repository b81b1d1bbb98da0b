// Elements are made here and nowhere else, and texts are set as texts: no markup is ever parsed.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

// Characters that would hide or reorder others are shown as what they are.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const HIDDEN_IN_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u180e\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

function show(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\\u${code.toString(16).padStart(4, "0")}`;
}

export const visible = (text) => String(text).replace(HIDDEN, show);
export const visibleText = (text) => text.replace(HIDDEN_IN_TEXT, show);

export function cut(text, most = 200) {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most)}…` : shown;
}

// A name that a client has chosen: it must not change the direction of what is around it.
export const name = (text, most) => h("bdi", { title: cut(text, 1000) }, cut(text, most));

const ICONS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  connections: "M9 7a4 4 0 0 1 0 8M15 17a4 4 0 0 1 0-8M5 11h14",
  streams: "M3 7c3-3 5 3 9 0s6 3 9 0M3 13c3-3 5 3 9 0s6 3 9 0M3 19c3-3 5 3 9 0s6 3 9 0",
  consumers: "M12 3v12m0 0 5-5m-5 5-5-5M4 20h16",
  keyvalue: "M8 15a4 4 0 1 1 3.5-6H21v4h-3v3h-3v-3h-3.500A4 4 0 0 1 8 15Z",
  tables: "M4 5h16v14H4zM4 10h16M10 10v9",
  publish: "M4 12 20 4l-5 16-4-7z",
};

export const icon = (which) =>
  s("svg", { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": 1.8, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" }, s("path", { d: ICONS[which] }));

export const skeleton = () => h("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, ...Array.from({ length: 6 }, () => h("i")));

export const empty = (title, ...texts) => h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, ...texts));

export const notice = (kind, text) => h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, visible(text));

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);
