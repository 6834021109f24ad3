// A definition in plain words.

import { number } from "./words.js";

/** Returns a definition with all keys in lower case: they are the same in any case. */
export const folded = (value) => {
  if (Array.isArray(value)) return value.map(folded);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key.toLowerCase(), folded(v)]));
};

const strategies = {
  segment: "counts upwards. A node that stops may skip some numbers.",
  snowflake: "made from the time, a machine ID and a sequence.",
  gapless: "counts upwards without gaps.",
};

const countsFrom = (get) => {
  const [start, increment, offset] = [get("start") ?? 1, get("increment") ?? 1, get("offset") ?? 0].map(Number);
  if (increment <= 1) return `From ${number(start)} upwards.`;
  const first = start + (((offset - start) % increment) + increment) % increment;
  return `Numbers that are ${increment} apart: ${first}, ${first + increment}, ${first + 2 * increment}, …`;
};

const resets = (get) => {
  const unit = { daily: "day", monthly: "month", yearly: "year" }[get("reset")];
  return unit ? `Each ${unit} begins at ${number(get("start") ?? 1)} again, at midnight in ${get("timeZone") ?? "UTC"}.`
    : "Never.";
};

const ofStrategy = {
  segment: (get) => [["Order", get("ordering") === "per-node"
    ? "Numbers increase on each node, not over all nodes."
    : "Later requests get larger numbers, on all nodes."]],
  gapless: (get) => [
    ["Reservations", `They last ${get("reservationTTL") ?? "10m"} if the caller names no time.`],
    ["Released numbers", get("onRelease") === "void" ? "They become void and are never handed out again."
      : "They are handed out again, the lowest first."],
  ],
  snowflake: (get) => [["Room", `${number(2 ** (get("bitsMachine") ?? 10))} machine IDs, and `
    + `${number(2 ** (get("bitsSequence") ?? 12))} numbers a millisecond on each, since ${get("epoch") ?? "2025"}.`]],
};

const shown = (plugins) => plugins.flatMap((b) => ({
  obfuscate: [`As ${b.digits ? `${b.digits} digits` : `numbers of ${b.bits} bits`} that do not tell how many there are.`],
  format: [`As ${b.template}.`],
}[b.name] ?? [])).join(" ") || "As plain digits.";

/**
 * Describes a biz type as pairs of a term and a sentence. get returns a setting, or its default;
 * plugins are folded.
 */
export const describe = (strategy, get, plugins) => [
  ["Strategy", `${strategy}${strategies[strategy] ? `: ${strategies[strategy]}` : "."}`],
  ...(strategy in strategies && strategy !== "snowflake" ? [
    ["Counts from", countsFrom(get)],
    ["Resets", resets(get)],
    ["Keys", get("keyed") === true ? "Each key, such as a tenant, counts on its own."
      : "None: all callers share one counter."],
  ] : []),
  ...(ofStrategy[strategy]?.(get) ?? []),
  ["Shown", shown(plugins)],
  ["Plugins", plugins.map((b) => b.name).join(", ") || "None."],
];
