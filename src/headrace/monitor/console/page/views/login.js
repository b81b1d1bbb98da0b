// The login form: a user with a password, a token, or a credentials file, whose key stays in the browser.

import * as api from "../api.js";
import { h, notice, replace } from "../dom.js";
import { signIn } from "../nkeys.js";

export function loginPage(session, onDone) {
  const problem = h("div");
  const fields = h("div", { class: "fields" });
  const modes = [["password", "User"], ["token", "Token"], ["creds", "Credentials"]];
  let mode = "password";
  let inputs = {};

  const input = (key, label, type, autocomplete) => {
    inputs[key] = h("input", { type, name: key, autocomplete, spellcheck: "false", autocapitalize: "none" });
    return h("label", { class: "field" }, label, inputs[key]);
  };

  const buttons = modes.map(([which, title]) => h("button", { type: "button", "data-mode": which, onclick: () => choose(which) }, title));

  function choose(which) {
    mode = which;
    inputs = {};
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.mode === which));
    if (which === "password") replace(fields, input("user", "User", "text", "username"), input("password", "Password", "password", "current-password"));
    else if (which === "token") replace(fields, input("token", "Token", "password", "current-password"));
    else {
      inputs.file = h("textarea", { rows: 6, name: "file", spellcheck: "false", placeholder: "-----BEGIN NATS USER JWT-----" });
      replace(fields, h("label", { class: "field" }, "Contents of a .creds file, or an nkey seed", inputs.file, h("span", { class: "hint" }, "The seed signs a challenge here and is not sent.")));
    }
    fields.querySelector("input, textarea").focus();
  }

  async function submit(event) {
    event.preventDefault();
    replace(problem);
    button.disabled = true;
    try {
      const values = Object.fromEntries(Object.entries(inputs).map(([key, node]) => [key, node.value]));
      onDone(await api.login(mode === "creds" ? await signIn(values.file) : values));
    } catch (error) {
      replace(problem, notice("bad", error.message));
      button.disabled = false;
    }
  }

  const button = h("button", { class: "button primary", type: "submit" }, "Log in");
  const form = h("form", { class: "fields", onsubmit: submit },
    h("div", { class: "segmented", role: "group", "aria-label": "Log in with" }, ...buttons), fields, problem, button);
  choose("password");
  return h("main", { class: "login", id: "main" },
    h("div", { class: "panel" },
      h("div", { class: "brand" }, h("img", { src: "console/icon.svg", alt: "" }), h("h1", {}, "Headrace")),
      h("p", {}, "Log in as a user of this server."),
      form));
}
