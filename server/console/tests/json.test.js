import { equal, ok, throws } from "./assert.js";
import { isObject, numberOf, parse, same, stringify } from "../web/json.js";

export const tests = {
  "an error has a place": () => {
    throws(() => parse('{\n  "start": 1,\n  "step" 2\n}'), /line 3 column 10/);
    throws(() => parse("[1]"), /not one object/);
  },
  "numbers stay as they were written": () => {
    const text = '{"a":[9007199254740991,9007199254740993,-18446744073709551616,0.5]}';
    equal(JSON.stringify(parse(text)), text);
    equal(stringify(numberOf("9007199254740993")), "9007199254740993");
    equal(numberOf("0.25"), 0.25);
    ok(!isObject(numberOf("9007199254740993")));
  },
  "a key __proto__ is a key": () => {
    const object = parse('{"__proto__": {"a": 1}}');
    equal(Object.getPrototypeOf(object) === Object.prototype, true);
    equal(JSON.stringify(object), '{"__proto__":{"a":1}}');
  },
  "compares without the order of keys": () => {
    ok(same({a: 1, b: [1, {c: null}]}, {b: [1, {c: null}], a: 1}));
    ok(!same({a: 1}, {a: 1, b: undefined}));
    ok(!same([1, 2], [2, 1]));
    ok(!same([], {}));
    ok(!same(null, {}));
    ok(!same({}, null) && !same([], null) && !same({}, numberOf("9007199254740993")));
    ok(!same({toString: 1}, {a: 1}));
    ok(same(numberOf("9007199254740993"), numberOf("9007199254740993")));
    ok(!same(numberOf("9007199254740993"), numberOf("9007199254740994")));
  },
};
