import * as api from "../api.js";
import { field, question, toast } from "../dialogs.js";
import { badge, empty, h, name, replace, visible } from "../dom.js";
import * as format from "../format.js";
import { listing } from "./listing.js";

const PAUSES = [["60", "1 minute"], ["600", "10 minutes"], ["3600", "1 hour"], ["86400", "1 day"], ["604800", "1 week"], ["31536000", "1 year"]];

export const consumers = (app) => consumerList(app, { title: "Consumers" });

export function consumerList(app, { account, stream, title }) {
  let now = Date.now();
  const inStream = Boolean(stream);
  const columns = [
    {
      id: "name", title: "Consumer", sort: "name", value: (row) => `${row.name}${row.paused}${row.filters}`,
      cell: (row) => h("span", {}, h("span", { class: "cut" }, h("b", {}, name(row.name, 60)), " ", row.paused && badge(`paused, ${format.nanoseconds(row.pause_remaining)} left`, "warn")),
        h("span", { class: "sub cut" }, `${row.kind}, ${row.durable ? "durable" : "ephemeral"}, ack ${row.ack_policy}${row.filters.length ? ", " : ""}`, row.filters.length ? name(row.filters.join(", "), 60) : "")),
    },
    !inStream && { id: "stream", title: "Stream", sort: "stream", value: (row) => row.stream, cell: (row) => h("a", { class: "cut", href: app.link("stream", row.account, row.stream, "consumers") }, name(row.stream, 60)) },
    { id: "pending", title: "Pending", sort: "pending", numeric: true, value: (row) => format.count(row.pending) },
    { id: "ack_pending", title: "Ack pending", sort: "ack_pending", numeric: true, value: (row) => format.count(row.ack_pending) },
    { id: "redelivered", title: "Redelivered", sort: "redelivered", numeric: true, minor: true, value: (row) => row.redelivered, cell: (row) => (row.redelivered ? badge(format.count(row.redelivered), "warn") : "0") },
    { id: "floor", title: "Ack floor", numeric: true, minor: true, value: (row) => format.count(row.ack_floor) },
    { id: "waiting", title: "Requests", numeric: true, minor: true, value: (row) => (row.kind === "pull" ? format.count(row.waiting) : row.bound ? "bound" : "not bound") },
    { id: "idle", title: "Last used", sort: "idle", numeric: true, minor: true, value: (row) => format.ago(row.last_used, now) },
    app.canChange && {
      id: "acts", title: "", value: (row) => `${row.paused}${row.name}${row.groups}`,
      cell: (row) => h("span", { class: "row end" },
        row.paused ? act("Resume", row, resume) : act("Pause", row, pause), act("Reset", row, reset),
        row.groups.length > 0 && act("Unpin", row, unpin), act("Delete", row, remove, "danger")),
    },
  ].filter(Boolean);

  const act = (label, row, work, kind = "") => h("button", { class: `button small ${kind}`, type: "button", "aria-label": `${label} consumer ${row.name}`, onclick: () => work(row) }, label);
  const of = (row) => ({ account: row.account, stream: row.stream, consumer: row.name });
  const done = (text) => (isDone) => { if (isDone) toast("good", text); };

  function pause(row) {
    const time = field("seconds", "For", { options: PAUSES });
    question({ title: `Pause ${visible(row.name)}?`, text: "It delivers nothing until the pause is over. Nothing is lost.", action: "Pause", fields: [time], work: (values) => api.act("consumer.pause", { ...of(row), seconds: Number(values.seconds) }) }).then(done(`${row.name} is paused.`));
  }

  function resume(row) {
    question({ title: `Resume ${visible(row.name)}?`, text: "It delivers again from where it stopped.", action: "Resume", work: () => api.act("consumer.resume", of(row)) }).then(done(`${row.name} delivers again.`));
  }

  function reset(row) {
    const seq = field("seq", "Start again at sequence (optional)", { inputmode: "numeric", placeholder: "after the last acknowledged" }, "Leave it empty to deliver again what was not acknowledged.");
    question({ title: `Reset ${visible(row.name)}?`, text: "Messages from there on are delivered again, also those that are being worked on.", action: "Reset", danger: true, fields: [seq], work: (values) => api.act("consumer.reset", { ...of(row), seq: values.seq.trim() }) }).then(done(`${row.name} is reset.`));
  }

  function unpin(row) {
    const group = field("group", "Priority group", { options: row.groups.map((one) => [one, one]) });
    question({ title: `Unpin ${visible(row.name)}?`, text: "Another client may take over.", action: "Unpin", fields: [group], work: (values) => api.act("consumer.unpin", { ...of(row), group: values.group }) }).then(done(`${row.name} is unpinned.`));
  }

  function remove(row) {
    question({ title: `Delete ${visible(row.name)}?`, text: "Its position in the stream is lost. Clients that use it get an error.", action: "Delete consumer", danger: true, work: () => api.act("consumer.delete", of(row)) }).then(done(`${row.name} is deleted.`));
  }

  const list = listing(app, {
    title,
    view: "consumers",
    values: inStream ? { account, stream } : {},
    words: "consumers",
    caption: "Consumers",
    placeholder: inStream ? "Name" : "Name or stream",
    sort: { sort: "name", order: "up" },
    columns,
    key: (row) => `${row.account}/${row.stream}/${row.name}`,
    onView: (view) => { now = view.now; },
    rowsOf: (view) => view.consumers,
    nothing: () => empty("No consumers", inStream ? "Nobody reads this stream through a consumer. The messages can be browsed without one." : "Clients create consumers to read streams."),
  });
  if (inStream) list.node = h("div", {}, h("div", { class: "head" }, h("span", { class: "space" }), list.search), list.content);
  return list;
}
