// Definitions, and what GET /settings says of them. These functions change nothing that they get.

import { isObject, numberOf, stringify } from "./json.js";

/** What a secret reads as. Written back as that, it stays as it is. */
export const hidden = "(secret)";

/** The lists of a definition. GET /settings describes their items under the same names. */
export const lists = ["plugins", "rejected"];

/** The settings that a form shows first, also in a section that has many. */
const important = ["start", "step", "reset", "timeZone", "keyed", "ordering", "reservationTTL",
  "onRelease", "epoch", "bitsMachine", "bitsSequence", "to", "onOverflow"];

/** Returns how an object spells a key: keys are the same in any case. */
function spelled(object, key) {
  const folded = key.toLowerCase();
  return Object.hasOwn(object, key) ? key
    : Object.keys(object).find((known) => known.toLowerCase() === folded) ?? key;
}

/** Returns the value at a path such as ["plugins", 0, "template"]. */
export function read(from, path) {
  return path.reduce((value, step) => {
    if (typeof step === "number") {
      return Array.isArray(value) ? value[step] : undefined;
    }
    const key = isObject(value) && spelled(value, step);
    return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }, from);
}

/** Returns a copy with another value at a path. undefined removes it, and a section left empty. */
export function write(to, [step, ...rest], value) {
  if (step === undefined) {
    return value;
  }
  if (typeof step === "number") {
    return to.with(step, write(to[step], rest, value));
  }
  const object = isObject(to) ? { ...to } : {};
  const key = spelled(object, step);
  const next = write(object[key], rest, value);
  const emptied = rest.length > 0 && value === undefined && isObject(next) && Object.keys(next).length === 0;
  if (next === undefined || emptied) {
    delete object[key];
  } else {
    object[key] = next;
  }
  return object;
}

/** Returns the key of a path as the API writes it: plugins[0].file.path. */
export function keyOf(path) {
  return path.map((step, i) => (typeof step === "number" ? `[${step}]` : (i ? "." : "") + step)).join("");
}

/** Returns what a field shows of a value. */
export function textOf(value) {
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) {
    return value.join("\n");
  }
  return value === undefined || value === null ? ""
    : typeof value === "object" ? stringify(value) : String(value);
}

/**
 * Returns the value of a text that was typed: undefined, the default, if it is empty. A text that
 * does not fit stays a text, so that it is not lost and the service says what is wrong.
 */
export function valueOf(text, type) {
  const trimmed = text.trim();
  if (trimmed === "") {
    return undefined;
  }
  if (type === "integer" || type === "number") {
    const digits = trimmed.replace(/(?<=\d),(?=\d{3}(?!\d))/g, "");
    return /^-?(0|[1-9]\d*)(\.\d+)?$/.test(digits) ? numberOf(digits) : trimmed;
  }
  if (type === "boolean") {
    return { true: true, false: false }[trimmed];
  }
  return type === "list" ? trimmed.split(/\s*\n\s*/) : type === "text" ? text : trimmed;
}

/** Returns the strategy of a definition. */
export function strategyOf(definition) {
  return textOf(read(definition, ["strategy"])) || "segment";
}

/** Returns the description of a strategy, plugin or handler, undefined if it is unknown. */
export function described(list, name) {
  return list?.find((item) => item.name === name);
}

/**
 * Returns the fields of a section at a path: main (those that are shown first), more, and unknown
 * (keys without a setting, except own). A field is {path, key, setting, value}.
 */
export function fieldsOf(section, settings, at, own = ["name"]) {
  const field = (steps, setting) =>
    ({ path: [...at, ...steps], key: keyOf([...at, ...steps]), setting, value: read(section, steps) });
  const known = [...settings.map(({ key }) => key), ...own].map((key) => key.toLowerCase());
  const isKnown = (key) => known.some((one) => one === key || one.startsWith(`${key}.`));
  const isMain = ({ key, required, exactlyOneOf }) => key !== "order" &&
    (settings.length <= 6 || required || exactlyOneOf || important.includes(key));
  const [main, more] = [true, false].map((is) => settings
    .filter((setting) => Boolean(isMain(setting)) === is)
    .map((setting) => field(setting.key.split("."), setting)));
  return {
    main, more,
    unknown: Object.keys(section).filter((key) => !isKnown(key.toLowerCase())).map((key) => field([key])),
  };
}

