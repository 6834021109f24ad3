// Access: tokens, and the latest audit lines.

import { del, get, path } from "./api.js";
import { auditSection } from "./audit.js";
import { h, put } from "./dom.js";
import { changeShown, pages, read } from "./forms.js";
import { link } from "./routes.js";
import { scopeInWords } from "./scopes.js";
import { isMine, showToken } from "./token.js";
import {
  button, confirmByName, empty, linkButton, notice, page, section, status, table,
} from "./ui.js";
import { ago, time } from "./words.js";

/** Says whether a token is valid, and until when: [kind, text]. */
export const stateInWords = ({ enabled, expires }, now = Date.now()) => {
  if (!enabled) return ["off", "disabled"];
  if (!expires) return ["good", "valid"];
  const left = Date.parse(expires) - now;
  return left <= 0 ? ["bad", `expired ${ago(expires, now)}`]
    : [left < 7 * 86400e3 ? "warn" : "good", `expires ${ago(expires, now)}`];
};

/** Shows the page Access, or a token: #/access, #/access/{token}, #/access?new=1. */
export async function show(main, { parts: [name], query }, ctx) {
  if (name !== undefined || query.has("new")) return showToken(main, name, ctx);
  const tokens = h("div", !ctx.may("read") && notice("info", ctx.why("read")));
  const why = ctx.why("admin");
  put(main, page("Access", {
    lead: "Who may do what, and who did.",
    actions: why ? button("New token", { why })
      : linkButton("New token", "#/access?new=1", { kind: "primary" }),
  },
  ctx.session.tokensAskedFor || openNotice(),
  section("Tokens", { lead: "seqd keeps only hashes of their secrets." }, tokens),
  auditSection(ctx)));
  if (!ctx.may("read")) return;
  const again = pages(tokens, (after) => read(ctx, "/tokens", { after, limit: 100 }),
    (data) => tokenTable(data.tokens, ctx, () => again()));
}

/** Explains that nobody is asked for a token, and how to switch tokens on. */
const openNotice = () => notice("warn", h("strong", "Nobody is asked for a token."),
  h("p", "Everybody who reaches this address may take numbers and change everything."),
  h("p", "To switch tokens on, run ", h("code", "seqd token"), ", put what it prints into ",
    h("code", "auth.tokens"), " of each node, with the scope admin, and restart the nodes. The "
    + "tokens below become valid then."));

const under = (text) => h("small", { class: "soft under" }, text);

const tokenTable = (rows, ctx, changed) => table({
  caption: "List of tokens",
  columns: [
    { title: "Name", cell: (t) => [t.name, isMine(t, ctx) && under("this session")] },
    {
      title: "Scopes", cell: (t) => h("span", { class: "links" },
        t.scopes.map((scope) => h("code", { title: scopeInWords(scope) }, scope))),
    },
    {
      title: "State",
      cell: (t) => [status(...stateInWords(t)), t.expires && under(time(t.expires, "full"))],
    },
    ctx.may("admin") && { title: "Actions", cell: (t) => actionsOf(t, ctx, changed) },
  ].filter(Boolean),
  rows, key: (t) => t.name,
  none: empty("No tokens yet.", h("p", "Create one for each caller.")),
});

const actionsOf = (token, ctx, changed) => {
  const { name } = token;
  if (token.source === "config") return under("Changed only in the configuration.");
  const remove = async () => { if (await deleteToken(token, ctx, changed)) await changed(); };
  return h("span", { class: "actions" },
    linkButton("Edit", link("access", name), { kind: "small", "aria-label": `Edit ${name}` }),
    button("Delete…", { kind: "danger small", "aria-label": `Delete ${name}`, click: remove }));
};

/** Deletes a token in the version that is shown. */
const deleteShown = (token, show) => {
  const at = path`/tokens/${token.name}`;
  const send = (version) => del(at, { headers: { "If-Match": `"${version}"` } });
  return changeShown("token", token, async () => (await get(at)).data, show, send).catch((error) => {
    if (error.code !== "not_found") throw error; // somebody else deleted it
  });
};

const deleteToken = (token, ctx, changed) => confirmByName({
  title: `Delete the token ${token.name}?`, name: token.name, yes: "Delete",
  text: [
    isMine(token, ctx) && notice("warn", "This session uses it: you are signed out at once."),
    h("p", "Within 5 seconds all nodes refuse callers that show it. To stop them for a while, "
      + "disable it."),
  ],
  action: () => deleteShown(token, changed),
});
