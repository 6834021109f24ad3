import { equal, ok, rejects, throws } from "./assert.js";
import { get, onUnauthorized, path, post, signedIn } from "../web/api.js";
import { h, put } from "../web/dom.js";
import { link, parse } from "../web/routes.js";
import { matches, may, mayIssue, why } from "../web/session.js";
import { table } from "../web/ui.js";

const json = (status, body, headers = {}) =>
  new Response(status === 204 ? null : JSON.stringify(body), {
    status,
    headers: {
      "Content-Type": status < 400 ? "application/json" : "application/problem+json",
      ...headers,
    },
  });

const refusal = (status, code) =>
  json(status, { status, code, detail: "x", requestId: "r" }, { "Retry-After": "3" });

/** Runs f while fetch gives these answers one by one; returns the requests. */
async function answering(answers, f) {
  const real = globalThis.fetch;
  const requests = [];
  globalThis.fetch = async (url, options) => {
    requests.push(`${options.method} ${url}`);
    const answer = answers.shift();
    if (answer instanceof Error) {
      throw answer;
    }
    return answer;
  };
  try {
    await f();
  } finally {
    globalThis.fetch = real;
  }
  return requests;
}

const who = (...scopes) => ({ tokensAskedFor: true, caller: "ops", scopes });

export const tests = {
  "texts never become elements": () => {
    const node = h("p", { title: "<b>" }, "<img src=x onerror=alert(1)>", [
      "&amp;",
      null,
      false,
      0,
    ]);
    equal(node.children.length, 0);
    equal(node.textContent, "<img src=x onerror=alert(1)>&amp;0");
    throws(() => h("p", { onclick: "alert(1)" }), /listeners/);
    equal(put(h("p", "a"), "b").textContent, "b");
  },
  "an address is parsed, and made": () => {
    const { name, parts, query, load } = parse(`${link("biz-types", "a/b %", "history")}?after=9`);
    equal(
      [name, parts, query.get("after"), typeof load],
      ["biz-types", ["a/b %", "history"], "9", "function"],
    );
    equal([parse("").name, parse("#/").name], ["overview", "overview"]);
    equal([parse("#/nothing").load, parse("#/overview/x").load], [undefined, undefined]);
    equal(parse("#/biz-types/%").parts, ["%"]);
  },
  scopes: () => {
    ok(may("read", who("admin")) && may("read", who("read")) && !may("admin", who("read")));
    ok(may("admin", { tokensAskedFor: false, scopes: [] }));
    ok(mayIssue("order", "", who("issue:or*")) && mayIssue("t", "k-1", who("issue:t/k-*")));
    ok(!mayIssue("t", "", who("issue:t/k-*")) && !mayIssue("order", "", who("admin")));
    ok(mayIssue("t", "k", who("issue:t")) && !mayIssue("t", "k", who("issue:*/j")));
    ok(matches("a.b*", "a.bc") && !matches("a.b*", "axbc") && !matches("*", "a/b"));
    equal(
      [why("admin", who("admin")), why("issue:t", who("read"))],
      ["", "Your token ops lacks the scope issue:t."],
    );
  },
  "paths are escaped": () =>
    equal(path`/biz-types/${"a/b"}/keys/${"?"}`, "/biz-types/a%2Fb/keys/%3F"),
  "an empty query is left out": async () => {
    const sent = await answering([json(200, {}), json(200, {})], async () => {
      await get("/x", { query: { a: "", b: null, c: 0 } });
      await get("/x", { query: { a: "" } });
    });
    equal(sent, ["GET console/api/x?c=0", "GET console/api/x"]);
  },
  "refusals have a code": () =>
    answering([refusal(409, "conflict")], async () => {
      const error = await rejects(get("/x"), /x/);
      equal(
        [error.name, error.code, error.retryAfter, error.requestId],
        ["ApiError", "conflict", 3, "r"],
      );
    }),
  "an answer of a proxy is none": () =>
    answering(
      [
        new Response("<html>", { status: 502 }),
        new Response("<html>"),
        json(500, null),
        new TypeError("x"),
      ],
      async () => {
        for (let i = 0; i < 4; i++) {
          equal((await rejects(get("/x"))).name, "Unreachable");
        }
      },
    ),
  "a change whose outcome is unknown is never repeated": async () => {
    const sent = await answering([new TypeError("broken")], async () => {
      ok((await rejects(post("/x", {}))).unknown);
    });
    equal(sent.length, 1);
  },
  "after 401 one dialog serves all requests, which are then repeated": async () => {
    let asked = 0;
    onUnauthorized(async () => {
      asked++;
      await new Promise((resolve) => setTimeout(resolve, 10));
      signedIn();
      return true;
    });
    const answers = [
      refusal(401, "unauthorized"),
      refusal(401, "unauthorized"),
      json(200, 1),
      json(200, 2),
    ];
    const sent = await answering(answers, () => Promise.all([get("/a"), post("/b", {})]));
    equal([asked, sent.length], [1, 4]);
  },
  "a poll does not ask again after the dialog was closed": async () => {
    let asked = 0;
    onUnauthorized(async () => {
      asked++;
      return false;
    });
    await answering(
      [1, 2, 3].map(() => refusal(401, "unauthorized")),
      async () => {
        await rejects(get("/a", { background: true }));
        await rejects(get("/a", { background: true }));
        await rejects(get("/a"));
      },
    );
    equal(asked, 2);
  },
  "rows of a table keep their element": () => {
    const list = table({
      caption: "x",
      key: (row) => row.id,
      columns: [
        { title: "ID", cell: (row) => row.id },
        { title: "N", cell: (row) => row.n },
      ],
      rows: [
        { id: "a", n: 1 },
        { id: "b", n: 2 },
      ],
    });
    const [a, b] = list.querySelectorAll("tbody tr");
    list.update([
      { id: "b", n: 3 },
      { id: "c", n: null },
      { id: "a", n: 1 },
    ]);
    const rows = [...list.querySelectorAll("tbody tr")];
    ok(rows[0] === b && rows[2] === a);
    equal(
      rows.map((row) => row.textContent),
      ["b3", "c", "a1"],
    );
  },
};
