import * as api from "../api.js";
import { field, question, toast } from "../dialogs.js";
import { badge, empty, h, name, notice, replace, skeleton, visible } from "../dom.js";
import * as format from "../format.js";
import { decode, payloadView, preview } from "../payload.js";
import { pager, searchField, table } from "../table.js";
import { listing } from "./listing.js";

const ROWS = 50;

export function buckets(app) {
  let now = Date.now();
  return listing(app, {
    title: "Key-value buckets",
    view: "buckets",
    words: "buckets",
    caption: "Key-value buckets",
    placeholder: "Name",
    sort: {},
    columns: [
      { id: "bucket", title: "Bucket", value: (row) => row.bucket, cell: (row) => h("span", { class: "cut" }, h("a", { class: "main", href: app.link("bucket", row.account, row.bucket) }, name(row.bucket, 80)), " ", row.is_mirror && badge("mirror")) },
      app.hasAccounts && { id: "account", title: "Account", minor: true, value: (row) => app.title(row.account), cell: (row) => name(app.title(row.account), 40) },
      { id: "keys", title: "Keys", numeric: true, value: (row) => format.count(row.keys) },
      { id: "bytes", title: "Bytes", numeric: true, value: (row) => format.bytes(row.bytes) },
      { id: "history", title: "History", numeric: true, minor: true, value: (row) => format.limit(row.history) },
      { id: "ttl", title: "Expires after", numeric: true, minor: true, value: (row) => (row.ttl > 0 ? format.nanoseconds(row.ttl) : "never") },
      { id: "last", title: "Last change", numeric: true, minor: true, value: (row) => format.ago(row.last_time, now) },
    ].filter(Boolean),
    key: (row) => `${row.account}/${row.bucket}`,
    rowLabel: (row) => `Bucket ${row.bucket}`,
    onRow: (row) => app.navigate("bucket", row.account, row.bucket),
    onView: (view) => { now = view.now; },
    rowsOf: (view) => view.buckets,
    nothing: () => empty("No key-value buckets", "Create one: ", h("code", {}, "headrace kv add config")),
  });
}

const OPERATIONS = { PUT: "", DEL: "warn", PURGE: "bad" };

// How the lines of a text end; null if not all in the same way. A textarea makes them all "\n".
function lineEnd(text) {
  const ends = [...new Set(text.match(/\r\n|\r|\n/g))];
  return ends.length > 1 ? null : ends[0] ?? "\n";
}

