// Reservations of a gapless biz type: reserve, look one up, confirm, release, and the open ones.

import {
  gapRange, openReservations, readAccount, reservationLink, selection,
} from "./account.js";
import { del, path, post } from "./api.js";
import { h, put } from "./dom.js";
import { attempt, idList, plain, read, rowForm, sender, terms } from "./forms.js";
import { takeForm } from "./numbers.js";
import { whyNotIssue } from "./scopes.js";
import {
  ask, button, copyable, empty, errorNotice, fill, notice, section, status, table,
} from "./ui.js";
import { number, time } from "./words.js";

const meanings = {
  reserved: ["info", "Its numbers are the caller's until it expires."],
  confirmed: ["good", "Its numbers are issued for good."],
  released: ["off", "Its numbers are the caller's no longer."],
  expired: ["warn", "Its numbers are the caller's no longer: a document that has one is wrong."],
};

const refused = (error) => [errorNotice(error), error.code === "forbidden"
  && notice("info", "Only the token that made a reservation, or an admin, may do this.")];

const expiry = (at) => [time(at), ", ", time(at, "ago")];

/** Shows a reservation, with buttons to end it. changed is called after it ended. */
const details = (it, { reservation: id, ids, state, expiresAt }, ctx, changed) => {
  const trouble = h("div");
  const [sign, meaning] = meanings[state] ?? ["info", ""];
  const at = path`/seq/${it.name}/reservations/${id}`;
  const end = (f, said) => attempt(trouble, async () => {
    await f();
    ctx.announce(said);
    await changed(id);
  }, refused);
  const release = async () => {
    const text = it.get("onRelease") === "void" ? "Its numbers become void."
      : "Its numbers go to whoever asks next. Release it only if nobody uses them.";
    const question = { title: "Release this reservation?", text, yes: "Release", danger: true };
    return await ask(question) && end(() => del(at), "Released.");
  };
  const why = ctx.may("admin") ? "" : whyNotIssue(it.name, ctx);
  const confirm = () => end(() => post(`${at}/confirm`), "Confirmed.");
  return h("div", { class: "box" },
    h("p", status(sign, state), ". ", meaning),
    terms([
      ["Reservation", copyable(id, { label: "reservation ID" })],
      [ids.length === 1 ? "ID" : `${number(ids.length)} IDs`, idList(ids)],
      [state === "reserved" ? "Expires" : "Would have expired", expiry(expiresAt)],
    ]),
    state === "reserved" && h("div", { class: "actions" },
      button("Confirm", { kind: "primary", why, click: confirm }),
      button("Release", { why, click: release })),
    trouble);
};

/** Returns {nodes, show(id)}: the form that looks a reservation up. changed: as in details. */
const lookUp = (it, ctx, changed) => {
  const id = plain("Reservation", "reservation", {
    required: true, value: it.query.get("id") ?? "",
  });
  const why = ctx.may("read") ? "" : whyNotIssue(it.name, ctx);
  const result = h("div", { tabindex: -1 });
  const show = async (name) => {
    id.input.value = name;
    await attempt(result, async () => {
      const found = await read(ctx, path`/seq/${it.name}/reservations/${name}`);
      put(result, details(it, found, ctx, changed));
    }, refused);
    result.focus();
  };
  if (id.value() && !why) show(id.value());
  const form = rowForm(() => show(id.value()), sender("Look up", why, ""), [id]);
  return { show, nodes: [form, result] };
};

const openTable = (it, rows) => table({
  caption: "Open reservations, those that expire first on top",
  columns: [
    { title: "Reservation", cell: ({ id }) => reservationLink(it, id) },
    {
      title: "Numbers",
      cell: ({ gaps, count }) => `${gaps.map(gapRange).join(", ")} (${number(count)})`,
    },
    { title: "Expires", cell: ({ expiresAt }) => expiry(expiresAt) },
  ],
  rows, key: ({ id }) => id,
  none: empty("Nothing is reserved.", h("p", "Reservations appear here until they end.")),
});

/** Shows the tab Reservations of a biz type. */
export const showReservations = (pane, it, ctx) => {
  const { select, form, missing } = selection(it, "reservations", ctx);
  const instead = !ctx.may("read") ? notice("info", ctx.why("read"))
    : it.enabled ? missing : h("p", "Not shown while the biz type is disabled.");
  const list = h("div", instead);
  const reload = () => fill(list, () => readAccount(it, ctx, select),
    (account) => openTable(it, openReservations(account)), { keep: list.hasChildNodes() });
  const changed = (id) => Promise.all([look.show(id), instead || reload()]);
  const look = lookUp(it, ctx, changed);
  const ttl = plain("For how long", "ttl", {
    hint: "optional", help: "1s to 24h, such as 90s or 1h30m.",
    placeholder: it.get("reservationTTL") ?? "10m",
  });
  put(pane,
    it.enabled || notice("warn", "The biz type is disabled. Reservations expire all the same."),
    section("Reserve", {
      lead: "Numbers are yours for a while. Confirm them once they are used, or release them.",
    }, takeForm(it, ctx, "Reserve", path`/seq/${it.name}/reservations`, ttl,
      ({ reservation }) => changed(reservation))),
    section("Look one up", {}, look.nodes),
    section("Open reservations", {
      actions: !instead && button("Refresh", { click: reload }),
    }, it.known && form, list));
  if (!instead) reload();
};
