// The list of biz types: search, and paging over as many as there are.

import { get } from "./api.js";
import { h, put } from "./dom.js";
import { parse } from "./json.js";
import { link } from "./routes.js";
import { onlyNumbers } from "./scopes.js";
import { matchOf, strategyOf, summary } from "./settings.js";
import { busy, button, empty, field, fill, linkButton, page, pager, status, table } from "./ui.js";
import { count, meaning, sentence, time } from "./words.js";

/** How many rows a page has. */
const rowsOfPage = 50;
/** How long to wait for more typing, in milliseconds. */
const pause = 300;

/** Shows the biz types that the address asks for: ?match= and ?after=. */
export async function show(main, { query }, ctx) {
  if (!ctx.may("read")) {
    put(main, page("Biz types", {}, onlyNumbers(ctx)));
    return;
  }
  const list = {
    ctx, match: query.get("match") ?? "", after: query.get("after") ?? "", earlier: [], stop: null,
    pane: h("div", busy()), said: h("p", { class: "soft", role: "status" }),
  };
  put(main, page("Biz types", {
    actions: ctx.may("admin") ? linkButton("New biz type", "#/new", { kind: "primary" })
      : button("New biz type", { why: ctx.why("admin") }),
  }, h("div", { class: "list-head" }, searchField(list).element, list.said), list.pane));
  ctx.onLeave(() => list.stop?.abort());
  await showPage(list);
}

function searchField(list) {
  let timer = 0;
  const search = (match) => match !== list.match && turn(list, { match, after: "", earlier: [] });
  const input = ({ target }) => {
    clearTimeout(timer);
    timer = setTimeout(() => search(target.value.trim()), pause);
  };
  list.ctx.onLeave(() => clearTimeout(timer));
  return field({
    label: "Search", name: "match", help: "A part of a name will do; * is any text. Upper and lower case count.",
    input: { type: "search", value: list.match, spellcheck: "false", autocapitalize: "off", on: { input } },
  });
}

function turn(list, to) {
  Object.assign(list, to);
  list.ctx.replace(addressOf(list));
  return showPage(list);
}

function addressOf({ match, after }) {
  const query = new URLSearchParams(Object.entries({ match, after }).filter(([, value]) => value));
  return `#/biz-types${query.size > 0 ? `?${query}` : ""}`;
}

/** Shows the page of the list that begins behind list.after. */
function showPage(list) {
  list.stop?.abort();
  list.stop = new AbortController();
  const { signal } = list.stop;
  put(list.said);
  return fill(list.pane, () => Promise.all([search(list, signal), findTroubles(signal)]),
    ([found, troubles]) => render(list, found, troubles), { keep: true, signal });
}

/** Returns {rows, next}. A request looks at so many names only: a page may need several. */
async function search(list, signal) {
  const found = { rows: [], next: list.after };
  do {
    const { data } = await get("/biz-types", {
      query: { match: matchOf(list.match), after: found.next, limit: rowsOfPage - found.rows.length },
      as: "text", signal,
    });
    const { bizTypes, next } = parse(data);
    found.rows.push(...bizTypes);
    found.next = next;
  } while (found.next && found.rows.length < rowsOfPage);
  return found;
}

/** Returns what /readyz says, by name. Without it the list is shown all the same. */
async function findTroubles(signal) {
  const { data } = await get("/readyz", { signal }).catch(({ problem }) => ({ data: problem }));
  return new Map(data?.bizTypes?.map((trouble) => [trouble.bizType, trouble]));
}

function render(list, { rows, next }, troubles) {
  const { match, after, earlier } = list;
  const to = async (where) => {
    await turn(list, where);
    list.pane.querySelector(".wide")?.focus();
    scrollTo(0, 0);
  };
  put(list.said, count(rows.length, "biz type"),
    after || next ? " on this page." : match ? " found." : ".");
  return [rows.length > 0 ? bizTypeTable(rows, troubles) : nothing(list),
    (after || next) && pager({
      first: after && (() => to({ after: "", earlier: [] })),
      previous: earlier.length > 0 && (() => to({ after: earlier.at(-1), earlier: earlier.slice(0, -1) })),
      next: next && (() => to({ after: next, earlier: [...earlier, after] })),
      text: rows.length > 0 ? `${rows[0].name} to ${rows.at(-1).name}` : "",
    })];
}

function nothing({ match, after, ctx }) {
  if (match || after) {
    return empty(match ? "No biz type has such a name" : "No more biz types",
      match && h("p", "Search for a part of the name, or put * where anything may stand."));
  }
  return noBizTypes(ctx);
}

/** Returns what is shown if there are no biz types at all. */
export function noBizTypes(ctx) {
  return empty("No biz types yet",
    h("p", "A biz type is a sequence of numbers with a name, such as order."),
    h("p", ctx.why("admin") || linkButton("Create the first one", "#/new", { kind: "primary" })));
}

function bizTypeTable(rows, troubles) {
  return table({
    caption: "Biz types", rows, key: ({ name }) => name,
    columns: [
      { title: "Name", cell: ({ name }) => h("a", { href: link("biz-types", name, "overview") }, name) },
      { title: "Strategy", cell: ({ definition }) => strategyOf(definition) },
      { title: "State", cell: (row) => stateOf(row, troubles.get(row.name)) },
      { title: "What it does", class: "prose", cell: ({ definition }) => h("span", { class: "what" }, summary(definition)) },
      { title: "Changed", cell: ({ updatedAt }) => time(updatedAt, "ago") },
    ],
  });
}

function stateOf({ enabled, warnings = [] }, trouble) {
  if (trouble) {
    return h("span", { title: sentence(trouble.detail) }, status("bad", meaning(trouble.code).what));
  }
  return warnings.length > 0 ? status("warn", warnings.join(" "))
    : enabled ? status("good", "enabled") : status("off", "disabled");
}
