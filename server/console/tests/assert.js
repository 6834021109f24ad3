// The assertions of the tests in this folder. Each throws if what it asserts does not hold.

/** ok fails unless value is truthy. */
export function ok(value, what = "a value") {
  if (!value) throw new Error(`${what} is ${show(value)}`);
}

/** equal fails unless got and want are the same value, or have the same content. */
export function equal(got, want, what = "") {
  if (!same(got, want)) throw new Error(`${what && `${what}: `}got ${show(got)}, want ${show(want)}`);
}

/** match fails unless the text fits the regular expression. */
export function match(text, pattern, what = "the text") {
  if (!pattern.test(text)) throw new Error(`${what} is ${show(text)}, which does not fit ${pattern}`);
}

/** throws fails unless f throws an error whose message fits the pattern; it returns the error. */
export function throws(f, pattern = /(?:)/) {
  try {
    f();
  } catch (error) {
    match(error.message, pattern, "the error's message");
    return error;
  }
  throw new Error("nothing was thrown");
}

/** rejects is like throws, for a promise or an async function. */
export async function rejects(promise, pattern = /(?:)/) {
  try {
    await (typeof promise === "function" ? promise() : promise);
  } catch (error) {
    match(error.message, pattern, "the error's message");
    return error;
  }
  throw new Error("the promise was not rejected");
}

/** same compares values, arrays, plain objects, maps, sets and dates by their content. */
function same(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b) return false;
  if (a instanceof Node || b instanceof Node) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (a instanceof Date) return a.getTime() === b.getTime();
  if (a instanceof Map || a instanceof Set) return same([...a], [...b]);
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && same(a[key], b[key]));
}

function show(value) {
  if (value instanceof Element) return value.outerHTML;
  if (value instanceof Error) return String(value);
  if (typeof value === "number" || value === undefined) return String(value);
  return JSON.stringify(value);
}
