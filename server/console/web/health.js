// How the cluster is, in sentences. Nothing here touches the page.

import { meaning, sentence } from "./codes.js";
import { ago, count, duration, latency, list, number, perSecond, shortTime } from "./words.js";

/** Clocks that differ by more milliseconds than this are worth a sentence. */
export const CLOCK_DIFFERS = 1000;

/** Returns the names of nodes by ID: the host, with the address if several have that host. */
export function nodeNames(nodes) {
  const hosts = nodes.map((node) => node.host || node.node);
  const alone = (host) => hosts.indexOf(host) === hosts.lastIndexOf(host);
  return new Map(nodes.map((node, i) =>
    [node.id, alone(hosts[i]) ? hosts[i] : `${hosts[i]} ${node.node}`]));
}

/** Returns {kind, text}: one sentence that says how the cluster is, and its rate if known. */
export function headline(o) {
  const [, kind, text] = state(o);
  const now = o.numbers.slice(-4).findLast((n) => n !== null);
  const known = o.bizTypes.total > 0 && now !== undefined;
  return { kind, text: text() + (known ? ` Numbers per second: ${perSecond(now)}.` : "") };
}

function state(o) {
  const are = (...states) => o.nodes.filter((node) => states.includes(node.state));
  const alive = o.nodes.filter((node) => node.state !== "gone");
  const store = (how) => alive.filter((node) => node.backends?.store?.state === how);
  const [gone, away, weak] = [are("gone"), store("away"), are("degraded", "starting", "stopping")];
  const { total, unready, degraded } = o.bizTypes;
  const issuing = issue(alive.length - are("starting", "stopping").length, o.nodes.length);
  const say = (nodes, one, many) => `${namesOf(nodes, o)} ${nodes.length === 1 ? one : many}`;
  return [
    [store("failed_over").length > 0, "bad",
      () => "The store failed over: an operator has to confirm how far it had come."],
    [isStoreAway(o), "bad", () => storeAway(o)],
    [away.length > 0, "bad", () => `The store is away for ${namesOf(away, o)}.`],
    [unready > 0, "bad", () => `${count(unready, "biz type")} cannot issue numbers.`],
    [gone.length > 0, "warn", () => `${say(gone, "has", "have")} not answered since ` +
      `${shortTime(gone[0].seenAt)}${issuing}`],
    [degraded > 0, "warn", () => `${count(degraded, "biz type")} ` +
      `${degraded === 1 ? "is" : "are"} degraded${issuing}`],
    [mixed(o), "warn", () => mixed(o)],
    [weak.length > 0, "warn", () => `${say(weak, "is", "are")} ${weak[0].state}${issuing}`],
    [true, "good", () => (total > 0 ? issuing.slice(2) : "Ready. None is in use.")],
  ].find(([holds]) => holds);
}

/** Says where definitions come from, "" if all nodes have them from the same place. */
function mixed(o) {
  const from = (place) => namesOf(o.nodes.filter((node) => node.bizTypesFrom === place), o);
  const [config, store] = ["config", "store"].map(from);
  return config && store
    && `Definitions come from the configuration at ${config}, and from the store at ${store}.`;
}

/** Reports whether no node reaches the store. */
export function isStoreAway({ complete, nodes }) {
  return !complete || nodes.every(({ state: how, backends }) =>
    how === "gone" || backends?.store?.state === "away");
}

function storeAway({ inHand, metrics, nodes }) {
  const some = inHand.filter((one) => Number(one.numbers) !== 0);
  if (some.length === 0 && metrics) { // without metrics nobody knows
    const [who, none] = nodes.length > 1 ? ["No node has", "none are issued"]
      : ["The node that answers has no", "it issues none"];
    const snowflake = nodes.some((node) => Object.keys(node.machineIds || {}).length > 0);
    return `The store is away. ${who} numbers in hand: ` +
      `${snowflake ? "only snowflake biz types issue" : none}.`;
  }
  const soonest = Math.min(...some.map((one) => one.lastsMs ?? Infinity));
  return soonest === Infinity ? "The store is away. Only numbers in hand are still issued."
    : `The store is away: numbers in hand last about ${duration(soonest / 1000)}.`;
}

