// One token: create it, or change it.

import { del, get, path, post, request } from "./api.js";
import { h, put } from "./dom.js";
import { askAndDo, atField, attempt, plain, sender, timeField } from "./forms.js";
import { scopeField } from "./scopes.js";
import {
  ask, button, copyable, dialog, errorNotice, field, fill, linkButton, notice, page, section, table,
  whileBusy,
} from "./ui.js";
import { list, time, zone } from "./words.js";

/** Reports whether a session uses a token. */
export const isMine = (token, ctx) => ctx.session.tokensAskedFor && ctx.session.caller === token.name;

/** Shows the page of a token, or of a new one if name is undefined. */
export const showToken = (main, name, ctx) => {
  const body = h("div");
  put(main, page(name ?? "New token", { crumbs: [["Access", "#/access"]] }, body));
  const why = ctx.why("admin");
  if (why) return put(body, notice("info", why));
  if (name === undefined) return put(body, tokenForm(null, ctx));
  const load = () => get(path`/tokens/${name}`, { signal: ctx.signal });
  return fill(body, load, ({ data, etag }) => (data.source === "config"
    ? notice("info", "It is changed in the configuration of the nodes, not here.")
    : [tokenForm({ ...data, etag }, ctx), secretsSection({ ...data, etag }, ctx)]), { signal: ctx.signal });
};

/** Returns the field for the expiry. */
const expiryField = (expires) => {
  const made = timeField("Expires", "expires", expires, {
    hint: "optional", help: `In your time zone, ${zone()}. Empty: never.`,
  });
  const warn = () => made.warning(Date.parse(made.value()) <= Date.now()
    && "This is in the past: the token is not valid.");
  made.input.addEventListener("input", warn);
  warn();
  return made;
};

/** Returns the form of a token, or of a new one if token is null. */
const tokenForm = (token, ctx) => {
  const name = !token && plain("Name", "name", {
    required: true, help: "Who it is for. It cannot be changed.",
  });
  const scopes = scopeField(token?.scopes ?? []);
  const expires = expiryField(token?.expires);
  const enabled = field({
    label: "Enabled", name: "enabled", input: { type: "checkbox", checked: token?.enabled ?? true },
  });
  const values = () => ({
    ...(name && { name: name.value() }),
    scopes: scopes.value(), expires: expires.value() || null, enabled: enabled.value(),
  });
  const entered = () => JSON.stringify([values(), scopes.pending()]);
  const begun = entered();
  ctx.unsaved(() => entered() !== begun);
  const trouble = h("div");
  const submit = sender(token ? "Save" : "Create");
  const act = async () => {
    if (!await (token ? change(token, values(), ctx) : create(values()))) return;
    ctx.unsaved(null);
    if (!ctx.signal.aborted) ctx.go("#/access");
  };
  const send = (event) => {
    event.preventDefault();
    if (name) name.problem("");
    if (scopes.check()) {
      const failed = token ? notSaved(token, ctx) : notCreated(name);
      whileBusy(submit, () => attempt(trouble, act, failed));
    }
  };
  return h("form", { class: "stack", on: { submit: send } },
    name && name.element, scopes.element, expires.element, enabled.element, trouble,
    h("div", { class: "actions" }, submit, linkButton("Cancel", "#/access")));
};

const create = async (values) => {
  await showSecret((await post("/tokens", values)).data);
  return true;
};

const notCreated = (name) => atField({ name, conflict: name }, "If the token was created, its "
  + "secret is lost. Create it again: if the name is taken then, delete that token first.");

