// A live list: filter, sorted table, pages. Connections, streams and consumers are such lists.

import { empty, h, replace, skeleton } from "../dom.js";
import { pager, searchField, table } from "../table.js";

const ROWS = 50;

// `rowsOf(view)` are the rows of a view; `nothing(view)` is what an empty list says; `action` is a button next to the filter.
export function listing(app, { view, values = {}, columns, key, caption, words, sort, placeholder, rowsOf, onView, nothing, onRow, rowLabel, title, action = null }) {
  const order = { ...sort };
  let filter = "";
  let offset = 0;
  let stream = null;
  const content = h("div", { class: "panel" }, skeleton());
  const rows = table({ columns, key, caption, order, onRow, rowLabel, onSort: () => { offset = 0; open(); } });
  const pages = pager((direction) => { offset = Math.max(0, offset + direction * ROWS); open(); });
  const search = searchField(`Filter ${words}`, placeholder, (text) => { filter = text; offset = 0; open(); });

  function open() {
    stream?.stop();
    stream = app.live(view, { ...values, ...order, filter, offset, limit: ROWS }, show, content);
  }

  function show(document) {
    const found = rowsOf(document);
    const total = document.matching ?? document.total;
    if (!found.length && offset && total) { offset = Math.max(0, Math.floor((total - 1) / ROWS) * ROWS); open(); return; }
    onView?.(document);
    if (!found.length) {
      rows.clear();
      replace(content, filter ? empty(`No ${words} match “${filter}”`, "Change or clear the filter.") : nothing(document) ?? empty(`No ${words}`));
      return;
    }
    if (content.firstChild !== rows.node) replace(content, rows.node, pages.node);
    rows.update(found);
    pages.update({ offset, limit: ROWS, total, shown: found.length, words });
  }

  open();
  return {
    title,
    content,
    search,
    refresh: open,
    node: h("div", {}, h("div", { class: "head" }, h("h1", {}, title), h("span", { class: "space" }), search, action), content),
    stop: () => stream?.stop(),
  };
}
