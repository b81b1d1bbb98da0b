// The message browser.

import * as api from "../api.js";
import { question, toast } from "../dialogs.js";
import { empty, h, name, notice, replace, skeleton, visible } from "../dom.js";
import * as format from "../format.js";
import { headersView, payloadView, preview } from "../payload.js";
import { table } from "../table.js";

const ROWS = 50;

export function messages(app, account, stream) {
  const subject = h("input", { type: "text", name: "subject", placeholder: "orders.*", autocomplete: "off", spellcheck: "false" });
  const where = h("input", { type: "text", name: "where", placeholder: 'amount > 10 and country = "DE"', autocomplete: "off", spellcheck: "false" });
  const from = h("input", { type: "datetime-local", name: "from", step: 1 });
  const to = h("input", { type: "datetime-local", name: "to", step: 1 });
  const order = h("select", { name: "order" }, h("option", { value: "newest" }, "Newest first"), h("option", { value: "oldest" }, "Oldest first"));
  const start = h("input", { type: "text", name: "seq", inputmode: "numeric", placeholder: "any", size: 9 });
  const list = h("div", {}, skeleton());
  const more = h("div", { class: "more", role: "status" });
  const detail = h("section", { class: "panel detail", "aria-label": "Message", hidden: true });
  const split = h("div", { class: "split" });
  let rows = [];
  let asked = null;
  let selected = null;
  let run = 0;

  const listed = table({
    caption: "Messages",
    key: (row) => row.seq,
    rowLabel: (row) => `Message ${row.seq}`,
    onRow: select,
    columns: [
      { id: "seq", title: "Sequence", numeric: true, value: (row) => format.count(row.seq) },
      { id: "time", title: "Time", minor: true, value: (row) => row.time, cell: (row) => h("span", { title: row.time }, format.time(row.time)) },
      { id: "subject", title: "Subject", value: (row) => row.subject, cell: (row) => h("code", { class: "cut" }, name(row.subject, 120)) },
      { id: "payload", title: "Payload", value: (row) => row.data, cell: (row) => h("bdi", { class: "preview" }, preview(row.data, row.is_cut) || h("span", { class: "faint" }, "empty")) },
      { id: "headers", title: "Headers", numeric: true, minor: true, value: (row) => row.headers.length || "" },
      { id: "size", title: "Size", numeric: true, minor: true, value: (row) => format.bytes(row.size) },
    ],
  });

  const milliseconds = (input) => (input.value ? new Date(input.value).getTime() : "");

  async function search(event) {
    event?.preventDefault();
    rows = [];
    asked = { account, stream, subject: subject.value.trim(), where: where.value.trim(), from: milliseconds(from), to: milliseconds(to), order: order.value, limit: ROWS, seq: start.value.trim() };
    replace(list, skeleton());
    replace(more);
    await read();
  }

  async function read() {
    const mine = ++run;
    let view;
    try {
      view = await api.view("messages", asked);
    } catch (error) {
      if (mine === run) app.fail(error, list);
      return;
    }
    if (mine !== run) return;
    rows = [...rows, ...view.messages];
    listed.update(rows);
    if (rows.length) { if (list.firstChild !== listed.node) replace(list, listed.node); } else replace(list, nothing(view));
    asked = { ...asked, seq: view.next };
    describe(view);
  }

  function nothing(view) {
    if (view.next) return empty("Nothing found so far", `${format.count(view.scanned)} messages were looked at.`);
    if (view.state.messages === 0) return empty("No messages", "This stream is empty. Messages that are published to its subjects show here.");
    return empty("No messages match", "Change or clear the filters.");
  }

  function describe(view) {
    const scanned = `scanned ${format.count(view.scanned)}`;
    const long = view.too_long ? `, ${format.plural(view.too_long, "payload")} too long to search` : "";
    replace(more,
      h("span", {}, `${format.plural(rows.length, "message")} shown, ${scanned}${long}`),
      h("span", { class: "grow" }),
      view.next ? h("button", { class: "button small", type: "button", onclick: (event) => { event.target.disabled = true; read(); } }, view.is_full ? "Show more" : "Continue the search") : h("span", { class: "faint" }, "That is all."));
  }

  async function select(row, node) {
    for (const entry of listed.rows().values()) entry.node.setAttribute("aria-selected", String(entry.node === node));
    selected = row.seq;
    detail.hidden = false;
    split.classList.add("open");
    replace(detail, skeleton());
    let message;
    try {
      message = await api.view("message", { account, stream, seq: row.seq });
    } catch (error) {
      if (selected === row.seq) replace(detail, header(row), h("div", { class: "body" }, notice("bad", error.message)));
      return;
    }
    if (selected !== row.seq) return;
    replace(detail, header(message), h("div", { class: "body" },
      h("dl", {}, h("dt", { class: "faint" }, "Subject"), h("dd", {}, h("code", {}, name(message.subject, 1000))), h("dt", { class: "faint" }, "Stored"), h("dd", {}, visible(message.time))),
      headersView(message.headers),
      payloadView(message.data, message.size, message.is_cut)));
  }

  function header(message) {
    return h("header", {}, h("h2", {}, `Message ${format.count(message.seq)}`), h("span", { class: "space" }),
      app.canChange && h("button", { class: "button small danger", type: "button", onclick: () => remove(message.seq) }, "Delete"),
      h("button", { class: "button small quiet", type: "button", "aria-label": "Close the message", onclick: close }, "Close"));
  }

  function close() {
    selected = null;
    detail.hidden = true;
    split.classList.remove("open");
    for (const entry of listed.rows().values()) entry.node.setAttribute("aria-selected", "false");
  }

  function remove(seq) {
    question({
      title: `Delete message ${format.count(seq)}?`,
      text: "It is deleted for good, and overwritten on disk.",
      action: "Delete message",
      danger: true,
      work: async () => {
        await api.act("message.delete", { account, stream, seq });
        toast("good", `Message ${seq} is deleted.`);
        close();
        rows = rows.filter((row) => row.seq !== seq);
        listed.update(rows);
      },
    });
  }

  const labelled = (label, input, kind = "") => h("label", { class: `field ${kind}` }, label, input);
  const form = h("form", { class: "filters", onsubmit: search },
    labelled("Subject", subject, "wide"), labelled("JSON fields", where, "wide"), labelled("From", from, "time"), labelled("To", to, "time"), labelled("Start at", start, "start"), labelled("Order", order),
    h("button", { class: "button primary", type: "submit" }, "Search"));
  replace(split, h("div", { class: "panel" }, form, list, more), detail);
  search();
  return { node: split, refresh: search, stop: () => { run += 1; } };
}
