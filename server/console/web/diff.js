// The difference between two definitions, and between three.

import { isObject, same } from "./json.js";
import { hidden, keyOf, read, write } from "./settings.js";

const isItems = (value) => Array.isArray(value) && value.every(isObject);
const nameOf = (item) => read(item, ["name"]);

/**
 * Returns the changes that make one definition the other: {path, key, from, to}. A list of plugins
 * is one change for the names, and one for each setting that a plugin had not before.
 */
export function changes(before, after, path = []) {
  const both = (is) => [before, after].every((value) => value === undefined || is(value));
  if (same(before, after)) {
    return [];
  }
  if (both(isObject)) {
    return keysIn(before, after).flatMap((key) =>
      changes(read(before, [key]), read(after, [key]), [...path, key]));
  }
  return both(isItems) ? itemChanges(before, after, path) : [change(path, before, after)];
}

const change = (path, from, to) => ({ path, key: keyOf(path), from, to });

/** Returns the keys of objects, each once in any case. */
function keysIn(...objects) {
  const keys = objects.flatMap((object) => Object.keys(object ?? {}));
  const folded = keys.map((key) => key.toLowerCase());
  return keys.filter((key, i) => folded.indexOf(folded[i]) === i);
}

/** Compares each item with the first one of its name that is left. */
function itemChanges(before, after, path) {
  const left = [...before ?? []];
  const found = (after ?? []).flatMap((item, i) => {
    const at = left.findIndex((one) => nameOf(one) === nameOf(item));
    const old = at < 0 ? { name: nameOf(item) } : left.splice(at, 1)[0];
    return changes(old, item, [...path, i]);
  });
  const [from, to] = [before, after].map((items) => items?.map(nameOf));
  return same(from, to) ? found : [change(path, from, to), ...found];
}

/** Returns changes without secrets: what is one reads (secret), or "a new secret". */
export function concealed(list, isSecret) {
  return list.map((one) => {
    const [from, to] = [one.from, one.to].map((value) => conceal(value, one.path, isSecret));
    return { ...one, from, to: to === hidden && one.to !== hidden ? "a new secret" : to };
  });
}

/** Returns a value without the secrets in it. */
export function conceal(value, path, isSecret) {
  if (value === undefined) {
    return undefined;
  }
  if (isSecret(path)) {
    return hidden;
  }
  if (Array.isArray(value)) {
    return value.map((item, i) => conceal(item, [...path, i], isSecret));
  }
  return isObject(value) ? Object.fromEntries(Object.entries(value)
    .map(([key, part]) => [key, conceal(part, [...path, key], isSecret)])) : value;
}

/**
 * Returns {path, key, isTheirs, base, mine, theirs} for each setting that differs between two
 * people, who began with base. isTheirs: only they changed it. A list of other plugins is one
 * setting.
 */
export function threeWay(base, mine, theirs, path = []) {
  if (same(mine, theirs)) {
    return [];
  }
  if ([mine, theirs].every(isObject) && (base === undefined || isObject(base))) {
    return keysIn(base, mine, theirs).flatMap((key) =>
      threeWay(read(base, [key]), read(mine, [key]), read(theirs, [key]), [...path, key]));
  }
  if ([base, mine, theirs].every(isItems) && sameNames(base, mine) && sameNames(base, theirs)) {
    return mine.flatMap((item, i) => threeWay(base[i], item, theirs[i], [...path, i]));
  }
  return [{ path, key: keyOf(path), isTheirs: same(base, mine), base, mine, theirs }];
}

function sameNames(a, b) {
  return same(a.map(nameOf), b.map(nameOf));
}

/** Returns their definition with mine in the settings that I changed. */
export function merged(theirs, entries) {
  return entries.filter(({ isTheirs }) => !isTheirs)
    .reduce((definition, { path, mine }) => write(definition, path, mine), theirs);
}
