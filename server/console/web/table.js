// Tables. On narrow screens each row becomes a block whose cells have their column's title.

import { h, newId, refill } from "./dom.js";

/**
 * Returns a table with update(rows). columns: [{title, cell: (row, i) => node or text, number,
 * class}]; the first is the heading of its row. key: (row) => a text that names it: its element
 * stays, and cells that changed are replaced, so listeners in cells may depend on nothing but the
 * key. none: what stands for no rows. compact: it fits narrow screens as it is.
 */
export function table({
  caption, captionHidden = true, columns, rows, key, none, compact = false, class: name,
}) {
  const id = newId("caption");
  const body = h("tbody");
  const heads = columns.map(({ title, number }) =>
    h("th", { scope: "col", class: number && "number" }, title));
  const scroller = h("div",
    { class: "wide", role: "group", tabindex: 0, aria: { labelledby: id } },
    h("table", { class: name },
      h("caption", { id, class: captionHidden && "hidden" }, caption),
      h("thead", h("tr", heads)), body));
  const nothing = h("div", none);
  const element = h("div", { class: !compact && "blocks" }, scroller, nothing);
  let known = new Map();
  element.update = (list) => {
    const next = list.map((row, i) => {
      const rowKey = key ? key(row) : String(i);
      const tr = known.get(rowKey) || h("tr", columns.map(emptyCell));
      columns.forEach((column, j) => refill(tr.cells[j].firstChild, column.cell(row, i)));
      return [rowKey, tr];
    });
    known = new Map(next);
    place(body, next.map(([, tr]) => tr));
    scroller.hidden = list.length === 0;
    nothing.hidden = list.length > 0;
  };
  element.update(rows);
  return element;
}

function emptyCell({ title, number, class: name }, i) {
  return h(i === 0 ? "th" : "td",
    { scope: i === 0 && "row", class: [number && "number", name], data: { title } }, h("div"));
}

/** Puts rows into body in this order, moving only those that are elsewhere. */
function place(body, rows) {
  rows.forEach((row, i) => {
    if (body.children[i] !== row) {
      body.insertBefore(row, body.children[i] || null);
    }
  });
  while (body.children.length > rows.length) {
    body.lastElementChild.remove();
  }
}
