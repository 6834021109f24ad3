import { equal, match } from "./assert.js";
import { bizTypeWords, clockWords, headline, nodeNames, troubles } from "../web/health.js";

const node = (id, more = {}) => ({
  id,
  host: `seq-${id}`,
  node: ":8080",
  build: "1",
  state: "ready",
  reasons: [],
  self: id === "a",
  backends: { store: { state: "ok" } },
  seenAt: new Date().toISOString(),
  ...more,
});

const overview = (nodes, more = {}) => ({
  complete: true,
  metrics: true,
  numbers: [1, 1234, null],
  nodes,
  inHand: [],
  bizTypes: { total: 3, ready: 3, degraded: 0, unready: 0, disabled: 0 },
  ...more,
});

const says = (o) => headline(o).text.replace(/\u202f/g, " ");
const away = { backends: { store: { state: "away", detail: "no answer" } } };

export const tests = {
  "all is well": () => {
    equal(says(overview([node("a")])), "The node issues numbers. Numbers per second: 1,234.");
    equal(
      says(overview([node("a"), node("b")])),
      "Both nodes issue numbers. Numbers per second: 1,234.",
    );
    equal(
      says(overview([node("a"), node("b"), node("c")], { metrics: false, numbers: [null] })),
      "All 3 nodes issue numbers.",
    );
    equal(headline(overview([node("a")])).kind, "good");
  },
  "no biz types": () =>
    equal(says(overview([node("a")], { bizTypes: { total: 0 } })), "Ready. None is in use."),
  "a node is gone": () => {
    const gone = node("c", { state: "gone", backends: {} });
    match(
      says(overview([node("a"), node("b"), gone])),
      /^seq-c has not answered since .*; the other 2 issue\./,
    );
    match(
      says(overview([node("a"), gone, { ...gone, id: "d", host: "seq-d" }])),
      /^seq-c and seq-d have not answered since .*; the other one issues/,
    );
  },
  "the store is away": () => {
    const inHand = [
      { bizType: "order", lastsMs: 34400 },
      { bizType: "x", lastsMs: null },
    ];
    equal(
      says(overview([node("a", away)], { inHand, complete: false, metrics: false, numbers: [] })),
      "The store is away: numbers in hand last about 34 s.",
    );
    const of = (nodes, more) => says(overview(nodes, { numbers: [], ...more }));
    const unused = { inHand: [{ bizType: "x", lastsMs: null, numbers: 5 }] };
    equal(
      of([node("a", away), node("b", away)], unused),
      "The store is away. Only numbers in hand are still issued.",
    );
    equal(
      of([node("a", away), node("b", away)]),
      "The store is away. No node has numbers in hand: none are issued.",
    );
    equal(
      of([node("a", { ...away, machineIds: { user: 3 } })]),
      "The store is away. The node that answers has no numbers in hand: only snowflake biz types issue.",
    );
    match(says(overview([node("a"), node("b", away)])), /^The store is away for seq-b\./);
  },
  "biz types that cannot issue come first": () => {
    const o = overview([node("a"), node("b", { state: "gone" })], {
      bizTypes: { total: 3, ready: 2, unready: 1, degraded: 0, disabled: 0 },
    });
    match(says(o), /^1 biz type cannot issue numbers\./);
    equal(headline(o).kind, "bad");
  },
  "degraded, starting": () => {
    match(
      says(overview([node("a"), node("b", { state: "degraded" })])),
      /^seq-b is degraded\. Both nodes issue numbers/,
    );
    match(
      says(overview([node("a"), node("b", { state: "starting" })])),
      /^seq-b is starting; the other one issues/,
    );
  },
  "an older node says little": () => {
    const old = node("b", { state: undefined, reasons: undefined, build: "0" });
    equal(headline(overview([node("a"), old])).kind, "good");
    match(troubles(overview([node("a"), old]))[0].text, /seq-b has version 0/);
  },
  "troubles are grouped by code, the worst first": () => {
    const reason = (bizType) => ({ bizType, code: "redis_unavailable", detail: "no order" });
    const found = troubles(
      overview([
        node("a", { clockOffsetMs: -1720 }),
        node("b", {
          state: "degraded",
          reasons: [reason("x"), reason("y")],
          backends: { redis: { state: "away" } },
        }),
        node("c", away),
      ]),
    );
    equal(
      found.map(({ kind, text }) => `${kind}: ${text}`.replace(/\u202f/g, " ")),
      [
        "bad: The store does not answer, says seq-c: no answer.",
        "warn: Redis does not answer, says seq-b of x and y: no order.",
        "warn: The clock of seq-a is 1.7 s behind.",
      ],
    );
  },
  "definitions from different places": () => {
    const o = overview([
      node("a", { bizTypesFrom: "store" }),
      node("b", { bizTypesFrom: "config", state: "degraded" }),
      node("c"), // of an earlier version
    ]);
    const text = "Definitions come from the configuration at seq-b, and from the store at seq-a.";
    equal(headline(o).kind, "warn");
    equal(says(o), `${text} Numbers per second: 1,234.`);
    equal(troubles(o)[0].text, text);
    o.nodes[1].bizTypesFrom = "store";
    equal(troubles(o), []);
  },
  "nothing is said twice": () => {
    const said = (detail) =>
      troubles(overview([node("a", { backends: { store: { state: "away", detail } } })]))[0].text;
    equal(said("the store does not answer"), "The store does not answer, says seq-a.");
    equal(said("the store does not answer: EOF"), "The store does not answer, says seq-a: EOF.");
  },
  "nodes of one host have their address": () =>
    equal(
      [
        ...nodeNames([
          node("a", { host: "h", node: ":1" }),
          node("b", { host: "h", node: ":2" }),
          node("c", { host: "" }),
        ]).values(),
      ],
      ["h :1", "h :2", ":8080"],
    ),
  clocks: () =>
    equal(
      [0, 0.2, 4, -75_000].map((s) => clockWords(s).replace(/\u202f/g, " ")),
      ["exact", "exact", "4 ms ahead", "1 min 15 s behind"],
    ),
  "biz types": () => {
    equal(bizTypeWords({ total: 12, ready: 9, degraded: 2, disabled: 1 }, false), "12 biz types in use");
    equal(
      bizTypeWords({ total: 12, ready: 9, degraded: 2, unready: 0, disabled: 1 }),
      "12 biz types in use: 2 degraded, 9 ready, 1 disabled",
    );
  },
};
