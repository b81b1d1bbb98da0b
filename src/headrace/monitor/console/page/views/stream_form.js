// The form that creates and edits streams. The server reads and writes the texts of its fields.

import * as api from "../api.js";
import { field, question, toast } from "../dialogs.js";
import { h, visible } from "../dom.js";

const RETENTIONS = [["limits", "limits: until a limit is reached"], ["interest", "interest: until all consumers have acknowledged"], ["workqueue", "workqueue: until a consumer has acknowledged"]];
const STORAGES = [["file", "file: survives a restart"], ["memory", "memory: lost with the server"]];
const DISCARDS = [["old", "delete the oldest messages"], ["new", "refuse new messages"]];
const NONE = { placeholder: "no limit" };

// `settings` are those of an existing stream, and empty for a new one.
function formFields(settings) {
  const given = (name, ...rest) => {
    const made = field(name, ...rest);
    if (settings[name]) made.input.value = settings[name];
    return made;
  };
  const half = (made) => { made.node.classList.add("half"); return made; };
  const count = { ...NONE, inputmode: "numeric" };
  return {
    subjects: given("subjects", "Subjects", { lines: 2, placeholder: "orders.>" }, "One per line. * is any token and > any rest. Empty: the name of the stream."),
    retention: given("retention", "Keep messages", { options: RETENTIONS }),
    storage: half(given("storage", "Storage", { options: STORAGES })),
    discard: half(given("discard", "When it is full", { options: DISCARDS })),
    max_msgs: half(given("max_msgs", "Most messages", count)),
    max_bytes: half(given("max_bytes", "Most bytes", NONE, "Such as 512MB or 10GB")),
    max_msgs_per_subject: half(given("max_msgs_per_subject", "Most messages of a subject", count)),
    max_age: half(given("max_age", "Longest age", NONE, "Such as 1h30m or 7d")),
    max_msg_size: half(given("max_msg_size", "Largest message", NONE, "Such as 64KB")),
    description: half(given("description", "Description")),
  };
}

const only = (fields, texts) => Object.fromEntries(Object.keys(fields).filter((name) => texts[name] !== undefined).map((name) => [name, texts[name]]));

export function createStream(app) {
  const { accounts } = app.viewer;
  const fields = formFields({});
  const stream = field("stream", "Name", { placeholder: "ORDERS", required: true });
  const account = field("account", "Account", { options: accounts.map((one) => [one.name, visible(one.title)]) });
  account.input.value = app.account || app.viewer.account;
  const asksAccount = accounts.length > 1;
  question({
    title: "Create a stream",
    action: "Create stream",
    wide: true,
    fields: [stream, ...(asksAccount ? [account] : []), ...Object.values(fields)],
    work: async (texts) => {
      const where = { account: asksAccount ? texts.account : app.viewer.account, stream: texts.stream.trim() };
      await api.act("stream.create", { ...where, settings: only(fields, texts) });
      toast("good", `The stream ${where.stream} is created.`);
      app.navigate("stream", where.account, where.stream);
    },
  });
}

export function editStream(app, view, onSaved) {
  const fields = formFields(view.settings);
  const before = Object.fromEntries(Object.entries(fields).map(([name, one]) => [name, one.input.value]));
  fields.storage.input.disabled = true; // it cannot be changed
  if (view.config.mirror) delete fields.subjects;
  else if (view.settings.subjects.includes(",")) fields.subjects.input.disabled = true; // commas separate them here
  question({
    title: `Edit ${visible(view.name)}`,
    text: "A lower limit deletes the messages beyond it at once, for good.",
    action: "Save",
    wide: true,
    fields: Object.values(fields),
    work: async (texts) => {
      const changed = Object.fromEntries(Object.entries(only(fields, texts)).filter(([name, text]) => text !== before[name]));
      if (Object.keys(changed).length) await api.act("stream.update", { account: view.account, stream: view.name, settings: changed });
      toast("good", `The stream ${view.name} is saved.`);
      onSaved();
    },
  });
}
