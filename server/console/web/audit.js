// The latest audit lines: who changed what, and who tried to.

import { h } from "./dom.js";
import {
  downloads, noneYet, pages, plain, read, rowForm, sender, soft, timeField, valuesOf,
} from "./forms.js";
import { nodeNames } from "./health.js";
import { button, empty, field, notice, section, select, status, table } from "./ui.js";
import { number, time } from "./words.js";

/** Method and path in words; * stands for a name. */
const verbs = {
  "PUT /biz-types/*": "Change biz type",
  "PATCH /biz-types/*": "Change biz type",
  "DELETE /biz-types/*": "Delete biz type",
  "POST /biz-types/*/disable": "Disable biz type",
  "POST /biz-types/*/enable": "Enable biz type",
  "POST /biz-types/*/voids": "Make a number void of biz type",
  "DELETE /biz-types/*/history": "Remove history of biz type",
  "POST /tokens": "Create token",
  "PATCH /tokens/*": "Change token",
  "DELETE /tokens/*": "Delete token",
  "POST /tokens/*/secrets": "Add a secret to token",
  "DELETE /tokens/*/secrets/*": "Revoke a secret of token",
  "PUT /worker-pools/*": "Change pool",
  "PATCH /worker-pools/*": "Change pool",
  "DELETE /worker-pools/*": "Delete pool",
  "PUT /subscriptions/*": "Change subscription",
  "DELETE /subscriptions/*": "Delete subscription",
  "POST /subscriptions/*/replay": "Send again to subscription",
  "POST /console/session": "Sign in",
  "DELETE /console/session": "Sign out",
};

/** Says what an audit line records, as in "Change biz type order: version 7". */
export const auditInWords = ({ method, path, query = "", target, status, version }) => {
  const sent = `${method} ${path}`;
  const known = verbs[sent.replace(/(\/biz-types|\/tokens|\/secrets|\/worker-pools|\/subscriptions)\/[^/]*/g, "$1/*")] ?? sent;
  const verb = method === "PUT" && status === 201 ? known.replace("Change", "Create") : known;
  const notes = [
    version > 1 && `version ${version}`,
    /\bforce=true\b/.test(query) && "with force",
    /\bdryRun=true\b/.test(query) && "only a dry run",
    status >= 400 && `refused with status ${status}`,
  ].filter(Boolean).join(", ");
  return [verb, target].filter(Boolean).join(" ") + (notes && `: ${notes}`);
};

/** Returns what the nodes that wrote lines are called, by their ID. */
export const writers = (lines) => nodeNames([...new Map(lines.map(({ nodeId, host, node = "" }) =>
  [nodeId, { id: nodeId, host: host || nodeId.slice(0, 8), node }])).values()]);

/** The actions that can be searched for: [value, words]. */
export const actions = Object.entries(verbs).map(([action, words]) => {
  const alike = Object.values(verbs).filter((other) => other === words).length > 1;
  return [action, alike ? `${words} (${action.split(" ")[0]})` : words];
});

const lineTable = (lines, next, names = writers(lines)) => table({
  caption: "Changes and attempts at them, newest first",
  columns: [
    { title: "Time", cell: (line) => time(line.at) },
    { title: "Who", cell: (line) => line.caller || "no token" },
    { title: "Address", cell: (line) => line.addr },
    {
      title: "What", class: "prose", cell: (line) => [
        line.status >= 400 ? status("bad", auditInWords(line)) : auditInWords(line),
        line.leftOut > 0 && soft(`${number(line.leftOut)} refusals before it: see the node's log.`),
      ],
    },
    { title: "Node", cell: ({ nodeId }) => names.get(nodeId) },
    { title: "Request ID", cell: (line) => h("code", line.requestId) },
  ],
  rows: lines, key: (line) => `${line.nodeId} ${line.requestId} ${line.at}`,
  none: empty(...noneYet(next, ["Nothing was changed in the last 30 days, or nothing that fits."])),
});

const searchFields = () => [
  timeField("From", "from"), timeField("To", "to"),
  plain("Who", "caller", { help: "The name of a token." }),
  field({ label: "What", name: "action", input: select([["", "Everything"], ...actions]) }),
  plain("Of what", "target", { help: "The name of a biz type, token, pool or subscription." }),
  plain("Request ID", "requestId"),
];

const lead = "Each change and each attempt at one, for 30 days. A search shows what fits all fields.";

/** Returns the section with the audit lines. */
export const auditSection = (ctx) => {
  const why = ctx.why("admin");
  if (why) return section("Audit", { lead }, notice("info", why));
  let of = {};
  const [list, trouble, fields] = [h("div"), h("div"), searchFields()];
  const again = pages(list, (after) => read(ctx, "/audit", { ...of, after, limit: 50 }),
    ({ lines, next }) => lineTable(lines, next));
  const search = rowForm(async () => {
    of = valuesOf(fields);
    await again(true);
    ctx.announce("The audit lines that fit are shown.");
  }, sender("Search", "", ""), fields);
  return section("Audit", {
    lead,
    actions: [button("Refresh", { click: () => again(true) }), ...downloads("/audit", () => of, trouble)],
  }, search, trouble, list);
};