/** Returns the end of a sentence, which says that n of all nodes issue. */
function issue(n, all) {
  const others = ["no other node issues", "the other one issues"][n] || `the other ${n} issue`;
  const who = ["The node issues", "Both nodes issue"][n - 1] || `All ${n} nodes issue`;
  return n < all ? `; ${others}.` : `. ${who} numbers.`;
}

function namesOf(nodes, o) {
  const names = nodeNames(o.nodes);
  return few(nodes.map((node) => names.get(node.id)));
}

function few(texts) {
  return list(texts.length < 5 ? texts : [...texts.slice(0, 3), count(texts.length - 3, "other")]);
}

/** Returns what is not as it should be: [{kind, text, todo}], the worst first. todo may be "". */
export function troubles(o, now = Date.now()) {
  const found = [...reasons(o), ...o.nodes.flatMap((node) => ofNode(node, o, now))];
  const text = mixed(o);
  if (text) {
    found.push({ kind: "warn", text, todo: "Give all nodes the same bizTypesFrom." });
  }
  const rank = ["bad", "warn", "info"];
  return found.sort((a, b) => rank.indexOf(a.kind) - rank.indexOf(b.kind));
}

/** Groups the reasons of all nodes, and what they say of their back ends, by code. */
function reasons(o) {
  const all = o.nodes.flatMap((node) => [
    ...(node.reasons || []).map((reason) =>
      ({ ...reason, node, kind: node.state === "unready" ? "bad" : "warn" })),
    ...Object.entries(node.backends || {}).filter(([, { state: how }]) => how !== "ok")
      .map(([name, { state: how, detail }]) => ({
        node, detail, kind: name === "store" ? "bad" : "warn",
        code: how === "failed_over" ? "store_failed_over" : `${name}_unavailable`,
      })),
  ]);
  return [...Map.groupBy(all, ({ code }) => code)].map(([code, group]) => {
    const distinct = (key) => [...new Set(group.map((one) => one[key]))].filter(Boolean);
    const { what, todo } = meaning(code);
    const bizTypes = distinct("bizType");
    const who = bizTypes.length > 0 ? ` of ${few(bizTypes)}` : "";
    const detail = group[0].detail || "";
    const again = detail.toLowerCase().startsWith(what.toLowerCase());
    const why = again ? detail.slice(what.length) : detail && `: ${detail}`;
    return {
      kind: distinct("kind").includes("bad") ? "bad" : "warn", todo,
      text: sentence(`${what}, says ${namesOf(distinct("node"), o)}${who}${why}`),
    };
  });
}

function ofNode(node, o, now) {
  const name = namesOf([node], o);
  const build = o.nodes.find((one) => one.self)?.build;
  const found = (kind, text, todo = "") => [{ kind, text: `${text}.`, todo }];
  if (node.state === "gone") {
    return found("warn", `${name} was last seen ${ago(node.seenAt, now)}`,
      "Look whether it runs. If it should not: it leaves this page after 15 minutes.");
  }
  if (Math.abs(node.clockOffsetMs) > CLOCK_DIFFERS) {
    return found("warn", `The clock of ${name} is ${clockWords(node.clockOffsetMs)}`,
      "Look at its time service (NTP): a clock that is set back makes the node wait.");
  }
  if (["starting", "stopping"].includes(node.state)) {
    return found("info", `${name} is ${node.state}`);
  }
  return node.state || node.build === build ? []
    : found("info", `${name} has version ${node.build}: its figures are missing`);
}

/** Returns "4 ms ahead", "1.7 s behind", "exact"; offset is in milliseconds, positive if it is ahead. */
export function clockWords(offset) {
  const size = Math.round(Math.abs(offset)) / 1000;
  return size === 0 ? "exact"
    : `${size < 10 ? latency(size) : duration(size)} ${offset > 0 ? "ahead" : "behind"}`;
}

/**
 * Returns how many biz types are how: "12 biz types in use: 2 degraded, 9 ready, 1 disabled", or how
 * many there are.
 */
export function bizTypeWords({ total, unready, degraded, ready, disabled }, known = true) {
  const parts = !known ? [] : [[unready, "cannot issue"], [degraded, "degraded"], [ready, "ready"],
    [disabled, "disabled"]].filter(([n]) => n > 0).map(([n, text]) => `${number(n)} ${text}`);
  return `${count(total, "biz type")} in use${parts.length > 0 ? `: ${parts.join(", ")}` : ""}`;
}
