// The rows and columns of the table of nodes on the overview.

import { h } from "./dom.js";
import { CLOCK_DIFFERS, clockWords, nodeNames } from "./health.js";
import { status } from "./ui.js";
import { latency, number, perSecond, seconds, time } from "./words.js";

const states = {
  __proto__: null, // names come from other nodes
  ready: ["good", "ready"], degraded: ["warn", "degraded"], unready: ["bad", "not ready"],
  gone: ["bad", "does not answer"],
};

/** Returns the rows of an overview, by name: {node, name, other}; other: of another version. */
export function rowsOf(o) {
  const names = nodeNames(o.nodes);
  const build = o.nodes.find((node) => node.self)?.build;
  return o.nodes
    .map((node) => ({ node, name: names.get(node.id), other: node.build !== build }))
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

const figure = (name, show) => ({ node }) => node.figures && show(node.figures[name]);
const soft = (...children) => h("div", { class: "soft" }, children);

/** The columns: [title, cell(row), whether a number]. */
export const columns = [
  ["Node", ({ node, name }) => [h("strong", name), !name.includes(node.node) && soft(node.node),
    " ", node.self && h("span", { class: "tag" }, "answers here"),
    " ", node.leader && h("span", { class: "tag" }, "leads")]],
  ["State", ({ node, other }) => (!node.state
    ? status("info", `runs, no figures${other ? ": another version" : " yet"}`)
    : [node.state === "ready" && node.backends?.store?.state === "away" ? status("warn", "no store")
      : status(...states[node.state] || ["info", node.state]),
      node.state === "gone" && soft("last seen ", time(node.seenAt))])],
  ["Numbers per s", figure("numbersPerSecond", perSecond), true],
  ["Refused per s", figure("refusedPerSecond", perSecond), true],
  ["Slowest 1 %", figure("p99Ms", (ms) => latency(seconds(ms))), true],
  ["Connections", figure("connections", number), true],
  ["Back ends", ({ node }) => Object.entries(node.backends || {}).map(([name, { state: how }]) =>
    h("div", status(how === "ok" ? "good" : "bad",
      `${name === "redis" ? "Redis" : "Store"} ${how === "ok" ? "" : how.replace("_", " ")}`)))],
  ["Clock", ({ node: { clockOffsetMs, state: how } }) => {
    const words = clockOffsetMs !== undefined && how !== "gone" && clockWords(clockOffsetMs);
    return Math.abs(clockOffsetMs) > CLOCK_DIFFERS && words ? status("warn", words) : words;
  }],
  ["Machine IDs", ({ node }) => {
    const all = Object.entries(node.machineIds || {}).map(([name, id]) => h("div", `${name} ${id}`));
    return all.length <= 3 ? all : [all.slice(0, 3), soft(`and ${all.length - 3} more`)];
  }],
  ["Started", ({ node }) => time(node.startedAt, "ago")],
  ["Version", ({ node, other }) => (other ? status("info", node.build) : node.build)],
];
