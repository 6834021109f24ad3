// What the plugin history keeps.

import { path } from "./api.js";
import { h, put } from "./dom.js";
import { keyField, pages, queryForm, read, timeField } from "./forms.js";
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

const recordTable = (it, rows) => table({
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
  none: empty("Nothing was issued.", h("p", "Records appear within a second or so.")),
});

/** Shows the tab History of a biz type. */
export const showHistory = (pane, it, ctx) => {
  const [from, to, key] = ["from", "to", "key"].map((name) => it.query.get(name) ?? "");
  const records = h("div");
  const again = pages(records, (after) => read(ctx, path`/biz-types/${it.name}/history`,
    { from, to, key, after, limit: 100 }), (data) => recordTable(it, data.records));
  const search = queryForm(it, "history", ctx, [
    timeField("From", "from", from), timeField("To", "to", to), keyField(it, false),
  ]);
  put(pane, section("History", {
    lead: `Newest first. Times are in your time zone, ${zone()}.`,
    actions: button("Refresh", { click: () => again(true) }),
  }, search, records));
};
