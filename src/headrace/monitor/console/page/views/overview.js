import { chart } from "../chart.js";
import { h, name, notice, replace, skeleton, visible } from "../dom.js";
import * as format from "../format.js";

const SECONDS = 300;
const HIDDEN = {
  traffic: "Your permissions do not allow you to see connections and traffic.",
  streams: "Your permissions do not allow you to see streams.",
};

function tile(label, value, note = "", kind = "") {
  return h("div", { class: `tile ${kind}` }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note));
}

// Samples are [time, in, out, bytes in, bytes out, syncs, seconds of syncs].
function points(samples, pick) {
  const found = [];
  for (let index = 1; index < samples.length; index += 1) {
    const [before, after] = [samples[index - 1], samples[index]];
    const elapsed = (after[0] - before[0]) / 1000;
    if (elapsed > 0) found.push({ time: after[0], values: pick(before, after, elapsed) });
  }
  return found;
}

const perSecond = (...columns) => (before, after, elapsed) => columns.map((column) => Math.max(0, (after[column] - before[column]) / elapsed));
const syncTime = (before, after) => [after[5] > before[5] ? ((after[6] - before[6]) / (after[5] - before[5])) : 0];

export function overview(app) {
  const messages = chart("Messages", [{ id: "in", title: "in" }, { id: "out", title: "out" }], { mostSeconds: SECONDS, suffix: "/s" });
  const data = chart("Traffic", [{ id: "in", title: "in" }, { id: "out", title: "out" }], { mostSeconds: SECONDS, unit: format.bytes, suffix: "/s" });
  const syncs = chart("Time to sync to disk", [{ id: "sync", title: "mean" }], { mostSeconds: SECONDS, unit: format.duration });
  const tiles = h("div", { class: "panel tiles" });
  const below = h("div", { class: "stack" });
  const content = h("div", { class: "stack" }, h("div", { class: "panel" }, skeleton()));
  const subtitle = h("span", { class: "faint" });
  let samples = [];
  let isShown = false;

  function draw(view) {
    if (view.history) samples = view.history;
    const last = samples[samples.length - 1];
    if (!last || view.sample[0] > last[0]) samples = [...samples, view.sample].filter((one) => one[0] >= view.sample[0] - SECONDS * 1000 - 5000);
    messages.update(points(samples, perSecond(1, 2)));
    data.update(points(samples, perSecond(3, 4)));
    syncs.update(points(samples, syncTime));
  }

  function onView(view) {
    if (!isShown) {
      replace(content, view.hidden.map((part) => notice("", HIDDEN[part])), tiles, view.sample ? h("div", { class: "charts" }, messages.node, data.node, view.usage ? syncs.node : null) : null, below);
      isShown = true;
    }
    if (view.sample) draw(view);
    subtitle.textContent = `Headrace ${view.server.version} · up ${format.duration((view.now - view.server.started) / 1000)}${view.server.accepting ? "" : " · accepts no new clients"}`;
    replace(tiles, ...makeTiles(view));
    replace(below, problems(app, view), slow(app, view));
  }

  const stream = app.live("overview", { history: 1 }, onView, content);
  return { title: "Overview", node: h("div", {}, h("div", { class: "head" }, h("h1", {}, "Overview"), subtitle), content), stop: stream.stop };
}

function makeTiles(view) {
  const { streams, usage } = view;
  const found = [];
  if (view.sample) {
    found.push(tile("Connections", format.count(view.connections), view.total_connections === undefined ? "" : `${format.count(view.total_connections)} since the start`));
    found.push(tile("Subscriptions", format.count(view.subscriptions)));
  }
  if (view.slow_consumers !== undefined) {
    found.push(tile("Slow consumers", format.count(view.slow_consumers), "since the start", view.slow_consumers ? "warn" : ""));
    found.push(tile("Stalls", format.count(view.stalls), "publishers held back"));
  }
  if (streams) {
    found.push(tile("Streams", format.count(streams.count), format.plural(streams.consumers, "consumer")));
    found.push(tile("Stored messages", format.rate(streams.messages), streams.messages >= 1e4 ? format.count(streams.messages) : ""));
    found.push(tile("Stored bytes", format.bytes(streams.bytes), streams.max_storage > 0 ? `of ${format.bytes(streams.max_storage)} on disk` : ""));
  }
  if (usage) {
    found.push(tile("Memory", format.bytes(usage.memory), "of this process"));
    found.push(tile("Processor", `${usage.cpu} %`, "of one core"));
  }
  return found;
}

function problems(app, view) {
  if (!view.streams?.problems.length) return null;
  return h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Streams that need attention")),
    h("ul", { class: "list" }, ...view.streams.problems.map((one) => h("li", {}, h("a", { href: app.link("stream", one.account, one.stream) }, name(one.stream)), h("span", { class: "soft" }, visible(one.text))))));
}

function slow(app, view) {
  if (!view.slow) return null;
  const list = view.slow.length
    ? h("ul", { class: "list" }, ...view.slow.map((one) => h("li", {}, h("b", {}, name(one.name || `cid ${one.cid}`)), h("span", { class: "soft" }, visible(one.address)), h("span", { class: "soft" }, visible(one.reason)), h("span", { class: "faint" }, format.ago(one.stopped, view.now)))))
    : h("div", { class: "empty short" }, h("p", {}, "None. Connections that do not keep up with their messages are closed, and show here."));
  return h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Recent slow consumers")), list);
}
