// Numbers, sizes, times and durations, as people read them.

const WHOLE = new Intl.NumberFormat("en-US");
const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

export const count = (value) => (typeof value === "string" ? WHOLE.format(BigInt(value)) : WHOLE.format(value));

export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(value >= 1e7 ? 1 : 2)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(value >= 1e5 ? 0 : 1)}k`;
  return value >= 100 || value % 1 === 0 ? WHOLE.format(Math.round(value)) : value.toFixed(1);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  if (seconds < 86400 * 365) return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
  return `${(seconds / 86400 / 365).toFixed(1)} years`;
}

export const nanoseconds = (value) => duration(value / 1e9);

export function ago(milliseconds, now) {
  if (milliseconds <= 0) return "never";
  const seconds = (now - milliseconds) / 1000;
  return seconds < 1 ? "now" : `${duration(seconds)} ago`;
}

const pad = (value) => String(value).padStart(2, "0");

export function time(when) {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return String(when);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

export const limit = (value, format = count) => (value === undefined || value === null || value <= 0 ? "no limit" : format(value));

export const plural = (number, word) => `${count(number)} ${word}${Number(number) === 1 ? "" : "s"}`;
