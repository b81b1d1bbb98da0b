import { Rates, spark } from "../chart.js";
import { badge, cut, empty, h, name, visible } from "../dom.js";
import * as format from "../format.js";
import { listing } from "./listing.js";

const STATES = { running: "good", stopped: "", failed: "bad", silent: "warn" };

// Tables differ in the end of their paths, and only so much of one fits.
function pathEnd(path) {
  const parts = path.split("/");
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}

export function tables(app) {
  const lags = new Map();
  // What matters most comes first: a phone shows the first three without scrolling.
  const columns = [
    { id: "table", title: "Table", value: (row) => row.table + row.format, cell: (row) => h("span", {}, h("b", { class: "cut narrow" }, h("bdi", { title: cut(row.table, 1000) }, cut(pathEnd(row.table), 80))), h("span", { class: "sub cut narrow" }, `${visible(row.format) || "table"}, query `, name(row.id, 50))) },
    { id: "lag", title: "Behind", numeric: true, value: (row) => `${row.lag}/${row.history}`, cell: (row) => (row.lag === null ? h("span", { class: "faint" }, "unknown") : h("span", { class: "lag" }, spark(row.history), " ", row.lag > 0 ? format.count(row.lag) : badge("up to date", "good"))) },
    { id: "state", title: "State", value: (row) => row.state, cell: (row) => badge(visible(row.state), STATES[row.state] ?? "") },
    { id: "stream", title: "Stream", value: (row) => row.stream, cell: (row) => (row.is_here ? h("a", { class: "cut", href: app.link("stream", row.account, row.stream) }, name(row.stream, 60)) : name(row.stream, 60)) },
    { id: "rows", title: "Rows/s", numeric: true, value: (row) => `${row.rows_per_second}/${row.rows}/${row.deletions}`, cell: (row) => h("span", {}, format.rate(row.rows_per_second), h("span", { class: "sub" }, `${format.count(row.rows)} in all${row.deletions ? `, ${format.count(row.deletions)} deleted` : ""}`)) },
    { id: "dead", title: "Dead letters", numeric: true, value: (row) => row.dead_letters, cell: (row) => (row.dead_letters ? badge(format.count(row.dead_letters), "warn") : "0") },
    { id: "batch", title: "Batch", numeric: true, minor: true, value: (row) => format.count(row.batch) },
    { id: "time", title: "Reported", numeric: true, minor: true, value: (row) => format.ago(new Date(row.time).getTime() || 0, row.now) },
  ];
  return listing(app, {
    title: "Landing tables",
    view: "tables",
    words: "tables",
    caption: "Landing tables",
    placeholder: "Table or stream",
    sort: {},
    columns,
    key: (row) => `${row.account}/${row.id}/${row.stream}`,
    rowsOf: (view) => view.tables.map((row) => {
      const id = `${row.account}/${row.id}/${row.stream}`;
      const history = [...(lags.get(id) || []), row.lag ?? 0].slice(-60);
      lags.set(id, history);
      return { ...row, history, now: view.now };
    }),
    nothing: () => empty("No query lands a stream", "Queries that copy a stream into a table report here: ", h("code", {}, "headrace land ORDERS --to tables/orders"), "."),
  });
}