/** Shows the secrets of a token, and how to get a caller from one to another. */
const secretsSection = ({ name, secrets, etag }, ctx) => {
  const trouble = h("div");
  const add = button("New secret", { click: () => attempt(trouble, async () => {
    const made = { headers: { "If-Match": etag } }; // a token made again with this name is another owner
    const { data } = await post(path`/tokens/${name}/secrets`, {}, made);
    await showSecret({ name, secret: data.secret });
    ctx.reload();
  }) });
  return section("Secrets", {
    lead: "To replace a secret, make a new one, let the caller use it, and revoke the old one. The "
      + "caller keeps its reservations and Idempotency-Keys.",
    actions: add,
  }, trouble, table({
    caption: "Secrets of the token",
    columns: [
      { title: "ID", cell: ({ id }) => h("code", id) },
      { title: "Created", cell: ({ createdAt }) => (createdAt ? time(createdAt, "full") : "–") },
      { title: "Created by", cell: ({ createdBy }) => (createdBy === "~"
        ? "anybody: nobody was asked for a token" : createdBy ?? "–") },
      { title: "Expires", cell: ({ expires }) => (expires ? time(expires, "full") : "never") },
      { title: "Actions", cell: ({ id }) => button("Revoke…", {
        kind: "danger small", "aria-label": `Revoke ${id}`,
        why: secrets.length === 1 && "It is the only secret: make another one first.",
        click: () => revoke(name, id, ctx),
      }) },
    ],
    rows: secrets, key: ({ id }) => id,
  }));
};

const revoke = async (name, id, ctx) => {
  const done = await askAndDo({
    title: `Revoke the secret ${id} of ${name}?`, yes: "Revoke", kind: "danger",
    text: h("p", "Within 5 seconds all nodes refuse callers that show it."),
    action: () => del(path`/tokens/${name}/secrets/${id}`).then(() => true, (error) => {
      if (error.code !== "not_found") throw error; // somebody else revoked it
      return true;
    }),
  });
  if (done) ctx.reload();
};

/** Shows the secret of a new token, until the user says that it is copied. */
const showSecret = ({ name, secret }) => {
  const { element, done } = dialog({
    title: `The secret of ${name}`, wide: true,
    leave: "Leave without copying the secret?",
    children: [
      notice("warn", h("strong", "It is shown only now."),
        h("p", "Copy it to where its caller reads secrets from. Nobody can show it again.")),
      copyable(secret, { label: "secret", block: true }),
    ],
    actions: (close) => button("I have copied it", { kind: "primary", click: () => close() }),
  });
  element.addEventListener("keydown", (event) => {
    // A second Escape would close it, whatever the dialog says.
    if (event.key === "Escape") event.preventDefault();
  });
  return done;
};

/** Returns what is to change of a token, as a merge patch. */
export const changesOf = (token, next) => {
  const present = { expires: null, ...token };
  return Object.fromEntries(Object.entries(next)
    .filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(present[key])));
};

/** Changes a token, and returns whether the user wanted it. */
const change = async (token, next, ctx) => {
  const ends = !next.enabled || !next.scopes.includes("admin")
    || Date.parse(next.expires) <= Date.now();
  const sure = !isMine(token, ctx) || !ends || await ask({
    title: "Change your own token?", yes: "Change it", danger: true,
    text: "This session uses it. After this change you can change nothing any more, not even this.",
  });
  const options = { json: changesOf(token, next), headers: { "If-Match": token.etag } };
  return sure && request("PATCH", path`/tokens/${token.name}`, options);
};

/** If somebody else changed the token, says so and offers both ways. What was entered stays. */
const notSaved = (token, ctx) => async (error) => {
  if (error.status !== 412) return errorNotice(error);
  const { data, etag } = await get(path`/tokens/${token.name}`).catch(() => ({}));
  if (!data) return errorNotice(error);
  token.etag = etag;
  return notice("warn", h("strong", `Somebody changed ${data.name} meanwhile.`),
    h("p", `It has the scopes ${list(data.scopes)}, is ${data.enabled ? "enabled" : "disabled"}, `
      + "and expires: ", data.expires ? time(data.expires, "full") : "never",
    ". What you entered is still here: save again to write it over theirs."),
    h("p", button("Take theirs", { click: ctx.reload })));
};
