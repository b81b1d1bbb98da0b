// One stream: its state, messages, subjects, consumers and configuration.

import * as api from "../api.js";
import { Rates } from "../chart.js";
import { field, question, toast } from "../dialogs.js";
import { badge, empty, h, name, notice, replace, skeleton, visible } from "../dom.js";
import * as format from "../format.js";
import { pager, searchField, table } from "../table.js";
import { consumerList } from "./consumers.js";
import { messages } from "./messages.js";
import { editStream } from "./stream_form.js";

const TABS = [["messages", "Messages"], ["subjects", "Subjects"], ["consumers", "Consumers"], ["config", "Configuration"]];

export function stream(app, [account = "", stream = "", tab = "messages"]) {
  const which = TABS.some(([id]) => id === tab) ? tab : "messages";
  const tiles = h("div", { class: "panel tiles" }, tile("Messages", "…", ""));
  const warnings = h("div", { class: "stack" });
  const content = { messages: () => messages(app, account, stream), subjects: () => subjects(app, account, stream), consumers: () => consumerList(app, { account, stream, title: "" }), config: () => configuration() }[which]();
  const rates = new Rates(120);
  const buttons = h("div", { class: "row" });
  let latest = null;
  const edit = h("button", { class: "button", type: "button", disabled: true, onclick: () => editStream(app, latest, () => content.refresh?.()) }, "Edit…");
  if (app.canChange) {
    replace(buttons, edit,
      h("button", { class: "button danger", type: "button", onclick: purge }, "Purge…"),
      h("button", { class: "button danger", type: "button", onclick: remove }, "Delete…"));
  }

  function onView(view) {
    latest = view;
    edit.disabled = false;
    const { rates: [growth] } = rates.next("stream", view.now, [Number(view.last_seq)]);
    replace(tiles,
      tile("Messages", format.count(view.messages), view.messages ? `${format.count(view.first_seq)} to ${format.count(view.last_seq)}` : `next is ${format.count(String(BigInt(view.last_seq) + 1n))}`),
      tile("New per second", format.rate(growth), view.last_time > 0 ? `last ${format.ago(view.last_time, view.now)}` : "none so far"),
      tile("Stored", format.bytes(view.bytes), `${view.storage}${view.config.compression && view.config.compression !== "none" ? `, ${view.config.compression}` : ""}`),
      tile("Subjects", format.count(view.num_subjects), format.plural(view.deleted, "deleted message")),
      tile("Consumers", format.count(view.consumers), `retention ${view.retention}`));
    replace(warnings, ...view.problems.map((one) => notice("bad", `This stream ${one.text}`)));
    content.onStream?.(view);
  }

  function purge() {
    const filter = field("filter", "Only this subject (optional)", { placeholder: "orders.*" });
    const keep = field("keep", "Keep the newest (optional)", { inputmode: "numeric", placeholder: "0" });
    question({
      title: `Purge ${visible(stream)}?`,
      text: "Messages are deleted for good. Consumers continue after them.",
      action: "Purge",
      danger: true,
      confirm: stream,
      fields: [filter, keep],
      work: async (values, confirm) => {
        const answer = await api.act("stream.purge", { account, stream, confirm, filter: values.filter.trim(), keep: values.keep.trim() });
        toast("good", `${format.plural(answer.purged ?? 0, "message")} purged from ${stream}.`);
        content.refresh?.();
      },
    });
  }

  function remove() {
    question({
      title: `Delete ${visible(stream)}?`,
      text: "The stream, all its messages and all its consumers are deleted for good.",
      action: "Delete stream",
      danger: true,
      confirm: stream,
      work: async (_, confirm) => {
        await api.act("stream.delete", { account, stream, confirm });
        toast("good", `The stream ${stream} is deleted.`);
        app.navigate("streams");
      },
    });
  }

  const live = app.live("stream", { account, stream }, onView, tiles);
  const node = h("div", {},
    h("div", { class: "crumbs" }, h("a", { href: app.link("streams") }, "Streams"), app.hasAccounts && ` · ${visible(app.title(account))}`),
    h("div", { class: "head" }, h("h1", {}, name(stream, 100)), h("span", { class: "space" }), buttons),
    h("div", { class: "stack" }, warnings, tiles,
      h("div", {},
        h("nav", { class: "tabs", "aria-label": "Parts of the stream" }, ...TABS.map(([id, title]) => h("a", { href: app.link("stream", account, stream, id), "aria-current": id === which ? "page" : null }, title))),
        content.node)));
  return { title: stream, node, stop: () => { live.stop(); content.stop?.(); } };
}

const tile = (label, value, note) => h("div", { class: "tile" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note));

function subjects(app, account, stream) {
  const ROWS = 100;
  let filter = "";
  let offset = 0;
  const content = h("div", {}, skeleton());
  const rows = table({
    caption: "Subjects",
    key: (row) => row.subject,
    columns: [
      { id: "subject", title: "Subject", value: (row) => row.subject, cell: (row) => h("code", { class: "cut" }, name(row.subject, 200)) },
      { id: "messages", title: "Messages", numeric: true, value: (row) => format.count(row.messages) },
    ],
  });
  const pages = pager((direction) => { offset = Math.max(0, offset + direction * ROWS); load(); });

  async function load() {
    try {
      const view = await api.view("subjects", { account, stream, filter, offset, limit: ROWS });
      rows.clear();
      rows.update(view.subjects);
      replace(content, ...(view.subjects.length ? [rows.node, pages.node] : [empty(filter ? `No subjects match “${visible(filter)}”` : "No messages, so no subjects")]));
      pages.update({ offset, limit: ROWS, total: view.total, shown: view.subjects.length, words: "subjects" });
    } catch (error) {
      app.fail(error, content);
    }
  }

  load();
  const search = searchField("Filter subjects", "orders.*.paid", (text) => { filter = text; offset = 0; load(); });
  return { node: h("div", { class: "panel" }, h("div", { class: "filters" }, h("label", { class: "field wide" }, "Subject, * is any token and > any rest", search)), content), refresh: load };
}

const DURATIONS = new Set(["max_age", "duplicate_window", "subject_delete_marker_ttl"]);
const SIZES = new Set(["max_bytes", "max_msg_size"]);
const LIMITS = new Set(["max_msgs", "max_bytes", "max_age", "max_msg_size", "max_msgs_per_subject", "max_consumers"]);

function configuration() {
  const facts = h("dl", { class: "facts" }, skeleton());
  let shown = "";

  function value(key, given) {
    if (LIMITS.has(key) && given <= 0) return "no limit";
    if (DURATIONS.has(key)) return format.nanoseconds(given);
    if (SIZES.has(key)) return format.bytes(given);
    if (typeof given === "boolean") return given ? badge("yes", "accent") : "no";
    if (typeof given === "number") return format.count(given);
    if (Array.isArray(given) && given.every((one) => typeof one === "string")) return visible(given.join(", ") || "none");
    return visible(typeof given === "string" ? given : JSON.stringify(given));
  }

  return {
    node: h("div", { class: "panel" }, facts),
    onStream(view) {
      const text = JSON.stringify(view.config);
      if (text === shown) return;
      shown = text;
      replace(facts, h("div", {}, h("dt", {}, "created"), h("dd", {}, format.time(view.created))),
        ...Object.entries(view.config).map(([key, given]) => h("div", {}, h("dt", {}, visible(key)), h("dd", {}, value(key, given)))));
    },
  };
}
