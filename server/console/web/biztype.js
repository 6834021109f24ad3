// One biz type, with tabs.

import { showAccount } from "./account.js";
import { path } from "./api.js";
import { describe, folded } from "./describe.js";
import { h, put } from "./dom.js";
import { showEvents } from "./events.js";
import { hash, live, read, terms } from "./forms.js";
import { showHistory } from "./history.js";
import { showKeys } from "./keys.js";
import { deleteByName, disableOrEnable } from "./lifecycle.js";
import { showNumbers } from "./numbers.js";
import { showReservations } from "./reservations.js";
import { showStats } from "./stats.js";
import {
  button, codeLink, empty, errorNotice, facts, fill, linkButton, notice, page, section, status,
  tabs,
} from "./ui.js";
import { meaning, number, rate, sentence, time } from "./words.js";

/**
 * The tabs: name in the address, title, show(pane, it, ctx), and which biz types have it. A new one
 * needs a line here and its module.
 */
const allTabs = [
  ["overview", "Overview", showOverview, (it) => it.known],
  ["numbers", "Numbers", showNumbers, () => true],
  ["account", "Account", showAccount, (it) => it.strategy === "gapless"],
  ["reservations", "Reservations", showReservations,
    (it) => it.strategy === "gapless" || !it.known],
  ["keys", "Keys", showKeys, (it) => it.get("keyed")],
  ["events", "Events", showEvents, (it) => it.get("events")],
  ["history", "History", showHistory, (it) => it.has("history")],
  ["stats", "Stats", showStats, (it) => it.has("stats")],
];

/** Shows a biz type: #/biz-types/{name}/{tab}. */
export async function show(main, { parts: [name, tab], query }, ctx) {
  const lead = h("div");
  const actions = h("div", { class: "actions" });
  const body = h("div");
  put(main, page(name, { crumbs: [["Biz types", "#/biz-types"]], lead, actions }, body));
  const render = (it) => {
    if (!it) return nothing(name);
    const its = allTabs.filter(([, , , has]) => has(it));
    const found = tab ? its.find(([id]) => id === tab) : its[0];
    const [current, , showTab] = found ?? ["", "", showNothing];
    const pane = h("div", { class: "tab" });
    put(lead, it.known && [status(...(it.enabled ? ["good", "enabled"] : ["off", "disabled"])),
      ` · ${it.strategy} · version ${it.version}`]);
    put(actions, current === "overview" && actionsOf(it, ctx));
    showTab(pane, it, ctx);
    return [
      it.known || notice("info", `${ctx.why("read")} You can only take and parse numbers.`),
      tabs(`Pages of ${name}`, its.map(([id, text]) => ({ name: id, text, href: hash(name, id) })),
        current),
      pane,
    ];
  };
  await fill(body, () => readBizType(name, query, ctx), render, { signal: ctx.signal });
  const shown = body.querySelector(".tabs [aria-current]");
  shown?.scrollIntoView({ block: "nearest", inline: "center" });
}

/**
 * Reads a biz type; null if there is none. The answer is what the API says, and: known (whether the
 * session may read it), strategy, plugins (folded), get(setting), which knows the defaults of this
 * node, has(plugin), and query.
 */
async function readBizType(name, query, ctx) {
  const unknown = {
    name, query, known: false, enabled: true, strategy: "", get: () => undefined, has: () => false,
  };
  if (!ctx.may("read")) return unknown;
  try {
    const [data, settings] = await Promise.all([
      read(ctx, path`/biz-types/${name}`),
      read(ctx, "/settings").catch(() => null), // only sentences need it
    ]);
    const definition = folded(data.definition);
    const { strategy = "segment", plugins = [] } = definition;
    const described = settings?.strategies.find((one) => one.name === strategy)?.settings;
    const standard = (key) => described?.find((one) => one.key === key)?.default;
    return {
      ...unknown, ...data, known: true, strategy, plugins,
      get: (key) => definition[key.toLowerCase()] ?? standard(key),
      has: (plugin) => plugins.some((one) => one.name === plugin),
    };
  } catch (error) {
    if (["unknown_biz_type", "invalid_biz_type"].includes(error.code)) return null;
    throw error;
  }
}

