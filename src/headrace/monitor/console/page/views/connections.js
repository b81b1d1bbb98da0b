import * as api from "../api.js";
import { Rates } from "../chart.js";
import { question, toast } from "../dialogs.js";
import { badge, empty, h, name, notice, replace, skeleton, visible } from "../dom.js";
import * as format from "../format.js";
import { listing } from "./listing.js";

export function connections(app) {
  const rates = new Rates();
  let now = Date.now();
  const rate = (row, index) => row.rates[index];
  const columns = [
    { id: "cid", title: "ID", sort: "cid", numeric: true, minor: true, value: (row) => row.cid },
    {
      id: "name", title: "Client", sort: "name", value: (row) => row.name + row.client + row.address,
      cell: (row) => h("span", {}, h("span", { class: "cut" }, row.name ? name(row.name, 80) : h("span", { class: "faint" }, "no name")), h("span", { class: "sub" }, `${cutClient(row)}${visible(row.address)}`)),
    },
    { id: "user", title: "User", sort: "user", minor: true, value: (row) => `${row.user}/${row.account}`, cell: (row) => h("span", {}, row.user ? name(row.user, 40) : h("span", { class: "faint" }, "–"), app.hasAccounts && h("span", { class: "sub" }, name(app.title(row.account), 40))) },
    { id: "in", title: "In/s", sort: "in_msgs", numeric: true, value: (row) => format.rate(rate(row, 0)), cell: (row) => twoLines(format.rate(rate(row, 0)), `${format.count(row.in_msgs)}`) },
    { id: "out", title: "Out/s", sort: "out_msgs", numeric: true, value: (row) => format.rate(rate(row, 1)) + row.out_msgs, cell: (row) => twoLines(format.rate(rate(row, 1)), `${format.count(row.out_msgs)}`) },
    { id: "bytes", title: "Bytes out/s", sort: "out_bytes", numeric: true, minor: true, value: (row) => format.bytes(rate(row, 3)) },
    { id: "pending", title: "Pending", sort: "pending", numeric: true, value: (row) => row.pending, cell: (row) => (row.pending ? badge(format.bytes(row.pending), row.pending > 1e6 ? "warn" : "") : "0") },
    { id: "subscriptions", title: "Subs", sort: "subscriptions", numeric: true, value: (row) => format.count(row.subscriptions) },
    { id: "idle", title: "Idle", sort: "idle", numeric: true, minor: true, value: (row) => (row.idle < 1 ? "now" : format.duration(row.idle)) },
    { id: "rtt", title: "RTT", sort: "rtt", numeric: true, minor: true, value: (row) => (row.rtt ? format.duration(row.rtt) : "–") },
  ];
  columns[3].value = (row) => format.rate(rate(row, 0)) + row.in_msgs;
  if (app.canChange) columns.push({ id: "acts", title: "", value: (row) => row.cid, cell: (row) => h("button", { class: "button small danger", type: "button", "aria-label": `Close connection ${row.cid}`, onclick: () => close(row) }, "Close") });

  function close(row) {
    question({
      title: `Close connection ${row.cid}?`,
      text: ["The client ", h("b", {}, name(row.name || row.address, 100)), " is disconnected. Most clients reconnect by themselves."],
      action: "Close connection",
      danger: true,
      work: () => api.act("connection.close", { cid: row.cid }),
    }).then((done) => done && toast("good", `Connection ${row.cid} is closed.`));
  }

  const list = listing(app, {
    title: "Connections",
    view: "connections",
    words: "connections",
    caption: "Connections",
    placeholder: "Name, user, address or ID",
    sort: { sort: "cid", order: "up" },
    columns,
    key: (row) => row.cid,
    rowLabel: (row) => `Connection ${row.cid}, show its subscriptions`,
    onRow: showSubscriptions,
    onView: (view) => { now = view.now; rates.forgetAllBut(new Set(view.connections.map((one) => one.cid))); },
    rowsOf: (view) => view.connections.map((row) => ({ ...row, rates: rates.next(row.cid, view.now, [row.in_msgs, row.out_msgs, row.in_bytes, row.out_bytes]).rates })),
    nothing: () => empty("Nobody is connected", "Clients that connect show here at once. Try ", h("code", {}, "headrace sub 'greet.*'"), "."),
  });

  async function showSubscriptions(row) {
    const body = h("div", {}, skeleton());
    question({ title: `Connection ${row.cid}`, text: [body], action: "Done", isNote: true, work: async () => {} });
    try {
      const view = await api.view("connection", { cid: row.cid });
      const one = view.connection;
      replace(body,
        h("dl", { class: "facts" },
          fact("Name", name(one.name || "–", 200)), fact("Address", visible(one.address)), fact("Client", visible(one.client) || "–"),
          fact("Protocol", one.tls ? `${one.kind}, ${one.tls}` : one.kind), fact("Connected", format.ago(one.started, now)), fact("Subscriptions", format.count(one.subscriptions))),
        view.subscriptions.length
          ? h("ul", { class: "list" }, ...view.subscriptions.map((sub) => h("li", {}, h("code", {}, name(sub.subject, 200)), sub.queue && badge(`queue ${visible(sub.queue)}`), h("span", { class: "faint" }, `${format.count(sub.delivered)} delivered`))))
          : h("p", {}, "It subscribes to nothing."),
        one.subscriptions > view.subscriptions.length && h("p", {}, `${format.count(one.subscriptions - view.subscriptions.length)} more are not shown.`));
    } catch (error) {
      replace(body, notice("bad", error.message));
    }
  }

  return list;
}

const fact = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
const twoLines = (first, second) => h("span", {}, first, h("span", { class: "sub" }, second));
const cutClient = (row) => (row.client ? `${visible(row.client).slice(0, 40)} · ` : "");
