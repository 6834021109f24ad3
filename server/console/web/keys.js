// The keys of a keyed biz type.

import { path } from "./api.js";
import { h, put } from "./dom.js";
import { hash, pages, plain, queryForm, read } from "./forms.js";
import { empty, section, table } from "./ui.js";

/**
 * Returns a text that comes just before all keys that begin with prefix, in byte order: the service
 * lists keys behind a text. Keys have no character above "z", so "~" comes after all of them.
 */
export const before = (prefix) => (prefix === "" ? ""
  : `${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) - 1)}~`);

const keyTable = (it, keys) => {
  const links = [["numbers", "Numbers"], it.strategy === "gapless" && ["account", "Account"],
    it.has("history") && ["history", "History"]].filter(Boolean);
  const linksOf = (key) => h("span", { class: "links" }, links.map(([tab, text]) => (
    h("a", { href: hash(it.name, tab, { key }), "aria-label": `${text} of ${key}` }, text))));
  return table({
    caption: "List of keys",
    columns: [{ title: "Key", cell: (key) => h("code", key) }, { title: "Pages", cell: linksOf }],
    rows: keys, key: (key) => key,
    none: empty("No keys.", h("p", "A key appears when it is first used. Case counts.")),
  });
};

/** Shows the tab Keys of a biz type. */
export const showKeys = (pane, it, ctx) => {
  const prefix = it.query.get("prefix") ?? "";
  const search = plain("Begins with", "prefix", { type: "search", value: prefix });
  const list = h("div");
  const page = async (after) => {
    const { keys, next } = await read(ctx, path`/biz-types/${it.name}/keys`, { after, limit: 100 });
    const fit = keys.filter((key) => key.startsWith(prefix));
    return { keys: fit, next: fit.length === keys.length && next };
  };
  put(pane, section("Keys", { lead: "In byte order: digits, capital letters, small letters." },
    queryForm(it, "keys", ctx, [search], "Search"), list));
  pages(list, page, ({ keys }) => keyTable(it, keys), before(prefix));
};
