import {equal, ok} from "./assert.js";
import {changes, concealed, merged, threeWay} from "../web/diff.js";
import {same} from "../web/json.js";
import {read} from "../web/settings.js";

const short = (list) => list.map(({key, from, to}) => [key, from, to]);
const kinds = (list) => list.map(({key, isTheirs}) => [key, isTheirs ? "theirs" : "mine"]);
const format = (template) => ({name: "format", template});

export const tests = {
  "the same has no changes": () => {
    equal(changes({a: 1, b: [{name: "x"}]}, {b: [{name: "x"}], a: 1}), []);
  },
  "settings": () => {
    equal(short(changes({start: 1, step: 2, keyed: true}, {start: 5, keyed: true, reset: "daily"})), [
      ["start", 1, 5], ["step", 2, undefined], ["reset", undefined, "daily"]]);
    equal(short(changes({Start: 1}, {start: 2})), [["Start", 1, 2]]);
  },
  "a section is compared by its keys": () => {
    equal(short(changes({file: {path: "a", max: 1}}, {file: {path: "b", max: 1}})),
      [["file.path", "a", "b"]]);
    equal(short(changes({}, {file: {path: "b"}})), [["file.path", undefined, "b"]]);
  },
  "a plugin is compared with the one of its name": () => {
    const before = {plugins: [format("A{seq}"), {name: "stats"}]};
    equal(short(changes(before, {plugins: [{name: "history", to: "x"}, format("B{seq}"), {name: "stats"}]})), [
      ["plugins", ["format", "stats"], ["history", "format", "stats"]],
      ["plugins[0].to", undefined, "x"], ["plugins[1].template", "A{seq}", "B{seq}"]]);
    equal(short(changes(before, {plugins: [{name: "stats"}]})), [["plugins", ["format", "stats"], ["stats"]]]);
  },
  "two plugins of a name are compared in their order": () => {
    const [a, b] = [{name: "rate-limit", rate: 1}, {name: "rate-limit", rate: 2}];
    equal(short(changes({plugins: [a, b]}, {plugins: [b]})), [
      ["plugins", ["rate-limit", "rate-limit"], ["rate-limit"]], ["plugins[0].rate", 1, 2]]);
    equal(short(changes({plugins: [a, b]}, {plugins: [b, a]})), [
      ["plugins[0].rate", 1, 2], ["plugins[1].rate", 2, 1]]);
  },
  "another order of plugins is a change": () => {
    const list = changes({plugins: [format("x"), {name: "stats"}]}, {plugins: [{name: "stats"}, format("x")]});
    equal(short(list), [["plugins", ["format", "stats"], ["stats", "format"]]]);
  },
  "a first plugin, and the last one": () => {
    equal(short(changes({}, {plugins: [{name: "stats"}]})), [["plugins", undefined, ["stats"]]]);
    equal(short(changes({rejected: [{name: "log"}]}, {})), [["rejected", ["log"], undefined]]);
    equal(short(changes({plugins: [{}]}, {plugins: [{a: 1}, {}]})), [
      ["plugins", [undefined], [undefined, undefined]], ["plugins[0].a", undefined, 1]]);
  },
  "what is no list of plugins is compared as a whole": () => {
    equal(short(changes({}, {rejected: []})), [["rejected", undefined, []]]);
    equal(short(changes({plugins: "x"}, {plugins: [1]})), [["plugins", "x", [1]]]);
  },
  "secrets are never shown": () => {
    const secret = (path) => path.at(-1) === "url";
    const before = {rejected: [{name: "webhook", url: "(secret)"}]};
    const after = {rejected: [{name: "webhook", url: "https://x/?t=hunter2"}, {name: "webhook", url: "hunter2"}]};
    const list = concealed(changes(before, after), secret);
    ok(!JSON.stringify(list).includes("hunter2"), JSON.stringify(list));
    equal(short(concealed(changes({url: "(secret)"}, {url: "hunter2"}), secret)),
      [["url", "(secret)", "a new secret"]]);
  },
  "three ways: each setting is somebody's": () => {
    const base = {a: 1, b: 1, c: 1, d: 1, e: 1};
    const mine = {a: 2, b: 1, c: 2, d: 2, e: 1};
    const theirs = {a: 1, b: 2, c: 2, d: 3};
    const entries = threeWay(base, mine, theirs);
    equal(kinds(entries), [["a", "mine"], ["b", "theirs"], ["d", "mine"], ["e", "theirs"]]);
    equal(merged(theirs, entries), {a: 2, b: 2, c: 2, d: 2});
  },
  "three ways: settings of one plugin are merged": () => {
    const base = {plugins: [{name: "f", a: 1, b: 1}]};
    const mine = {plugins: [{name: "f", a: 2, b: 1}]};
    const theirs = {plugins: [{name: "f", a: 1, b: 2}]};
    const entries = threeWay(base, mine, theirs);
    equal(kinds(entries), [["plugins[0].a", "mine"], ["plugins[0].b", "theirs"]]);
    equal(merged(theirs, entries), {plugins: [{name: "f", a: 2, b: 2}]});
  },
  "three ways: lists with other items are taken as a whole": () => {
    const base = {plugins: [{name: "f", a: 1}]};
    const mine = {plugins: [{name: "f", a: 2}]};
    const theirs = {plugins: [{name: "g"}, {name: "f", a: 1}]};
    const entries = threeWay(base, mine, theirs);
    equal(kinds(entries), [["plugins", "mine"]]);
    equal(merged(theirs, entries), mine);
  },
  "three ways: both created one, without a base": () => {
    const entries = threeWay(undefined, {a: 1, b: 1}, {a: 1, c: 2});
    equal(kinds(entries), [["b", "mine"], ["c", "theirs"]]);
    equal(merged({a: 1, c: 2}, entries), {a: 1, b: 1, c: 2});
  },
  "three ways: what only one changed is as they made it": () => {
    const values = [{}, {a: 1}, {a: 2, f: {p: 1}}, {f: {p: 2, q: 1}, plugins: [{name: "x"}]},
      {plugins: [{name: "x", k: 1}, {name: "y"}]}, {A: 3, plugins: [{name: "x", k: 2}]}];
    const all = (entries, pick) => new Map(entries.map(({key}) => [key, pick]));
    for (const base of values) {
      for (const mine of values) {
        for (const theirs of values) {
          const entries = threeWay(base, mine, theirs);
          const what = JSON.stringify({base, mine, theirs, entries});
          const result = merged(theirs, entries);
          const wrong = entries.filter(({path, isTheirs, mine: ours, theirs: others}) =>
            !same(read(result, path), isTheirs ? others : ours));
          equal(wrong, [], what);
        }
      }
    }
  },
};
