// The shell: who is logged in, where we are, and which view is shown.

import * as api from "./api.js";
import { toast } from "./dialogs.js";
import { badge, empty, h, icon, notice, replace, visible } from "./dom.js";
import { connections } from "./views/connections.js";
import { consumers } from "./views/consumers.js";
import { bucket, buckets } from "./views/keyvalue.js";
import { loginPage } from "./views/login.js";
import { overview } from "./views/overview.js";
import { publish } from "./views/publish.js";
import { stream } from "./views/stream.js";
import { streams } from "./views/streams.js";
import { tables } from "./views/tables.js";

const VIEWS = { overview, connections, streams, stream, consumers, buckets, bucket, tables, publish };
const NAVIGATION = [
  ["overview", "Overview", "overview"],
  ["connections", "Connections", "connections"],
  ["streams", "Streams", "streams"],
  ["consumers", "Consumers", "consumers"],
  ["buckets", "Key-value", "keyvalue"],
  ["tables", "Tables", "tables"],
  ["publish", "Publish", "publish"],
];
const BELONGS_TO = { stream: "streams", bucket: "buckets" };
const ACCOUNT_KEY = "headrace-console-account";

const root = document.getElementById("app");
const state = { session: null, current: null, account: "" };

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

// What views get.
const app = {
  link,
  get viewer() { return state.session.viewer; },
  get account() { return state.account; },
  get canChange() { return !state.session.viewer.is_read_only; },
  get hasAccounts() { return state.session.viewer.accounts.length > 1; },
  navigate(...parts) { location.hash = link(...parts); },
  title(account) { return state.session.viewer.accounts.find((one) => one.name === account)?.title ?? account; },
  fail(error, node) {
    if (error.status === 401) { start(); return; }
    if (node) replace(node, notice("bad", error.message));
    else toast("bad", error.message);
  },
  live(name, values, onView, node) {
    const stream = api.live(name, { account: state.account, ...values }, {
      onView,
      onState: setState,
      onRefused: (error) => app.fail(error, node),
    });
    return stream;
  },
};

function setState(which) {
  const node = root.querySelector(".live");
  if (!node || node.dataset.state === which) return;
  node.dataset.state = which;
  node.setAttribute("aria-label", { live: "Live", waiting: "Reconnecting", off: "Not live" }[which]);
  replace(node, which !== "off" && h("span", {}, { live: "Live", waiting: "Reconnecting…" }[which]));
}

async function start() {
  state.current?.stop?.();
  state.current = null;
  try {
    state.session = await api.session();
  } catch (error) {
    replace(root, h("div", { class: "boot" }, notice("bad", error.message), h("p", {}, h("button", { class: "button", type: "button", onclick: start }, "Try again"))));
    return;
  }
  if (!state.session.viewer) {
    document.title = "Log in · Headrace";
    replace(root, loginPage(state.session, (session) => { state.session = { ...state.session, ...session }; open(); }));
    root.querySelector("input")?.focus();
    return;
  }
  open();
}

function open() {
  const { viewer } = state.session;
  const remembered = sessionStorage.getItem(ACCOUNT_KEY) ?? "";
  state.account = viewer.accounts.length > 1 && viewer.accounts.some((one) => one.name === remembered) ? remembered : "";
  replace(root, shell());
  route();
}

function shell() {
  const { viewer, needs_login: needsLogin } = state.session;
  const chooser = viewer.accounts.length > 1 && h("select", {
    "aria-label": "Account",
    onchange: (event) => {
      state.account = event.target.value;
      sessionStorage.setItem(ACCOUNT_KEY, state.account);
      route();
    },
  }, h("option", { value: "" }, "All accounts"), ...viewer.accounts.map((one) => h("option", { value: one.name, selected: one.name === state.account }, visible(one.title))));
  return h("div", { class: "shell" },
    h("header", { class: "top" },
      h("a", { class: "brand", href: link("overview") }, h("img", { src: "console/icon.svg", alt: "" }), "Headrace"),
      h("span", { class: "server-name", title: visible(state.session.server) }, visible(state.session.server)),
      h("span", { class: "space" }),
      h("span", { class: "live", "data-state": "off", role: "status", "aria-label": "Not live" }),
      chooser,
      h("div", { class: "who" },
        viewer.is_read_only && badge("read-only", "warn"),
        needsLogin && h("span", { class: "user", title: visible(viewer.user) }, visible(viewer.user || "no name")),
        needsLogin && h("button", { class: "button small", type: "button", onclick: leave }, "Log out"))),
    h("nav", { class: "side", "aria-label": "Views" }, h("ul", {}, ...NAVIGATION.map(([view, title, picture]) => h("li", {}, h("a", { href: link(view), "data-view": view }, icon(picture), title))))),
    h("main", { id: "main", tabindex: -1 }));
}

async function leave() {
  try {
    await api.logout();
  } catch (error) {
    toast("bad", error.message);
  }
  start();
}

function route() {
  if (!state.session?.viewer) return;
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    parts = [];
  }
  const [name = "", ...rest] = parts;
  const main = root.querySelector("main");
  state.current?.stop?.();
  state.current = null;
  setState("off");
  const which = name || "overview";
  for (const anchor of root.querySelectorAll("nav.side a")) {
    if (anchor.dataset.view === (BELONGS_TO[which] || which)) {
      anchor.setAttribute("aria-current", "page");
      anchor.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else anchor.removeAttribute("aria-current");
  }
  if (!Object.hasOwn(VIEWS, which)) {
    replace(main, empty("There is no such view", h("a", { href: link("overview") }, "Go to the overview")));
    return;
  }
  state.current = VIEWS[which](app, rest);
  replace(main, state.current.node);
  document.title = `${state.current.title} · Headrace`;
  window.scrollTo(0, 0);
}

window.addEventListener("hashchange", () => { route(); root.querySelector("main")?.focus({ preventScroll: true }); });
start();