const nothing = (name) => empty(`There is no biz type ${name}.`,
  h("p", "It may be deleted, or so new that this node does not know it yet."),
  h("p", linkButton("All biz types", "#/biz-types")));

function showNothing(pane) {
  put(pane, empty("There is no such page.", h("p", "Account and Reservations need the strategy "
    + "gapless, Keys the setting keyed, and History and Stats the plugins history and stats.")));
}

function actionsOf(it, ctx) {
  const why = ctx.why("admin");
  if (why) return button("Edit", { why });
  return [
    linkButton("Edit", hash(it.name, "edit"), { kind: "primary" }),
    button(it.enabled ? "Disable…" : "Enable…", { click: () => disableOrEnable(it, ctx) }),
    button("Delete…", { kind: "danger", click: () => deleteByName(it, ctx) }),
  ];
}

/** Shows the tab Overview: the state of the biz type, its figures, and what it is. */
function showOverview(pane, it, ctx) {
  const changed = h("div", { role: "status" });
  const state = h("div");
  const figures = h("div");
  const counter = h("div");
  put(pane, changed, section("State", {}, state, counter, figures), section("What it is", {}, terms([
    ...describe(it.strategy, it.get, it.plugins),
    ["Changed", [time(it.updatedAt, "full"), ", ", time(it.updatedAt, "ago")]],
    ["Source", it.source === "config" ? "The configuration." : "The API or this console."],
  ])));
  live(ctx, state, "/readyz", (ready) => stateOf(it, ready), (error) => ( // 503 says what cannot issue
    error.problem?.bizTypes ? stateOf(it, error.problem) : errorNotice(error)));
  if (!it.get("keyed") && it.strategy !== "snowflake") {
    live(ctx, counter, path`/biz-types/${it.name}/counter`, ({ highest, period }) => facts([
      [`Highest number that has left the store${period ? `, in ${period}` : ""}`, number(highest)],
    ]), () => null); // a strategy of somebody else may have no counter
  }
  live(ctx, figures, "/overview", ({ busiest, runsOut, complete }) => {
    const busy = busiest.find((one) => one.bizType === it.name);
    const ended = runsOut.some(({ bizType, what, lastsMs }) => // /readyz does not count that
      bizType === it.name && ["numbers", "display"].includes(what) && lastsMs === 0);
    const whose = complete ? "on all nodes" : "on the node that answers";
    return [ended && explained("exhausted"), busy && facts([
      [`Issued, ${whose}`, rate(busy.numbersPerSecond)],
      [`Refused, ${whose}`, rate(busy.refusedPerSecond)],
    ])];
  }, () => null); // the overview explains what is wrong with figures
  const somebody = (did, what) => notice("warn", `Somebody ${did} ${it.name} meanwhile. `, what);
  live(ctx, changed, path`/biz-types/${it.name}`, ({ version }) => version !== it.version
    && somebody("changed", button("Show it", { kind: "small", click: ctx.reload })),
  ({ code }) => code === "unknown_biz_type" && somebody("deleted", "You see how it was."));
}

/** Says what an answer of /readyz means for a biz type. */
function stateOf(it, { bizTypes = [], unready = 0, degraded = 0, ...ready }) {
  if (!it.enabled) return h("p", status("off", "Disabled. Requests for numbers are refused."));
  const found = bizTypes.find((one) => one.bizType === it.name);
  if (found) return explained(found.code, sentence(found.detail));
  // It lists the first 100, and none to somebody whose session has ended.
  const all = ready.status === "ready" || (bizTypes.length || ready.store)
    && bizTypes.length === unready + degraded;
  const [kind, text] = !all ? ["info", "Not known"]
    : ready.status === 503 ? ["info", "Not among those that cannot issue"] : ["good", "No fault"];
  return h("p", status(kind, `${text}, says the node that answers.`));
}

function explained(code, detail) {
  const { what, todo } = meaning(code);
  return notice("warn", h("strong", what), detail && h("p", detail), h("p", todo),
    h("p", "So says the node that answers: ", codeLink(code)));
}
