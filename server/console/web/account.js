// The account of a gapless biz type: what became of each number, and voids.

import { get, path, post } from "./api.js";
import { h, put } from "./dom.js";
import {
  atField, attempt, hash, keyField, pages, plain, queryForm, read, rowForm, sender,
} from "./forms.js";
import { ask, button, empty, fill, linkButton, notice, section, status, table } from "./ui.js";
import { list, number, time } from "./words.js";

const size = (gap) => Number(gap.to) - Number(gap.from) + 1;

/** Adds up an account: its states add up to all. unread: in gaps that were not read. */
export const totals = (account) => {
  const all = Math.max(0, Number(account.last) - Number(account.first) + 1);
  const sum = { issued: account.issued, reserved: 0, released: 0, void: 0 };
  for (const gap of account.gaps) sum[gap.state] += size(gap);
  const rest = all - Object.values(sum).reduce((a, b) => a + b);
  return { all, ...sum, unread: account.next ? Math.max(0, rest) : 0 };
};

/** Says what became of the numbers of an account, with the sum. */
export const totalsInWords = (account) => {
  const { all, ...sum } = totals(account);
  if (all === 0) return "No number was handed out yet.";
  const there = Object.entries(sum).filter(([state, n]) => n > 0 || state === "issued");
  const words = there.map(([state, n]) =>
    `${number(n)} ${state === "unread" ? "in gaps further down" : state}`);
  const adds = there.map(([, n]) => number(n)).join(" + ");
  // They do not if numbers changed between the pages that were read.
  const right = there.length > 1 && there.reduce((a, [, n]) => a + n, 0) === all;
  return `Handed out ${gapRange({ from: account.first, to: account.last })}: ${list(words)}`
    + `${right ? ` (${adds} = ${number(all)})` : ""}.`;
};

/** Returns the numbers of a gap as text, such as "7 to 9". */
export const gapRange = ({ from, to }) =>
  (from === to ? number(from) : `${number(from)} to ${number(to)}`);

/** Returns the IDs of a gap as text, such as "INV-7 to INV-9". */
export const gapIDs = ({ fromId, toId }) =>
  (fromId === toId ? fromId : `${fromId} to ${toId}`);

/** Groups the reserved gaps of an account by reservation, those that expire first on top. */
export const openReservations = (account) => {
  const found = new Map();
  for (const gap of account.gaps.filter(({ state }) => state === "reserved")) {
    const one = found.get(gap.reservation)
      ?? { id: gap.reservation, expiresAt: gap.expiresAt, gaps: [], count: 0 };
    one.gaps.push(gap);
    one.count += size(gap);
    found.set(one.id, one);
  }
  return [...found.values()].sort((a, b) => Date.parse(a.expiresAt) - Date.parse(b.expiresAt));
};

const readPage = (it, ctx, query) => read(ctx, path`/biz-types/${it.name}/gaps`, query);

/** Reads an account with its first 10,000 gaps. */
export const readAccount = async (it, ctx, select) => {
  const gaps = [];
  for (let i = 0, after = ""; ; i++) {
    const data = await readPage(it, ctx, { ...select, after, limit: 1000 });
    gaps.push(...data.gaps);
    if (!data.next || i === 9) return { ...data, gaps };
    after = data.next;
  }
};

/** Returns the key and period of a tab, a form for them, and what says that a key is missing. */
export const selection = (it, tab, ctx) => {
  const select = { key: it.query.get("key") ?? "", period: it.query.get("period") ?? "" };
  const example = { daily: "2026-11-23", monthly: "2026-11", yearly: "2026" }[it.get("reset")];
  const period = example && plain("Period", "period", {
    hint: "optional", help: `Such as ${example}. Empty: the present one.`, value: select.period,
  });
  const key = keyField(it);
  return {
    select, form: (key || period) && queryForm(it, tab, ctx, [key, period]),
    missing: it.get("keyed") && !select.key && h("p", "Each key counts on its own. ",
      linkButton("List the keys", hash(it.name, "keys"))),
  };
};

/** Returns a link to a reservation. */
export const reservationLink = (it, id) =>
  h("a", { href: hash(it.name, "reservations", { ...Object.fromEntries(it.query), id }) }, id);

const because = (it, { reservation, expiresAt, reason = "Is handed out next.", caller }) =>
  (reservation ? ["Expires ", time(expiresAt, "ago"), ": ", reservationLink(it, reservation)]
    : `${reason}${caller ? ` (${caller})` : ""}`);

const gapTable = (it, rows) => table({
  caption: "Numbers that are not issued",
  columns: [
    { title: "Numbers", cell: gapRange },
    ...(rows.some(({ fromId }) => fromId) ? [{ title: "IDs", cell: gapIDs }] : []),
    {
      title: "State",
      cell: ({ state }) => status({ reserved: "info", released: "warn" }[state] ?? "off", state),
    },
    { title: "Why", class: "prose", cell: (gap) => because(it, gap) },
    { title: "Since", cell: ({ at }) => at && time(at) },
  ],
  rows, key: (gap) => gap.from,
  none: empty("No gaps.", h("p", "Each number that was handed out is issued.")),
});

const download = async (it, select) => {
  const { data } = await get(path`/biz-types/${it.name}/gaps`, {
    query: select, as: "blob", headers: { Accept: "text/csv" }, timeout: 600_000,
  });
  const href = URL.createObjectURL(data);
  const name = [it.name, select.key, select.period, "account"].filter(Boolean).join("-");
  h("a", { href, download: `${name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
};

/** Returns the form that makes a number void. done is called after it. */
const voidForm = (it, query, ctx, done) => {
  const id = plain("ID", "void-id", { required: true, help: "As callers got it." });
  const reason = plain("Reason", "void-reason", {
    required: true, help: "The account shows it for ever.",
  });
  const said = h("div", { role: "status" });
  const make = async () => {
    put(said);
    const body = { id: id.value(), reason: reason.value() };
    const sure = await ask({
      title: `Make ${body.id} void?`, yes: "Make it void", danger: true,
      text: [h("p", "It is never handed out again, and nothing undoes this."),
        h("p", "Reason: ", h("q", body.reason))],
    });
    if (!sure) return;
    await post(path`/biz-types/${it.name}/voids`, body, { query });
    put(said, notice("good", `${body.id} is void.`));
    id.input.value = reason.input.value = "";
    done();
  };
  return [rowForm(make, sender("Make void…", ctx.why("admin"), "danger"), [id, reason],
    atField({ invalid_id: id, reason })), said];
};

/** Shows the tab Account of a biz type. */
export const showAccount = (pane, it, ctx) => {
  const { select, form, missing } = selection(it, "account", ctx);
  put(pane, form, missing);
  if (missing) return;
  const body = h("div");
  const trouble = h("div");
  const show = (keep) => fill(body, () => readAccount(it, ctx, select), (account) => {
    const gaps = h("div");
    pages(gaps, (after) => readPage(it, ctx, { ...select, after, limit: 100 }),
      (page) => gapTable(it, page.gaps));
    const of = [account.key, account.period].filter(Boolean).map((text) => `${text} · `);
    const total = h("p", { class: "total" }, of, totalsInWords(account));
    return h("div", { class: "stack" }, total, gaps);
  }, { keep });
  const refresh = () => show(true);
  pane.append(
    section("Account", {
      lead: "What became of each number.",
      actions: [button("Refresh", { click: refresh }),
        button("Download CSV", { click: () => attempt(trouble, () => download(it, select)) })],
    }, trouble, body),
    section("Make a number void", {
      lead: "For one that was handed out and is not used.",
    }, voidForm(it, select, ctx, refresh)));
  show(false);
};