export function bucket(app, [account = "", which = ""]) {
  let filter = "";
  let offset = 0;
  let selected = "";
  const list = h("div", {}, skeleton());
  const detail = h("section", { class: "panel detail", "aria-label": "Key", hidden: true });
  const split = h("div", { class: "split" });
  const rows = table({
    caption: "Keys",
    key: (row) => row.key,
    rowLabel: (row) => `Key ${row.key}`,
    onRow: (row) => select(row.key),
    columns: [
      { id: "key", title: "Key", value: (row) => row.key + row.operation, cell: (row) => h("span", { class: "cut" }, h("code", {}, name(row.key, 100)), " ", row.operation !== "PUT" && badge(row.operation === "DEL" ? "deleted" : "purged", OPERATIONS[row.operation])) },
      { id: "value", title: "Value", value: (row) => row.data, cell: (row) => h("bdi", { class: "preview" }, preview(row.data, row.is_cut)) },
      { id: "revision", title: "Revision", numeric: true, minor: true, value: (row) => format.count(row.seq) },
      { id: "time", title: "Changed", numeric: true, minor: true, value: (row) => format.time(row.time) },
    ],
  });
  const pages = pager((direction) => { offset = Math.max(0, offset + direction * ROWS); load(); });

  async function load() {
    try {
      const view = await api.view("keys", { account, bucket: which, filter, offset, limit: ROWS });
      rows.update(view.keys);
      if (view.keys.length) replace(list, rows.node, pages.node);
      else replace(list, filter ? empty(`No keys match “${visible(filter)}”`) : empty("This bucket is empty", app.canChange ? "Add the first key." : ""));
      pages.update({ offset, limit: ROWS, total: view.total, shown: view.keys.length, words: "keys" });
    } catch (error) {
      app.fail(error, list);
    }
  }

  async function select(key) {
    selected = key;
    detail.hidden = false;
    split.classList.add("open");
    replace(detail, skeleton());
    try {
      const view = await api.view("key", { account, bucket: which, key });
      if (selected === key) showKey(view);
    } catch (error) {
      if (selected === key) replace(detail, header(key, null), h("div", { class: "body" }, notice("bad", error.message)));
    }
  }

  function header(key, latest) {
    const changes = app.canChange && latest;
    return h("header", {}, h("h2", {}, name(key, 60)), h("span", { class: "space" }),
      changes && h("button", { class: "button small", type: "button", onclick: () => edit(key, latest) }, "Edit"),
      changes && latest.operation === "PUT" && h("button", { class: "button small danger", type: "button", onclick: () => remove(key, latest) }, "Delete"),
      h("button", { class: "button small quiet", type: "button", "aria-label": "Close the key", onclick: close }, "Close"));
  }

  function showKey(view) {
    const [latest, ...older] = view.history;
    replace(detail, header(view.key, latest), h("div", { class: "body" },
      h("div", { class: "row soft" }, `Revision ${format.count(latest.seq)}`, badge(latest.operation, OPERATIONS[latest.operation]), h("span", { class: "faint" }, format.time(latest.time))),
      latest.operation === "PUT" ? payloadView(latest.data, latest.size, latest.is_cut) : notice("warn", latest.operation === "DEL" ? "This key is deleted." : "This key is purged."),
      h("h2", {}, "History"),
      older.length
        ? h("ul", { class: "list" }, ...older.map((one) => h("li", {}, h("b", {}, format.count(one.seq)), badge(one.operation, OPERATIONS[one.operation]), h("bdi", { class: "preview" }, preview(one.data, one.is_cut)), h("span", { class: "faint" }, format.time(one.time)))))
        : h("p", { class: "faint" }, "The bucket keeps no earlier value.")));
  }

  function close() {
    selected = "";
    detail.hidden = true;
    split.classList.remove("open");
  }

  const valueField = (text) => {
    const input = h("textarea", { rows: 8, name: "value", spellcheck: "false" });
    input.value = text;
    return { name: "value", input, node: h("label", { class: "field" }, "Value", input) };
  };

  function edit(key, latest) {
    let text = "";
    let isText = true;
    if (latest.operation === "PUT") {
      try { text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(decode(latest.data)); } catch { isText = false; }
      if (latest.is_cut || !isText) { toast("bad", "This value cannot be edited here: it is long, or not a text."); return; }
    }
    const end = lineEnd(text);
    if (end === null) { toast("bad", "This value cannot be edited here: its lines end in different ways, and an editor would change them."); return; }
    question({
      title: `Edit ${visible(key)}`,
      text: `It is only stored if revision ${format.count(latest.seq)} is still the newest.`,
      action: "Save",
      fields: [valueField(text)],
      work: (values) => api.act("key.put", { account, bucket: which, key, value: values.value.replaceAll("\n", end), revision: latest.seq }),
    }).then((done) => { if (done) { toast("good", `${key} is saved.`); select(key); load(); } });
  }

  function remove(key, latest) {
    question({
      title: `Delete ${visible(key)}?`,
      text: "Its history stays, as far as the bucket keeps it.",
      action: "Delete key",
      danger: true,
      work: () => api.act("key.delete", { account, bucket: which, key, revision: latest.seq }),
    }).then((done) => { if (done) { toast("good", `${key} is deleted.`); select(key); load(); } });
  }

  function add() {
    const key = field("key", "Key", { placeholder: "limits.max_orders" });
    question({
      title: "Add a key",
      action: "Add",
      fields: [key, valueField("")],
      work: (values) => api.act("key.put", { account, bucket: which, key: values.key.trim(), value: values.value, revision: "0" }),
    }).then((done) => { if (done) { toast("good", "The key is added."); select(key.input.value.trim()); load(); } });
  }

  load();
  const search = searchField("Filter keys", "limits.>", (text) => { filter = text; offset = 0; load(); });
  replace(split, h("div", { class: "panel" }, h("div", { class: "filters" }, h("label", { class: "field wide" }, "Key, * is any token and > any rest", search), h("button", { class: "button", type: "button", onclick: load }, "Refresh")), list), detail);
  const node = h("div", {},
    h("div", { class: "crumbs" }, h("a", { href: app.link("buckets") }, "Key-value"), " · ", h("a", { href: app.link("stream", account, `KV_${which}`) }, "its stream")),
    h("div", { class: "head" }, h("h1", {}, name(which, 100)), h("span", { class: "space" }), app.canChange && h("button", { class: "button primary", type: "button", onclick: add }, "Add a key")),
    split);
  return { title: which, node };
}
