import {equal, match, ok, rejects, throws} from "./assert.js";

const fail = (message) => () => {
  throw new Error(message);
};

export const tests = {
  "equal compares content": () => {
    equal({a: [1, {b: null}]}, {a: [1, {b: null}]});
    equal(new Map([["a", new Date(1)]]), new Map([["a", new Date(1)]]));
    equal(NaN, NaN);
    throws(() => equal({a: 1}, {a: 1, b: undefined}), /got \{"a":1\}/);
    throws(() => equal([1, 2], {0: 1, 1: 2}), /got/);
    throws(() => equal("1", 1, "the sum"), /^the sum: got "1", want 1$/);
  },
  "ok, match and throws fail if they must": () => {
    throws(() => ok(0, "the sum"), /^the sum is 0$/);
    throws(() => match("abc", /x/), /does not fit/);
    throws(() => throws(() => 1), /^nothing was thrown$/);
    throws(() => throws(fail("this"), /that/), /"this", which does not fit/);
  },
  "rejects waits": async () => {
    await rejects(async () => fail("late")(), /late/);
    await rejects(rejects(Promise.resolve(1)), /was not rejected/);
  },
};
