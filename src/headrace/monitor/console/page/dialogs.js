// Questions before something is changed, and what became of it.

import { h, notice, visible } from "./dom.js";

const toasts = h("div", { class: "toasts", "aria-live": "polite" });
document.body.append(toasts);

export function toast(kind, text) {
  const node = notice(kind, text);
  toasts.append(node);
  setTimeout(() => node.remove(), kind === "bad" ? 9000 : 5000);
}

// Resolves when the work is done, or with false if the user changed their mind. Errors stay in the dialog.
export function question({ title, text, action, danger = false, fields = [], confirm = "", isNote = false, wide = false, work }) {
  return new Promise((resolve) => {
    const problem = h("div");
    const submit = h("button", { class: `button primary ${danger ? "danger" : ""}`, type: "submit" }, action);
    const typed = confirm && h("input", { type: "text", autocomplete: "off", spellcheck: "false", name: "confirm" });
    if (typed) {
      submit.disabled = true;
      typed.addEventListener("input", () => { submit.disabled = typed.value !== confirm; });
    }
    const form = h("form", { method: "dialog" },
      h("h2", {}, title),
      text && h("p", {}, ...[text].flat()),
      ...fields.map((field) => field.node),
      typed && h("label", { class: "field" }, h("span", {}, "Type ", h("code", {}, visible(confirm)), " to confirm"), typed),
      problem,
      h("div", { class: "row end" },
        !isNote && h("button", { class: "button", type: "button", onclick: () => finish(false) }, "Cancel"),
        submit));
    const dialog = h("dialog", { "aria-label": title, class: wide && "wide" }, form);

    function finish(result) {
      dialog.close();
      dialog.remove();
      resolve(result);
    }

    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      problem.replaceChildren();
      try {
        await work(Object.fromEntries(fields.map((field) => [field.name, field.input.value])), typed ? typed.value : "");
        finish(true);
      } catch (error) {
        problem.replaceChildren(notice("bad", error.message));
        submit.disabled = false;
      }
    });
    dialog.addEventListener("cancel", (event) => { event.preventDefault(); finish(false); });
    document.body.append(dialog);
    dialog.showModal();
    (typed || fields[0]?.input || submit).focus();
  });
}

export function field(name, label, properties = {}, hint = "") {
  const { options, lines, ...rest } = properties;
  const input = options
    ? h("select", { name, ...rest }, ...options.map(([value, title]) => h("option", { value }, title)))
    : lines ? h("textarea", { name, rows: lines, spellcheck: "false", ...rest })
    : h("input", { type: "text", name, autocomplete: "off", spellcheck: "false", ...rest });
  return { name, input, node: h("label", { class: "field" }, label, input, hint && h("span", { class: "hint" }, hint)) };
}
