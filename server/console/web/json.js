// JSON as people write it: numbers that JavaScript would round stay as they were written.

/** Reads one JSON object. The message of its SyntaxError says what is wrong, and where. */
export function parse(text) {
  const value = JSON.parse(text, exact);
  if (!isObject(value)) {
    throw new SyntaxError("This is not one object: {…}");
  }
  return value;
}

/** Keeps the digits of a whole number that is too large to be exact. */
function exact(key, value, { source } = {}) {
  const rounded = Number.isInteger(value) && !Number.isSafeInteger(value);
  return rounded && source && JSON.rawJSON ? JSON.rawJSON(source) : value;
}

/** Reports whether a value is an object, not a list and not a large number. */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isExact(value);
}

function isExact(value) {
  return JSON.isRawJSON?.(value) ?? false;
}

/** Returns the number that digits are. */
export function numberOf(digits) {
  return JSON.parse(digits, exact);
}

/** Writes a value as JSON, with one key or item per line. */
export function stringify(value) {
  return JSON.stringify(value, null, 2);
}

/** Reports whether two values are the same JSON. The order of keys does not count. */
export function same(a, b) {
  if (!isObject(a) && !Array.isArray(a) || !b || Array.isArray(a) !== Array.isArray(b)) {
    return a === b || isExact(a) && isExact(b) && a.rawJSON === b.rawJSON;
  }
  const keys = Object.keys(a);
  return isObject(a) === isObject(b) && keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}
