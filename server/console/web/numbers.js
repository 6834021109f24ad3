// Take test numbers, and parse IDs.

import { get, path, post } from "./api.js";
import { h, put } from "./dom.js";
import {
  atField, idList, keyField, onceOnly, plain, rowForm, sender, soft, terms,
} from "./forms.js";
import { jobsOf } from "./jobs.js";
import { whyNotIssue } from "./scopes.js";
import { notice, section, status } from "./ui.js";
import { clock, count, number, time, zone } from "./words.js";

/**
 * Returns a form that takes numbers, or reserves them if ttl, a field, is given. done(data, query)
 * is called with the answer.
 */
export const takeForm = (it, ctx, text, url, ttl, done) => {
  const many = plain("How many", "count", { required: true, type: "number", value: 1, min: 1 });
  const key = keyField(it);
  const once = onceOnly();
  const send = async () => {
    const query = { count: many.value(), ttl: ttl?.value(), key: key?.value() };
    const { data } = await post(url, undefined, { query, headers: once(query) });
    once.done();
    ctx.announce(`${count(data.ids.length, "number")}: ${data.ids.slice(0, 3).join(", ")}`);
    await done(data, query);
  };
  const fields = { invalid_count: many, invalid_ttl: ttl, invalid_key: key };
  return rowForm(send, sender(text, whyNotIssue(it.name, ctx)), [many, ttl, key], atField(fields,
    `${text} again with the same values: you get the same numbers, and none is used up twice.`));
};

const taken = ({ ids }, { key }) => h("div", { class: "box" },
  h("p", h("strong", count(ids.length, "number")), key && [" of the key ", h("code", key)],
    ` taken at ${clock(Date.now())}`),
  idList(ids));

/** Shows what parse says of an ID. */
const parsed = (p) => h("div", { class: "box", role: "status" },
  h("p", p.valid ? status("good", `${p.id} has the form of an ID of ${p.bizType}.`)
    : status("bad", `${p.id} is no ID of ${p.bizType}: its check digit is wrong.`)),
  terms([
    ["Number", number(p.number)],
    ["Key", p.key],
    ["Period", p.period],
    ["Made at", p.at && [time(p.at, "full"), ` in your time zone, ${zone()}; ${p.at}`]],
    ["Machine ID", p.machineId],
    ["Sequence", p.sequence],
  ].filter(([, value]) => value !== undefined)),
  soft("This says what the ID contains, not whether it was issued."));

const parseForm = (it, ctx) => {
  const id = plain("ID", "id", { required: true });
  const key = keyField(it, false, "Its key");
  const result = h("div");
  const parse = async () => {
    put(result);
    const query = { key: key?.value() };
    put(result, parsed((await get(path`/seq/${it.name}/parse/${id.value()}`, { query })).data));
  };
  const submit = sender("Parse", ctx.why(`issue:${it.name}`), "");
  return [rowForm(parse, submit, [id, key], atField({ invalid_id: id, invalid_key: key })), result];
};

/** Shows the tab Numbers of a biz type. */
export const showNumbers = (pane, it, ctx) => {
  const results = h("div");
  const take = takeForm(it, ctx, "Take", path`/seq/${it.name}`, null,
    (data, query) => results.prepend(taken(data, query)));
  put(pane,
    section("Take test numbers", {
      lead: it.strategy === "gapless"
        ? "These are real numbers: make those void that nobody uses. To try out, reserve some."
        : "These are real numbers: nobody else gets them, and nothing takes them back.",
    }, it.enabled || notice("warn", "The biz type is disabled: it issues nothing."), take, results,
    h("p", { class: "links" }, "Many numbers: ", h("a", { href: jobsOf(it.name, { new: 1 }) }, "New job"),
      h("a", { href: jobsOf(it.name) }, `Jobs of ${it.name}`))),
    section("Parse an ID", {}, parseForm(it, ctx)));
};
