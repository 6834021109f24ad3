import {equal, ok} from "./assert.js";
import {
  changeStrategy, fieldsOf, keyOf, matchOf, placed, read, secretsIn, strategyFields, strategyOf,
  summary, textOf, valueOf, write, wrongName,
} from "../web/settings.js";

const settings = {
  strategies: [
    {name: "segment", settings: [{key: "step", type: "integer"}, {key: "start", type: "integer"},
      {key: "reset", type: "text"}, {key: "ordering", type: "text"}]},
    {name: "gapless", settings: [{key: "start", type: "integer"}, {key: "reset", type: "text"},
      {key: "reservationTTL", type: "duration"}]},
  ],
  plugins: [
    {name: "history", settings: [{key: "to", type: "text"}, {key: "file.path", type: "text"}]},
    {name: "obfuscate", settings: [{key: "key", type: "text", secret: true}, {key: "digits"}]},
  ],
  rejected: [{name: "webhook", settings: [{key: "url", secret: true}, {key: "queue"}]}],
};

export const tests = {
  "paths are keys of the API": () => {
    equal(keyOf(["plugins", 12, "file", "path"]), "plugins[12].file.path");
    equal(keyOf(["start"]), "start");
  },
  "reads in any case, and nothing that is not there": () => {
    equal(read({Start: 5}, ["start"]), 5);
    equal(read({a: [{b: {c: 1}}]}, ["a", 0, "b", "c"]), 1);
    equal(read({a: 1}, ["a", 0, "b"]), undefined);
    equal(read({a: "text"}, ["a", "length"]), undefined);
    equal(read({}, ["toString"]), undefined);
    equal(read(null, ["a"]), undefined);
  },
  "writes a copy, with the spelling there is": () => {
    const before = {Start: 1, plugins: [{name: "a"}, {name: "b"}]};
    equal(write(before, ["start"], 2), {Start: 2, plugins: before.plugins});
    equal(write(before, ["plugins", 1, "x", "y"], 3).plugins[1], {name: "b", x: {y: 3}});
    equal(before, {Start: 1, plugins: [{name: "a"}, {name: "b"}]});
  },
  "removing leaves no empty section": () => {
    const before = {plugins: [{name: "history", file: {path: "x"}}]};
    equal(write(before, ["plugins", 0, "file", "path"], undefined), {plugins: [{name: "history"}]});
    equal(write({a: 1}, ["a"], undefined), {});
    equal(write({a: 1}, ["b"], undefined), {a: 1});
    equal(write({}, ["file", "path"], undefined), {});
    equal(write({f: {}, g: 1}, ["g"], undefined), {f: {}});
  },
  "a text becomes a value of its type": () => {
    equal(valueOf(" 12 ", "integer"), 12);
    equal(valueOf("1,000,000", "integer"), 1000000);
    equal(valueOf("1,0", "integer"), "1,0");
    equal(valueOf("012", "integer"), "012");
    equal(valueOf("1e3", "integer"), "1e3");
    equal(valueOf("1.5", "integer"), 1.5);
    equal(valueOf("0.5", "number"), 0.5);
    equal(valueOf("a lot", "number"), "a lot");
    equal(valueOf("true", "boolean"), true);
    equal(valueOf("false", "boolean"), false);
    equal(valueOf("5m", "duration"), "5m");
    equal(valueOf(" {seq} ", "text"), " {seq} ");
    equal(valueOf("a\n\n b", "list"), ["a", "b"]);
  },
  "empty means the default, zero does not": () => {
    for (const type of ["integer", "number", "boolean", "duration", "text", "list"]) {
      equal(valueOf("  ", type), undefined);
    }
    equal(valueOf("0", "integer"), 0);
  },
  "what was typed is shown again": () => {
    for (const [text, type] of [["12", "integer"], ["0.25", "number"], ["false", "boolean"],
      ["9007199254740993", "integer"], ["x", "integer"], ["a\nb", "list"]]) {
      equal(textOf(valueOf(text, type)), text);
    }
    equal(textOf({a: 1}), '{\n  "a": 1\n}');
    equal(textOf(null), "");
  },
  "all settings of few come first, unknown keys are kept apart": () => {
    const {main, more, unknown} = strategyFields({strategy: "segment", step: 7, nope: 1, plugins: []}, settings);
    equal(main.map((f) => f.key), ["step", "start", "reset", "ordering"]);
    equal(more, []);
    equal(main[0].value, 7);
    equal(unknown.map((f) => [f.key, f.value]), [["nope", 1]]);
    equal(strategyOf({}), "segment");
    equal(strategyFields({strategy: "ours", a: 1}, settings).unknown.map((f) => f.key), ["a"]);
  },
  "fields of a plugin have the keys of problems": () => {
    const item = {name: "history", file: {path: "x"}, order: 3};
    const {main, unknown} = fieldsOf(item, settings.plugins[0].settings, ["plugins", 2]);
    equal(main.map((f) => [f.key, f.value]), [["plugins[2].to", undefined], ["plugins[2].file.path", "x"]]);
    equal(unknown.map((f) => f.key), ["plugins[2].order"]);
  },
  "settings that are important, needed, or of which one is needed come first": () => {
    const many = ["a", "b", "c", "d"].map((key) => ({key, type: "text"}));
    const {main, more} = fieldsOf({}, [...many, {key: "key", exactlyOneOf: ["key", "keyEnv"]},
      {key: "url", required: true}, {key: "to", values: ["log"]}, {key: "order"}], ["plugins", 0]);
    equal(main.map((f) => f.setting.key), ["key", "url", "to"]);
    equal(more.map((f) => f.setting.key), ["a", "b", "c", "d", "order"]);
  },
  "another strategy sets settings aside, and they come back": () => {
    const before = {ordering: "strict", start: 5, nope: 1, plugins: [{name: "x"}]};
    const to = changeStrategy(before, "gapless", settings);
    equal(to.definition, {start: 5, nope: 1, plugins: [{name: "x"}], strategy: "gapless"});
    equal(to.aside, {ordering: "strict"});
    const back = changeStrategy(to.definition, "segment", settings, to.aside);
    equal(back.definition, {...before, strategy: "segment"});
    equal(back.aside, {});
  },
  "secrets are known by their place": () => {
    const before = {plugins: [{name: "obfuscate", key: "k"}, {name: "history"}, {name: "newer", a: 1}]};
    const secret = secretsIn(settings, before, {});
    ok(secret(["plugins", 0, "key"]));
    ok(!secret(["plugins", 0, "digits"]));
    ok(!secret(["plugins", 1, "to"]));
    ok(secret(["plugins", 2, "a"]), "a plugin that is not known");
    ok(!secret(["plugins", 2, "name"]));
    ok(!secret(["plugins", 0]));
    ok(!secret(["start"]) && !secret(["hosts", 0]));
  },
  "problems stand beside their field, or on top": () => {
    const entries = [{key: "Start", text: "a"}, {key: "plugins[0].zz", text: "b"}, {key: "", text: "c"},
      {key: "start", text: "d"}];
    const {beside, others} = placed(entries, ["start", "step"]);
    equal([...beside], [["start", "a d"]]);
    equal(others, entries.slice(1, 3));
  },
  "one line says what a biz type does": () => {
    equal(summary({}), "all defaults");
    equal(summary({start: 100, keyed: true, reset: "daily"}), "keyed · start 100 · resets daily");
    equal(summary({machineId: "5", reset: "never", keyed: false}), "all defaults");
    equal(summary({strategy: "gapless", plugins: [{name: "format", template: "A{seq}"}, {name: "stats"}]}),
      "format A{seq} · stats");
    equal(summary({plugins: "wrong", start: {a: 1}}), 'start {\n  "a": 1\n}');
  },
  "names": () => {
    equal(wrongName("order-2.x_Y"), "");
    for (const name of ["", "9a", "-a", "aü", "a b", "a/b", "a\n", "a".repeat(65)]) {
      ok(/: begin with a letter/.test(wrongName(name)), name);
    }
    equal(wrongName("a".repeat(64)), "");
  },
  "a search without * finds it anywhere": () => {
    equal(matchOf(" order "), "*order*");
    equal(matchOf("order*"), "order*");
    equal(matchOf(" "), "");
  },
};
