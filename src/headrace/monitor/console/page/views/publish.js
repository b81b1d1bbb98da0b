import * as api from "../api.js";
import { badge, empty, h, notice, replace, visible } from "../dom.js";
import * as format from "../format.js";
import { headersView, payloadView } from "../payload.js";

export function publish(app) {
  const accounts = app.viewer.accounts;
  const account = h("select", { name: "account" }, ...accounts.map((one) => h("option", { value: one.name, selected: one.name === app.account }, visible(one.title))));
  const subject = h("input", { type: "text", name: "subject", placeholder: "greet.anna", autocomplete: "off", spellcheck: "false", required: true });
  const payload = h("textarea", { name: "payload", rows: 10, spellcheck: "false", placeholder: '{"hello": "Anna"}' });
  const seconds = h("input", { type: "number", name: "seconds", min: "0.1", max: "60", step: "0.1", value: "5" });
  const headers = h("div", { class: "fields" });
  const answer = h("div", { "aria-live": "polite" }, empty("Nothing sent yet", "What a stream or a responder answers shows here."));

  function addHeader() {
    const key = h("input", { type: "text", placeholder: "Name", "aria-label": "Header name", autocomplete: "off", spellcheck: "false" });
    const value = h("input", { type: "text", placeholder: "Value", "aria-label": "Header value", autocomplete: "off", spellcheck: "false" });
    const row = h("div", { class: "header-row" }, key, value, h("button", { class: "button quiet", type: "button", "aria-label": "Remove this header", onclick: () => row.remove() }, "Remove"));
    headers.append(row);
    key.focus();
  }

  const message = () => ({
    account: account.value || app.viewer.account,
    subject: subject.value.trim(),
    payload: payload.value,
    headers: Array.from(headers.children, (row) => Array.from(row.querySelectorAll("input"), (input) => input.value)).filter(([key]) => key.trim()).map(([key, value]) => [key.trim(), value]),
  });

  async function send(work, show) {
    for (const button of buttons) button.disabled = true;
    try {
      replace(answer, show(await work()));
    } catch (error) {
      if (error.status === 401) app.fail(error);
      replace(answer, h("div", { class: "body fields" }, notice("bad", error.message)));
    }
    for (const button of buttons) button.disabled = false;
  }

  const doPublish = (event) => {
    event.preventDefault();
    send(() => api.act("publish", message()), (result) => h("div", { class: "body fields" }, result.stream
      ? notice("good", result.duplicate ? `The stream ${result.stream} already has it, as ${format.count(result.seq)}.` : `Stored in ${result.stream} as message ${format.count(result.seq)}.`)
      : result.delivered ? notice("good", "Published to its subscribers.") : notice("warn", "Published, but nobody subscribes to this subject.")));
  };

  const doRequest = () => {
    if (!form.reportValidity()) return;
    send(() => api.act("request", { ...message(), seconds: Number(seconds.value) }), (result) => h("div", { class: "body fields" },
      h("div", { class: "row soft" }, badge("answer", "good"), `after ${format.duration(result.seconds)}`),
      headersView(result.headers), payloadView(result.data, result.size, result.is_cut)));
  };

  const buttons = [h("button", { class: "button primary", type: "submit" }, "Publish"), h("button", { class: "button", type: "button", onclick: doRequest }, "Request an answer")];
  const form = h("form", { class: "fields pad", onsubmit: doPublish },
    accounts.length > 1 && h("label", { class: "field" }, "Account", account),
    h("label", { class: "field" }, "Subject", subject),
    h("label", { class: "field" }, "Payload", payload),
    h("div", { class: "field-group" }, h("div", { class: "row" }, h("h2", { class: "grow" }, "Headers"), h("button", { class: "button small", type: "button", onclick: addHeader }, "Add a header")), headers),
    h("label", { class: "field" }, "Wait for an answer, in seconds", seconds),
    h("div", { class: "row" }, ...buttons));
  const node = h("div", {},
    h("div", { class: "head" }, h("h1", {}, "Publish and request")),
    app.canChange
      ? h("div", { class: "pair" }, h("section", { class: "panel" }, form), h("section", { class: "panel", "aria-label": "Answer" }, h("header", {}, h("h2", {}, "Answer")), answer))
      : h("div", { class: "panel" }, empty("Your user is read-only", "It cannot publish from here.")));
  return { title: "Publish", node };
}