/** Returns the fields of a definition that belong to its strategy. */
export function strategyFields(definition, { strategies }) {
  const { settings } = described(strategies, strategyOf(definition)) ?? { settings: [] };
  return fieldsOf(definition, settings, [], ["strategy", "name", ...lists]);
}

/** Returns a definition with another strategy, without settings that only others have: aside. */
export function changeStrategy(definition, name, { strategies }, before = {}) {
  const keys = (list) => list.flatMap((one) => one.settings).map(({ key }) => key.split(".")[0].toLowerCase());
  const own = keys(strategies.filter((one) => one.name === name));
  const others = new Set(keys(strategies).filter((key) => !own.includes(key)));
  const isAway = ([key]) => others.has(key.toLowerCase());
  const all = Object.entries({ ...before, ...definition });
  return {
    definition: write(Object.fromEntries(all.filter((one) => !isAway(one))), ["strategy"], name),
    aside: Object.fromEntries(all.filter(isAway)),
  };
}

/** Returns the setting at a path, null in a plugin or handler that this node does not know. */
export function settingAt(settings, definition, path) {
  const [list, index, ...rest] = path;
  const inItem = typeof index === "number";
  const item = inItem && read(definition, [list, index, "name"]);
  const owner = inItem ? described(settings[list], item) : described(settings.strategies, strategyOf(definition));
  const key = (inItem ? rest : path).join(".").toLowerCase();
  return item && !owner ? null : [...inItem ? [] : settings.common ?? [], ...owner?.settings ?? []]
    .find((setting) => setting.key.toLowerCase() === key);
}

/** Returns a function that says whether the value at a path is, or may be, a secret. */
export function secretsIn(settings, ...definitions) {
  return (path) => definitions.some((definition) => {
    const setting = settingAt(settings, definition, path);
    return setting === null ? path.length > 2 && path[2] !== "name" : setting?.secret;
  });
}

/** Puts problems or warnings beside the keys of fields: {beside (texts by key), others}. */
export function placed(entries, keys) {
  const known = new Map(keys.map((key) => [key.toLowerCase(), key]));
  const keyFor = ({ key }) => known.get((key ?? "").toLowerCase());
  const beside = new Map();
  for (const entry of entries.filter(keyFor)) {
    beside.set(keyFor(entry), [beside.get(keyFor(entry)), entry.text].filter(Boolean).join(" "));
  }
  return { beside, others: entries.filter((entry) => !keyFor(entry)) };
}

/** Returns what a biz type does, in one line. */
export function summary(definition) {
  const get = (key) => textOf(read(definition, [key]));
  const plugins = read(definition, ["plugins"]);
  return [
    get("keyed") === "true" && "keyed",
    ...["start", "step"].map((key) => get(key) && `${key} ${get(key)}`),
    (get("reset") || "never") !== "never" && `resets ${get("reset")}`,
    ...(Array.isArray(plugins) ? plugins : [])
      .map((item) => `${textOf(read(item, ["name"]))} ${textOf(read(item, ["template"]))}`.trim()),
  ].filter(Boolean).join(" · ") || "all defaults";
}

/** Returns what is wrong with a name of a biz type, "" if nothing is. */
export function wrongName(name) {
  return /^[A-Za-z][\w.-]{0,63}$/.test(name) ? "" : `${name ? "The name is not allowed" : "It needs a name"}: ` +
    "begin with a letter, and use at most 64 letters, digits, “.”, “_” and “-”.";
}

/** Returns what a search box means as ?match=: text without * may stand anywhere. */
export function matchOf(text) {
  const trimmed = text.trim();
  return trimmed === "" || trimmed.includes("*") ? trimmed : `*${trimmed}*`;
}
