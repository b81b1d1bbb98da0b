// Requests to the server that served this page, and its live events.

const BASE = "console/api";
let token = "";

export class Refused extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`${BASE}/${path}`, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Refused(0, "The server cannot be reached.");
  }
  let document;
  try {
    document = await response.json();
  } catch {
    throw new Refused(response.status, `The server answered ${response.status} ${response.statusText}.`);
  }
  if (document.error) throw new Refused(document.error.status, document.error.message, document.error.err_code);
  return document;
}

const post = (path, body) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Headrace-Console": token },
    body: JSON.stringify(body),
  });

function remember(session) {
  token = session.token || token;
  return session;
}

function parameters(values) {
  const given = Object.entries(values || {}).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export const session = async () => remember(await ask("session"));
export const nonce = async () => (await ask("nonce")).nonce;
export const login = async (credentials) => remember(await post("login", credentials));
export const logout = () => post("logout", {});
export const view = (name, values) => ask(`view/${name}${parameters(values)}`);
export const act = (name, body) => post(`act/${name}`, body);

const RETRY_MILLISECONDS = 2000;

// Shows a view live until `stop` is called. While the page is hidden, nothing is asked for.
export function live(name, values, { onView, onState, onRefused }) {
  let source = null;
  let retry = null;
  let stopped = false;

  function close() {
    clearTimeout(retry);
    source?.close();
    source = null;
  }

  function open() {
    close();
    if (stopped || document.hidden) return;
    source = new EventSource(`${BASE}/live/${name}${parameters(values)}`);
    source.addEventListener("view", (event) => {
      onState("live");
      onView(JSON.parse(event.data));
    });
    source.addEventListener("refused", (event) => {
      close();
      const { status, message } = JSON.parse(event.data);
      onState("off");
      onRefused(new Refused(status, message));
    });
    source.onerror = () => {
      onState("waiting");
      close();
      retry = setTimeout(tryAgain, RETRY_MILLISECONDS);
    };
  }

  // EventSource does not say what is wrong. A plain request does.
  async function tryAgain() {
    try {
      await view(name, values);
    } catch (error) {
      if (stopped) return;
      if (error.status === 0 || error.status >= 502) retry = setTimeout(tryAgain, RETRY_MILLISECONDS);
      else onRefused(error);
      return;
    }
    open();
  }

  const onVisibility = () => {
    if (document.hidden) { close(); onState("off"); } else open();
  };
  document.addEventListener("visibilitychange", onVisibility);
  open();
  return {
    stop() {
      stopped = true;
      document.removeEventListener("visibilitychange", onVisibility);
      close();
    },
  };
}
