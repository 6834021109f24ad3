import {equal, match, ok, rejects} from "./assert.js";
import {check, enable, load, loadIfThere, remove, save} from "../web/definitions.js";

const json = (status, body, type = "application/json") => new Response(body === undefined ? null
  : typeof body === "string" ? body : JSON.stringify(body), {status, headers: {"Content-Type": type}});
const problem = (status, code) => json(status, {status, code, detail: code}, "application/problem+json");
const lost = () => { throw new TypeError("Failed to fetch"); };
const there = (version, definition, more) => json(200, {name: "order", version, enabled: true, definition, ...more});

/** Runs f while requests get the given answers, one after the other. Returns the requests. */
async function answered(answers, f) {
  const real = globalThis.fetch;
  const requests = [];
  globalThis.fetch = async (url, {method, headers, body}) => {
    requests.push({what: `${method} ${url}`, body, ifMatch: headers["If-Match"], ifNone: headers["If-None-Match"]});
    return answers[requests.length - 1]();
  };
  try {
    await f();
  } finally {
    globalThis.fetch = real;
  }
  equal(requests.length, answers.length, "requests");
  return requests;
}

export const tests = {
  "large numbers are read and written as they are": async () => {
    const text = '{"name":"order","version":1,"definition":{"big":9007199254740993}}';
    const [, put] = await answered([() => json(200, text), () => there(1, {})], async () => {
      const {definition} = await load("order");
      await check("order", definition, 1);
    });
    equal(put.body, '{"big":9007199254740993}');
    equal(put.what, "PUT console/api/biz-types/order?dryRun=true");
  },
  "a change names its version": async () => {
    const [first, second, third] = await answered([() => there(8, {}), () => there(1, {}), () => there(9, {})],
      async () => {
        await save("order", {}, 7);
        await save("order", {}, 0);
        await save("order", {}, 8, true);
      });
    equal([first.ifMatch, first.ifNone, second.ifMatch, second.ifNone], ['"7"', undefined, undefined, "*"]);
    equal(third.what, "PUT console/api/biz-types/order?force=true");
  },
  "a biz type that is not there is null, and another error is one": async () => {
    await answered([() => problem(404, "unknown_biz_type"), () => problem(503, "store_unavailable")], async () => {
      equal(await loadIfThere("order"), null);
      await rejects(loadIfThere("order"), /store_unavailable/);
    });
  },
  "the answer is lost, and it was saved": async () => {
    const definition = {start: 5, rejected: [{name: "webhook", url: "https://x/?t=1"}]};
    const shown = {rejected: [{url: "(secret)", name: "webhook"}], start: 5};
    await answered([lost, () => there(8, shown)], async () => {
      equal((await save("order", definition, 7)).version, 8);
    });
  },
  "the answer is lost, and it was not saved": async () => {
    await answered([lost, () => there(7, {start: 1})], async () => {
      const error = await rejects(save("order", {start: 5}, 7), /was not made/);
      equal([error.name, error.unknown], ["Unreachable", false]);
    });
    await answered([lost, () => problem(404, "unknown_biz_type")],
      () => rejects(save("order", {start: 5}, 0), /was not made/));
  },
  "the answer is lost, and somebody else saved something": async () => {
    await answered([lost, () => there(8, {start: 6})], async () => {
      const error = await rejects(save("order", {start: 5}, 7), /version 8/);
      equal([error.status, error.code], [412, "precondition_failed"]);
    });
  },
  "the answer is lost, and nobody knows": async () => {
    await answered([lost, lost], async () => {
      ok((await rejects(save("order", {start: 5}, 7))).unknown);
    });
  },
  "a refusal is not asked about again": async () => {
    await answered([() => problem(412, "precondition_failed")], async () => {
      match((await rejects(save("order", {}, 7))).code, /precondition_failed/);
    });
  },
  "disabling and deleting look again too": async () => {
    await answered([lost, () => there(8, {}, {enabled: false})], async () => {
      equal((await enable("order", false, 7)).enabled, false);
    });
    await answered([lost, () => there(7, {})], () => rejects(enable("order", false, 7), /was not made/));
    await answered([lost, () => problem(404, "unknown_biz_type")], () => remove("order", 7));
    await answered([lost, () => there(7, {})], () => rejects(remove("order", 7), /was not made/));
  },
};
