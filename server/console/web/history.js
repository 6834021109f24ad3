// What the plugin history keeps.

import { path } from "./api.js";
import { h, put } from "./dom.js";
import {
  downloads, keyField, noneYet, pages, plain, queryForm, read, timeField,
} from "./forms.js";
import { button, disclosure, empty, section, table } from "./ui.js";
import { number, time, zone } from "./words.js";

/** Says which numbers a record has. */
export const recordInWords = ({ first, last, count, runs }) => {
  if (count === 1) return number(first);
  const apart = runs?.length === 1 ? `, ${number(runs[0].stride)} apart`
    : runs ? `, in ${runs.length} runs` : "";
  return `${number(first)} to ${number(last)}${apart}`;
};

const shownAs = ({ ids = [] }) => (ids.length > 1
  ? disclosure(ids[0], {}, h("code", ids.join(" "))) : ids.map((id) => h("code", id)));

const recordTable = (it, rows, next) => table({
  caption: "What was issued, newest first",
  columns: [
    { title: "Time", cell: (r) => time(r.at) },
    it.get("keyed") && { title: "Key", cell: (r) => h("code", r.key) },
    { title: "Numbers", cell: recordInWords },
    { title: "Count", number: true, cell: (r) => number(r.count) },
    { title: "Shown as", cell: shownAs },
    { title: "Caller", cell: (r) => r.caller || "no token" },
    { title: "Address", cell: (r) => r.addr },
    { title: "Request ID", cell: (r) => h("code", r.requestId) },
  ].filter(Boolean),
  rows, key: (r) => `${r.requestId} ${r.at} ${r.first}`,
  none: empty(...noneYet(next, ["Nothing was issued.", h("p", "Records appear within a second or so.")])),
});

/** The fields of the search, besides those for times and the key. */
const searched = [["ID", "id", "As callers got it."], ["Number", "number"], ["Caller", "caller", "The name of a token."], ["Request ID", "requestId"]];

/** Shows the tab History of a biz type. */
export const showHistory = (pane, it, ctx) => {
  const of = Object.fromEntries(["from", "to", "key", ...searched.map(([, name]) => name)]
    .map((name) => [name, it.query.get(name) ?? ""]));
  const at = path`/biz-types/${it.name}/history`;
  const [records, trouble] = [h("div"), h("div")];
  const again = pages(records, (after) => read(ctx, at, { ...of, after, limit: 100 }),
    (data) => recordTable(it, data.records, data.next));
  const search = queryForm(it, "history", ctx, [
    timeField("From", "from", of.from), timeField("To", "to", of.to), keyField(it, false),
    ...searched.map(([label, name, help]) => plain(label, name, { help, value: of[name] })),
  ], "Search");
  put(pane, section("History", {
    lead: `Newest first. Times are in your time zone, ${zone()}. A search shows what fits all fields.`,
    actions: [button("Refresh", { click: () => again(true) }), ...downloads(at, () => of, trouble)],
  }, search, trouble, records));
};
