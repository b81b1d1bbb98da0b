// Payloads as JSON, text or hex. They are shown as texts, whatever they contain.

import { h, replace, visible, visibleText } from "./dom.js";
import * as format from "./format.js";

const MOST_HEX_BYTES = 16 * 1024;
const MOST_COLORED = 60_000;

export function decode(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function asText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function isReadable(text) {
  const strange = text.match(/[\u0000-\u0008\u000e-\u001f\ufffd]/g);
  return !strange || strange.length < text.length / 10;
}

export function preview(base64, isCut) {
  const bytes = decode(base64);
  if (!bytes.length) return "";
  const text = new TextDecoder("utf-8").decode(bytes);
  const shown = isReadable(text) ? visible(text.replace(/\s+/g, " ").slice(0, 160)) : hexOf(bytes.slice(0, 32));
  return isCut || text.length > 160 ? `${shown}…` : shown;
}

const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");

function hexDump(bytes) {
  const lines = [];
  for (let start = 0; start < Math.min(bytes.length, MOST_HEX_BYTES); start += 16) {
    const part = bytes.slice(start, start + 16);
    const letters = Array.from(part, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${hexOf(part).padEnd(47)}  ${letters}`);
  }
  if (bytes.length > MOST_HEX_BYTES) lines.push(`… ${format.bytes(bytes.length - MOST_HEX_BYTES)} more`);
  return lines.join("\n");
}

const JSON_TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

const MOST_INDENT = 30;

function nextMark(text, index) {
  while (/\s/.test(text[index] ?? "")) index += 1;
  return index;
}

// The text of a JSON document as it was sent, indented: numbers keep all their digits.
export function indentJson(text) {
  const line = (level) => `\n${"  ".repeat(Math.min(level, MOST_INDENT))}`;
  let depth = 0;
  let result = "";
  let inText = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (inText) {
      result += character;
      if (character === "\\") { index += 1; result += text[index] ?? ""; } else if (character === '"') inText = false;
    } else if (character === '"') {
      inText = true;
      result += character;
    } else if (character === "{" || character === "[") {
      const next = nextMark(text, index + 1);
      if (text[next] === "}" || text[next] === "]") { result += character + text[next]; index = next; } else {
        depth += 1;
        result += character + line(depth);
      }
    } else if (character === "}" || character === "]") {
      depth = Math.max(depth - 1, 0);
      result += line(depth) + character;
    } else if (character === ",") {
      result += `,${line(depth)}`;
    } else if (character === ":") {
      result += ": ";
    } else if (!/\s/.test(character)) {
      result += character;
    }
  }
  return result;
}

function colored(text) {
  if (text.length > MOST_COLORED) return [text];
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(JSON_TOKEN)) {
    parts.push(text.slice(end, found.index));
    const kind = found[2] !== undefined ? "key" : found[1] ? "text" : found[3] ? "number" : "word";
    parts.push(h("span", { class: `j-${kind}` }, found[1] ?? found[0]), found[2] ?? "");
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

export function isJson(text) {
  if (!/^\s*[{["\-\dtfn]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// A payload with buttons to choose how it is shown.
export function payloadView(base64, size, isCut) {
  const bytes = decode(base64);
  const text = asText(bytes);
  const canBeJson = text !== null && !isCut && bytes.length > 0 && isJson(text);
  const best = canBeJson ? "json" : text !== null && isReadable(text) ? "text" : isCut && isReadable(new TextDecoder().decode(bytes)) ? "text" : "hex";
  const pre = h("pre", { class: "payload", tabindex: 0, "aria-label": "Payload" });
  const buttons = ["json", "text", "hex"].map((mode) =>
    h("button", { type: "button", "data-mode": mode, disabled: mode === "json" && !canBeJson, onclick: () => choose(mode) }, mode === "json" ? "JSON" : mode === "text" ? "Text" : "Hex"));

  function choose(mode) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    pre.classList.toggle("hex", mode === "hex");
    if (mode === "json") replace(pre, ...colored(visibleText(indentJson(text))));
    else if (mode === "hex") pre.textContent = hexDump(bytes);
    else pre.textContent = visibleText(text ?? new TextDecoder("utf-8").decode(bytes));
  }

  choose(best);
  const words = isCut ? `${format.bytes(size)}, the first ${format.bytes(bytes.length)} are shown` : format.bytes(size);
  return h("div", { class: "fields" },
    h("div", { class: "row" }, h("div", { class: "segmented", role: "group", "aria-label": "Show the payload as" }, ...buttons), h("span", { class: "faint" }, bytes.length ? words : "empty")),
    bytes.length ? pre : null);
}

export function headersView(headers) {
  if (!headers.length) return null;
  return h("div", { class: "scroll" }, h("table", { class: "headers" }, h("caption", { class: "hidden-text" }, "Headers"),
    h("tbody", {}, ...headers.slice(0, 200).map(([key, value]) => h("tr", {}, h("td", {}, h("bdi", {}, visible(key))), h("td", {}, h("bdi", {}, visible(value.slice(0, 4000)))))))));
}
