import { equal, match } from "./assert.js";
import {
  ago,
  clock,
  count,
  dateTime,
  duration,
  explain,
  latency,
  list,
  meaning,
  moveOn,
  number,
  percent,
  perSecond,
  sentence,
  time,
} from "../web/words.js";

const plain = (text) => text.replace(/\u202f/g, " ");
const each = (f, cases) =>
  cases.forEach(([want, ...args]) => equal(plain(f(...args)), want, String(args)));

export const tests = {
  "numbers have commas, and keep every digit of texts": () =>
    each(number, [
      ["1,234,567", 1234567],
      ["0", 0],
      ["1.5", 1.5, 1],
      ["9,223,372,036,854,775,807", "9223372036854775807"],
      ["-1,234", "-1234"],
      ["INV-7", "INV-7"],
      ["–", NaN],
      ["–", undefined],
    ]),
  "rates have the digits that they deserve": () =>
    each(perSecond, [
      ["0", 0],
      ["0.04", 0.04],
      ["12.3", 12.34],
      ["1,234", 1234.4],
      ["–", null],
    ]),
  "one is singular": () =>
    each(count, [
      ["1 node", 1, "node"],
      ["0 nodes", 0, "node"],
      ["2 boxes", 2, "box", "boxes"],
    ]),
  "only all is 100 %": () =>
    each(percent, [
      ["100 %", 1],
      ["99.9 %", 0.9999],
      ["99.5 %", 0.995],
      ["97 %", 0.97],
      ["3.1 %", 0.031],
      ["0 %", 0],
    ]),
  "lists end in and": () =>
    each(list, [
      ["", []],
      ["a", ["a"]],
      ["a and b", ["a", "b"]],
      ["a, b and c", ["a", "b", "c"]],
    ]),
  "durations have two units at most": () =>
    each(duration, [
      ["for ever", null],
      ["0 s", 0],
      ["250 ms", 0.25],
      ["34 s", 34.4],
      ["2 min 5 s", 125],
      ["1 min", 60],
      ["3 h 10 min", 11400],
      ["3 h", 10800 + 20],
      ["12 min", 725],
      ["1 day 1 h", 90000],
      ["12 days", 12 * 86400 + 7200],
      ["69 years", 69.9 * 365.25 * 86400],
      ["1 min", 59.7],
    ]),
  "latencies have a unit that fits": () =>
    each(latency, [
      ["–", null],
      ["3.6 µs", 3.6e-6],
      ["340 µs", 3.4e-4],
      ["1.2 ms", 0.00123],
      ["45 ms", 0.045],
      ["1.3 s", 1.3],
    ]),
  "times are in the reader's zone": () => {
    equal(clock("2026-11-23T12:04:10Z"), "13:04:10"); // Europe/Berlin
    equal(clock("2026-11-22T23:30:00Z"), "00:30:00");
    equal(dateTime("2026-07-01T12:00:00Z"), "1 Jul 2026, 14:00:00");
    const node = time("2026-11-23T12:04:10.000Z", "full");
    equal([node.tagName, node.getAttribute("datetime")], ["TIME", "2026-11-23T12:04:10.000Z"]);
    match(node.title, /Europe\/Berlin/);
    equal([time("").textContent, time("never").textContent], ["–", "–"]);
  },
  "times move on": () => {
    const node = time(new Date(), "ago");
    document.body.append(node, time(new Date()));
    moveOn(Date.now() + 60_500);
    equal(plain(node.textContent), "1 min ago");
    node.nextSibling.remove();
    node.remove();
  },
  "ago is coarse": () => {
    const now = Date.parse("2026-11-23T12:00:00Z");
    const at = (seconds) => new Date(now - seconds * 1000).toISOString();
    each(
      (seconds) => ago(at(seconds), now),
      [
        ["just now", 1],
        ["59 s ago", 59],
        ["3 min ago", 199],
        ["1 day ago", 100000],
        ["in 2 h", -7300],
      ],
    );
  },
  "codes that nobody knows are shown": () => {
    match(meaning("new_one").what, /new_one/);
    match(meaning("constructor").what, /constructor/);
  },
  "errors say what to do": () => {
    const error = Object.assign(new Error("x"), {
      name: "ApiError",
      status: 503,
      code: "store_unavailable",
      detail: "no answer",
      retryAfter: 5,
      requestId: "r-1",
    });
    const why = explain(error);
    equal([why.text, why.requestId], ["No answer.", "r-1"]);
    match(why.todo, /Try again in 5 s/);
    const lost = explain(
      Object.assign(new Error("no connection"), { name: "Unreachable", unknown: true, status: 0 }),
    );
    match(lost.todo, /Nobody knows whether the change was made/);
    match(explain(new TypeError("x is undefined")).text, /x is undefined/);
  },
  "sentences begin and end": () =>
    each(sentence, [
      ["", ""],
      ["A b.", "a b"],
      ["A b?", "a b?"],
      ["", undefined],
    ]),
};
