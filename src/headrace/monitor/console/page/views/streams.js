import { Rates, spark } from "../chart.js";
import { badge, empty, h, name } from "../dom.js";
import * as format from "../format.js";
import { listing } from "./listing.js";
import { createStream } from "./stream_form.js";

export function streams(app) {
  const rates = new Rates(40);
  let now = Date.now();
  const create = app.canChange && h("button", { class: "button primary", type: "button", onclick: () => createStream(app) }, "Create a stream…");
  const columns = [
    {
      id: "name", title: "Stream", sort: "name", value: (row) => row.name + row.subjects + row.problem,
      cell: (row) => h("span", {},
        h("span", { class: "cut" }, h("a", { class: "main", href: app.link("stream", row.account, row.name) }, name(row.name, 80)), " ", row.problem && badge("problem", "bad"), row.kind !== "stream" && badge(row.kind)),
        h("span", { class: "sub cut" }, name(row.subjects.join(", ") || "no subjects", 80), row.more_subjects ? ` and ${row.more_subjects} more` : "")),
    },
    app.hasAccounts && { id: "account", title: "Account", minor: true, value: (row) => app.title(row.account), cell: (row) => name(app.title(row.account), 40) },
    { id: "growth", title: "New/s", numeric: true, minor: true, value: (row) => row.history.join(), cell: (row) => h("span", {}, spark(row.history), " ", format.rate(row.rates[0])) },
    { id: "messages", title: "Messages", sort: "messages", numeric: true, value: (row) => format.count(row.messages) },
    { id: "bytes", title: "Bytes", sort: "bytes", numeric: true, value: (row) => format.bytes(row.bytes) },
    { id: "subjects", title: "Subjects", sort: "subjects", numeric: true, minor: true, value: (row) => format.count(row.num_subjects) },
    { id: "consumers", title: "Consumers", sort: "consumers", numeric: true, minor: true, value: (row) => format.count(row.consumers) },
    { id: "last", title: "Last message", sort: "last", numeric: true, minor: true, value: (row) => (row.messages || row.last_time > 0 ? format.ago(row.last_time, now) : "never") },
    { id: "kind", title: "Keeps", minor: true, value: (row) => `${row.retention}, ${row.storage}` },
  ].filter(Boolean);
  return listing(app, {
    title: "Streams",
    view: "streams",
    words: "streams",
    caption: "Streams",
    placeholder: "Name or subject",
    sort: { sort: "name", order: "up" },
    columns,
    key: (row) => `${row.account}/${row.name}`,
    rowLabel: (row) => `Stream ${row.name}`,
    onRow: (row) => app.navigate("stream", row.account, row.name),
    action: create,
    onView: (view) => { now = view.now; if (create) create.hidden = view.is_off; },
    rowsOf: (view) => view.streams.map((row) => ({ ...row, ...rates.next(`${row.account}/${row.name}`, view.now, [Number(row.last_seq)]) })),
    nothing: (view) => (view.is_off
      ? empty("This server runs without streams", "Start it with streams (JetStream) to store messages.")
      : empty("No streams yet", app.canChange ? "Create one here, with a client or with " : "Create one with a client or with ", h("code", {}, "headrace stream add"), ".")),
  });
}
