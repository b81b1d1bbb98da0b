// A table that is updated in place: rows keep their elements, so focus and selection survive.

import { h, replace } from "./dom.js";

// columns: {id, title, value(row) → text by which a change is noticed, cell(row) → node or text, sort, numeric, minor, label}
export function table({ columns, key, caption, order, onSort, onRow, rowLabel }) {
  const body = h("tbody");
  const head = h("tr");
  const node = h("div", { class: "scroll" }, h("table", {}, h("caption", { class: "hidden-text" }, caption), h("thead", {}, head), body));
  const known = new Map();

  function drawHead() {
    replace(head, ...columns.map((column) => {
      const classes = [column.numeric && "n", column.minor && "minor", column.id === "acts" && "acts"].filter(Boolean).join(" ");
      const sorted = order && column.sort && order.sort === column.sort ? (order.order === "down" ? "descending" : "ascending") : null;
      const title = column.sort && onSort
        ? h("button", { type: "button", onclick: () => sort(column) }, column.title)
        : column.id === "acts" ? h("span", { class: "hidden-text" }, "Actions") : column.title;
      return h("th", { scope: "col", class: classes || null, "aria-sort": sorted }, title);
    }));
  }

  function sort(column) {
    const isSame = order.sort === column.sort;
    order.order = isSame ? (order.order === "down" ? "up" : "down") : column.numeric ? "down" : "up";
    order.sort = column.sort;
    drawHead();
    onSort(order);
  }

  function makeRow(row) {
    const cells = columns.map((column) => h("td", { class: [column.numeric && "n", column.minor && "minor", column.id === "acts" && "acts"].filter(Boolean).join(" ") || null }));
    const entry = { cells, texts: columns.map(() => null), row };
    entry.node = h("tr", onRow ? {
      class: "link",
      tabindex: 0,
      "aria-label": rowLabel ? rowLabel(row) : null,
      onclick: (event) => { if (!event.target.closest("a, button")) onRow(entry.row, entry.node); },
      onkeydown: (event) => { if (event.key === "Enter" && event.target === entry.node) onRow(entry.row, entry.node); },
    } : {}, ...cells);
    return entry;
  }

  function update(rows) {
    const keys = new Set();
    let previous = null;
    for (const row of rows) {
      const id = key(row);
      keys.add(id);
      let entry = known.get(id);
      if (!entry) { entry = makeRow(row); known.set(id, entry); }
      entry.row = row;
      columns.forEach((column, index) => {
        const text = String(column.value ? column.value(row) : column.cell(row));
        if (text !== entry.texts[index]) {
          entry.texts[index] = text;
          replace(entry.cells[index], column.cell ? column.cell(row) : text);
        }
      });
      const place = previous ? previous.nextSibling : body.firstChild;
      if (place !== entry.node) body.insertBefore(entry.node, place);
      previous = entry.node;
    }
    for (const [id, entry] of known) if (!keys.has(id)) { entry.node.remove(); known.delete(id); }
  }

  drawHead();
  return { node, update, clear() { known.clear(); replace(body); }, rows: () => known };
}

export function pager(onMove) {
  const text = h("span", { "aria-live": "polite" });
  const back = h("button", { type: "button", class: "button small", onclick: () => onMove(-1) }, "Previous");
  const forth = h("button", { type: "button", class: "button small", onclick: () => onMove(1) }, "Next");
  const node = h("div", { class: "pager" }, text, h("span", { class: "space" }), back, forth);
  return {
    node,
    update({ offset, limit, total, shown, words }) {
      const from = shown ? offset + 1 : 0;
      const things = total === 1 ? words.replace(/s$/, "") : words;
      text.textContent = total > limit || offset ? `${from.toLocaleString("en-US")} to ${(offset + shown).toLocaleString("en-US")} of ${total.toLocaleString("en-US")} ${things}` : `${total.toLocaleString("en-US")} ${things}`;
      back.disabled = offset <= 0;
      forth.disabled = offset + shown >= total;
      back.hidden = forth.hidden = total <= limit && !offset;
    },
  };
}

export function searchField(label, placeholder, onChange, value = "") {
  let timer = null;
  const input = h("input", { type: "search", placeholder, "aria-label": label, value, autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => onChange(input.value.trim()), 250);
  });
  return input;
}
