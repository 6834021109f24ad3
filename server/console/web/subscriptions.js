// Subscriptions: where events are sent to, and what receivers do not have.

import { get, path, post, request } from "./api.js";
import { h, put, refill } from "./dom.js";
import { askAndDo, atField, changeShown, pages, plain, read, rowForm, sender, soft, watching } from "./forms.js";
import { link } from "./routes.js";
import { button, empty, facts, field, notice, page, section, select, status, table } from "./ui.js";
import { count, number, time } from "./words.js";

const at = (name) => path`/subscriptions/${name}`;
const title = "Subscriptions";

/** Shows the subscriptions, or one: #/subscriptions, #/subscriptions/{name}. */
export async function show(main, { parts: [name] }, ctx) {
  const why = ctx.why("admin");
  if (why) return put(main, page(title, {}, notice("info", why)));
  return name === undefined ? showAll(main, ctx) : showOne(main, name, ctx);
}

/** Returns the sign and the words for how a subscription is. */
export const stateInWords = ({ enabled, reason, state }) => {
  if (!enabled) return reason ? ["bad", "disabled: its receiver is gone"] : ["off", "disabled"];
  if (state?.error) return ["warn", "the receiver fails"];
  return state && !state.node ? ["warn", "no node sends"] : ["good", "enabled"];
};

const showAll = (main, ctx) => {
  const list = h("div");
  put(main, page(title, { lead: "Events of biz types are posted to these addresses." }, list));
  // Lists do not say how far each is.
  const load = async (after) => {
    const { subscriptions: all, next } = await read(ctx, "/subscriptions", { after, limit: 20 });
    return { next, rows: await Promise.all(all.map((one) => read(ctx, at(one.name)).catch(() => one))) };
  };
  pages(list, load, ({ rows }) => table({
    caption: "List of subscriptions",
    columns: [
      { title: "Subscription", cell: (s) => h("a", { href: link("subscriptions", s.name) }, s.name) },
      { title: "State", cell: (s) => status(...stateInWords(s)) },
      { title: "Pending", number: true, cell: ({ state }) => state && number(state.pending) },
      { title: "Dead", number: true, cell: ({ state }) => state && number(state.dead) },
      { title: "Address", cell: (s) => h("code", s.url) },
    ],
    rows, key: (s) => s.name,
    none: empty("No subscriptions.", h("p", "seqd subscriptions put makes one.")),
  }));
};

const showOne = (main, name, ctx) => {
  const [figures, trouble, actions] = [h("div"), h("div"), h("div", { class: "actions" })];
  let shown = ""; // what the buttons are for
  const look = watching(ctx, trouble, async () => {
    const s = (await get(at(name), { background: true, signal: ctx.signal })).data;
    refill(figures, factsOf(s));
    const now = `${s.version} ${s.state.dead > 0}`;
    if (shown !== now) put(actions, actionsOf(s, look, ctx));
    shown = now;
  });
  put(main, page(name, { crumbs: [[title, "#/subscriptions"]], actions }, trouble, figures,
    again(name, look), deliveries(name, ctx)));
  ctx.every(5000, look);
};

const factsOf = (s) => facts([
  ["State", status(...stateInWords(s))],
  s.state.error && ["Last error", `${s.state.error}, ${time(s.state.failedAt).textContent}`],
  ["Pending", number(s.state.pending)],
  ["Dead", number(s.state.dead)],
  s.state.missed > 0 && ["Missed", `${number(s.state.missed)}, which its streams keep no more`],
  ["Address", h("code", s.url)],
  ["Types", s.types?.join(", ") ?? "all"],
  ["Sent up to", h("ul", s.bizTypes.map((one) => h("li",
    h("a", { href: link("biz-types", one) }, `position ${number(s.state.positions[one] ?? 0)} of ${one}`))))],
  s.state.node && ["Node", s.state.node],
  ["Version", `${s.version}, ${time(s.updatedAt).textContent}`],
]);

const actionsOf = (s, look, ctx) => {
  const verb = s.enabled ? "Disable" : "Enable";
  const revive = () => askAndDo({
    title: `Send what is dead to ${s.name} again?`, yes: "Send again",
    text: h("p", `${count(s.state.dead, "event")} the receiver did not take for three days.`),
    action: async () => {
      await post(`${at(s.name)}/replay`, { dead: true });
      await look();
      return true;
    },
  });
  const shown = { name: s.name, version: s.version };
  let there = s; // what somebody else has changed meanwhile stays
  const load = async () => { there = await read(ctx, at(s.name)); return there; };
  const send = (version) => {
    const { url, bizTypes, types } = there;
    return request("PUT", at(s.name), {
      json: { url, bizTypes, types, enabled: !s.enabled }, headers: { "If-Match": `"${version}"` },
    });
  };
  const change = () => askAndDo({
    title: `${verb} ${s.name}?`, yes: verb, kind: s.enabled ? "danger" : "primary",
    text: h("p", s.enabled ? "Events wait in their streams, for a week if nothing else is set."
      : "What is pending is sent, and what waits in the streams."),
    action: async () => {
      await changeShown("subscription", shown, load, look, send);
      await look();
      return true;
    },
  });
  return [
    s.state.dead > 0 && button("Send dead ones again…", { kind: "primary", click: revive }),
    button(`${verb}…`, { kind: s.enabled && "danger", click: change }),
  ];
};

/** Returns the form that sends events again from a position on. */
const again = (name, look) => {
  const bizType = plain("Biz type", "bizType", { required: true });
  const from = plain("From position", "from", { required: true, type: "number", min: 1 });
  return section("Send again", { lead: "All events from a position on, also those that the receiver has." },
    rowForm(async () => {
      await post(`${at(name)}/replay`, { bizType: bizType.value(), from: Number(from.value()) });
      await look();
    }, sender("Send again", "", ""), [bizType, from], atField({ bizType, from })));
};

const deliveries = (name, ctx) => {
  const list = h("div");
  const which = select([["", "All"], ["pending", "Pending"], ["dead", "Dead"]]);
  const filter = field({ label: "Which", name: "state", input: which });
  const reload = pages(list, (after) => read(ctx, `${at(name)}/deliveries`, { state: which.value, after, limit: 50 }),
    ({ deliveries: rows }) => table({
      caption: "Deliveries",
      columns: [
        { title: "Event", cell: ({ event: e }) => `${e.type} of ${e.bizType}, position ${number(e.position)}` },
        { title: "State", cell: ({ state }) => status(state === "dead" ? "bad" : "off", state) },
        { title: "Attempts", number: true, cell: ({ attempts }) => number(attempts) },
        { title: "Next attempt", cell: ({ nextAt }) => nextAt && time(nextAt) },
        { title: "Error", class: "prose", cell: ({ error }) => error },
      ],
      rows, key: (one) => one.key,
      none: soft("The receiver has all that was sent."),
    }));
  which.addEventListener("change", () => reload(true));
  return section("Deliveries", {
    lead: "What the receiver does not have.", actions: button("Refresh", { click: () => reload() }),
  }, filter.element, list);
};
