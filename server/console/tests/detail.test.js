import { equal, match, ok } from "./assert.js";
import { stateInWords } from "../web/access.js";
import { actions, auditInWords, writers } from "../web/audit.js";
import { noBizTypes } from "../web/biztypes.js";
import { describe, folded } from "../web/describe.js";
import { onceOnly, toInstant, toLocal } from "../web/forms.js";
import { recordInWords } from "../web/history.js";
import { before } from "../web/keys.js";
import { openReservations, totals, totalsInWords } from "../web/account.js";
import { isScope, namesIn, scopeInWords, whyNotIssue } from "../web/scopes.js";
import { changesOf } from "../web/token.js";
import { numbersInWords } from "../web/workers.js";

const account = {
  first: "1", last: "1042", issued: 1036,
  gaps: [
    { from: "7", to: "9", state: "released" },
    { from: "12", to: "12", state: "void" },
    { from: "40", to: "41", state: "reserved" },
  ],
};

const line = (fields) => ({ method: "PATCH", path: "/biz-types/order", target: "order", status: 200, ...fields });

const sentenceOf = (definition, term, defaults = {}) => {
  const { strategy = "segment", plugins = [], ...own } = folded(definition);
  const get = (key) => own[key.toLowerCase()] ?? defaults[key];
  return describe(strategy, get, plugins).find(([name]) => name === term)?.[1] ?? "";
};

const now = Date.parse("2026-11-23T09:00:00Z");

export const tests = {
  "the first biz type is offered to those who may create it": () => {
    const offers = (why) => noBizTypes({ why: () => why }).querySelectorAll("a").length;
    equal([offers(""), offers("Your token lacks the scope admin.")], [1, 0]);
  },
  "the numbers of a pool": () => {
    equal(numbersInWords({ bitsMachine: 10, bitsSequence: 12 }), "1,024 worker IDs, 4,096 numbers a millisecond each");
  },
  "the nodes of audit lines": () => {
    const by = (nodeId, host, node) => ({ nodeId, host, node });
    equal([...writers([by("a", "h", ":1"), by("b", "h", ":2"), by("a", "h", ":1")]).values()], ["h :1", "h :2"]);
    equal([...writers([by("a", "h", ":1"), by("0123456789")]).values()], ["h", "01234567"]);
  },
  "what expires soon is said": () => {
    const state = (expires, enabled = true) => stateInWords({ enabled, expires }, now);
    equal(state(undefined), ["good", "valid"]);
    equal(state("2027-11-26T10:00:00Z", false), ["off", "disabled"]);
    equal(state("2026-11-20T09:00:00Z")[0], "bad");
    match(state("2026-11-20T09:00:00Z")[1], /^expired 3\sdays ago$/);
    equal(state("2026-11-26T10:00:00Z")[0], "warn");
    match(state("2026-11-26T10:00:00Z")[1], /^expires in 3\sdays$/);
    equal(state("2027-11-26T10:00:00Z")[0], "good");
  },
  "only what differs of a token is changed": () => {
    const token = { name: "till", scopes: ["read"], enabled: true, version: 3 };
    equal(changesOf(token, { scopes: ["read"], expires: null, enabled: true }), {});
    equal(changesOf(token, { scopes: ["read", "admin"], expires: null, enabled: false }), { scopes: ["read", "admin"], enabled: false });
    equal(changesOf({ ...token, expires: "2027-01-01T00:00:00Z" }, { scopes: ["read"], expires: null, enabled: true }), { expires: null });
  },
  "times of inputs are the reader's": () => {
    equal(toInstant(""), "");
    equal(toInstant("nonsense"), "");
    equal(toLocal(undefined), "");
    equal(toInstant(toLocal("2026-07-01T12:34:00.000Z")), "2026-07-01T12:34:00.000Z");
    equal(toInstant(toLocal("2026-12-01T23:59:00.000Z")), "2026-12-01T23:59:00.000Z");
  },
  "a search for keys begins just before its prefix": () => {
    equal(before(""), "");
    for (const [prefix, earlier] of [["t", "s"], ["tenant", "tenans"], ["0", "/"], ["A", "9"], ["a", "Z"], ["a-", "a"]]) {
      ok(before(prefix) < prefix, `${before(prefix)} < ${prefix}`);
      ok(`${earlier}${"z".repeat(9)}` < before(prefix) || earlier < before(prefix), `${earlier} < ${before(prefix)}`);
    }
    ok("tenansz" < before("tenant"), "keys before the prefix");
  },
  "the numbers of a record in words": () => {
    equal(recordInWords({ first: "1000", last: "1000", count: 1 }), "1,000");
    equal(recordInWords({ first: "4", last: "8", count: 5 }), "4 to 8");
    const run = { first: "4", stride: "3", count: 5 };
    equal(recordInWords({ first: "4", last: "16", count: 5, runs: [run] }), "4 to 16, 3 apart");
    equal(recordInWords({ first: "4", last: "99", count: 7, runs: [run, run] }), "4 to 99, in 2 runs");
  },
  "what is sent again has the same Idempotency-Key": () => {
    const once = onceOnly();
    const key = (what) => once(what)["Idempotency-Key"];
    const first = key({ count: "1" });
    match(first, /^[\x21-\x7e]{8,255}$/);
    equal(key({ count: "1" }), first);
    ok(key({ count: "2" }) !== first, "another key for another count");
    const second = key({ count: "2" });
    once.done();
    ok(key({ count: "2" }) !== second, "another key after an answer");
  },
  "the totals of an account add up": () => {
    equal(totals(account), { all: 1042, issued: 1036, reserved: 2, released: 3, void: 1, unread: 0 });
    equal(totalsInWords(account), "Handed out 1 to 1,042: 1,036 issued, 2 reserved, "
      + "3 released and 1 void (1,036 + 2 + 3 + 1 = 1,042).");
  },
  "what was not read of an account is said": () => {
    const part = { ...account, gaps: account.gaps.slice(0, 1), next: "9" };
    equal(totals(part).unread, 3);
    match(totalsInWords(part), /3 in gaps further down \(1,036 \+ 3 \+ 3 = 1,042\)\.$/);
  },
  "an account of no number and of one": () => {
    const none = { first: "1", last: "0", issued: 0, gaps: [] };
    equal(totalsInWords(none), "No number was handed out yet.");
    equal(totalsInWords({ first: "7", last: "7", issued: 1, gaps: [] }), "Handed out 7: 1 issued.");
  },
  "open reservations are grouped, and those that expire first are on top": () => {
    const reserved = (from, to, reservation, expiresAt) => ({ from, to, state: "reserved", reservation, expiresAt });
    const open = openReservations({ gaps: [
      reserved("1", "2", "late", "2026-11-23T10:00:00Z"), { from: "3", to: "3", state: "void" },
      reserved("4", "4", "soon", "2026-11-23T09:00:00Z"), reserved("6", "8", "late", "2026-11-23T10:00:00Z"),
    ] });
    equal(open.map((one) => [one.id, one.count, one.gaps.length]), [["soon", 1, 1], ["late", 5, 2]]);
  },
  "scopes are checked as the service checks them": () => {
    for (const good of ["admin", "read", "issue:*", "issue:order*", "issue:ticket/tenant-42", "issue:*/eu-*", "issue:a",
      "lease:*", "lease:shop"]) {
      ok(isScope(good), good);
    }
    for (const bad of ["", "Admin", "issue", "issue:", "issue:1a", "issue:a b", "issue:a/", "issue:a/-b", "issue:a/b/c",
      "lease", "lease:", "lease:a/b", "lease:7", "issue:<b>", `issue:${"a".repeat(65)}`]) {
      ok(!isScope(bad), bad);
    }
  },
  "scopes in words": () => {
    equal(namesIn(["issue:order", "read", "issue:o*", "issue:ticket/t-1", "issue:order/a"]), ["order", "ticket"]);
    equal(scopeInWords("issue:*"), "Take and reserve numbers of every biz type, with all its keys.");
    equal(scopeInWords("lease:shop"), "Lease worker IDs of the pool shop.");
    equal(scopeInWords("lease:shop-*"), "Lease worker IDs of the pools whose names fit shop-*.");
    equal(scopeInWords("issue:ticket/t-1"), "Take and reserve numbers of ticket, but only of the key t-1.");
    match(scopeInWords("issue:order*/eu-*"), /whose name fits order\*, but only of the keys that fit eu-\*/);
  },
  "a session that covers some keys may take numbers": () => {
    const why = (name, ...scopes) => whyNotIssue(name, { session: { scopes }, why: (scope) => `no ${scope}` });
    equal(why("ticket", "read", "issue:ticket/t-*"), "");
    equal(why("ticket", "issue:tick*"), "");
    equal(why("order", "admin", "read", "issue:ticket/*"), "no issue:order");
  },
  "each action that can be searched for has words of its own": () => {
    equal(new Set(actions.map(([, words]) => words)).size, actions.length);
    ok(actions.some(([action, words]) => action === "PATCH /tokens/*" && words === "Change token"));
    ok(actions.some(([action, words]) => action === "PUT /biz-types/*" && words === "Change biz type (PUT)"));
  },
  "audit lines in words": () => {
    const says = (fields, words) => equal(auditInWords(line(fields)), words);
    says({ version: 7 }, "Change biz type order: version 7");
    says({ method: "PUT", status: 201, version: 1 }, "Create biz type order");
    says({ method: "DELETE", status: 204 }, "Delete biz type order");
    says({ method: "PUT", path: "/worker-pools/shop", target: "shop", status: 201, version: 1 }, "Create pool shop");
    says({ method: "PUT", path: "/worker-pools/shop", target: "shop", version: 2 }, "Change pool shop: version 2");
    says({ method: "DELETE", path: "/worker-pools/shop", target: "shop", query: "force=true", version: 2 },
      "Delete pool shop: version 2, with force");
    says({ query: "dryRun=true" }, "Change biz type order: only a dry run");
    says({ query: "force=true", version: 8 }, "Change biz type order: version 8, with force");
    says({ status: 403 }, "Change biz type order: refused with status 403");
    says({ method: "POST", path: "/biz-types/order/disable", version: 2 }, "Disable biz type order: version 2");
    says({ method: "POST", path: "/biz-types/order/voids", status: 204 }, "Make a number void of biz type order");
    says({ method: "POST", path: "/tokens", target: "till", status: 201, version: 1 }, "Create token till");
    says({ method: "PATCH", path: "/tokens/till", target: "till", version: 2 }, "Change token till: version 2");
    says({ method: "DELETE", path: "/tokens/till/secrets/8192cd3ac568", target: "till", version: 3 },
      "Revoke a secret of token till: version 3");
    says({ method: "POST", path: "/tokens", target: "", status: 401 }, "Create token: refused with status 401");
    says({ method: "POST", path: "/console/session", target: "", status: 200 }, "Sign in");
    says({ method: "POST", path: "/<script>", target: "", status: 500 }, "POST /<script>: refused with status 500");
    says({ method: "DELETE", path: "/console/session", target: "" }, "Sign out");
  },
  "a definition in words": () => {
    match(sentenceOf({}, "Strategy"), /^segment: counts upwards/);
    equal(sentenceOf({ start: 100 }, "Counts from"), "From 100 upwards.");
    equal(sentenceOf({}, "Counts from", { start: 5 }), "From 5 upwards.");
    match(sentenceOf({ increment: 3, offset: 1 }, "Counts from"), /^Numbers that are 3 apart: 1, 4, 7, …/);
    match(sentenceOf({ start: 6, increment: 3, offset: 1 }, "Counts from"), /: 7, 10, 13, …/);
    equal(sentenceOf({ reset: "yearly", timeZone: "Asia/Shanghai" }, "Resets"), "Each year begins at 1 again, at midnight in Asia/Shanghai.");
    equal(sentenceOf({}, "Resets"), "Never.");
    match(sentenceOf({ keyed: true }, "Keys"), /counts on its own\.$/);
    match(sentenceOf({ strategy: "gapless", onRelease: "void" }, "Released numbers"), /^They become void/);
    match(sentenceOf({ strategy: "snowflake" }, "Room"), /^1,024 machine IDs, and 4,096 numbers/);
    equal(sentenceOf({}, "Shown"), "As plain digits.");
    match(sentenceOf({ plugins: [{ name: "obfuscate", digits: 8 }] }, "Shown"), /^As 8 digits/);
    equal(sentenceOf({ plugins: [{ name: "mine" }, { name: "stats" }] }, "Plugins"), "mine, stats");
    equal(sentenceOf({ strategy: "mine" }, "Strategy"), "mine.");
  },
  "keys of a definition are the same in any case": () => {
    match(sentenceOf({ KEYED: true }, "Keys"), /counts on its own\.$/);
    match(sentenceOf({ Plugins: [{ Name: "obfuscate", Digits: 6 }] }, "Shown"), /^As 6 digits/);
  },
  "a template is shown as it is": () => {
    const plugins = [{ name: "format", template: "<b>INV-{date:2006}-{seq:06}" }];
    equal(sentenceOf({ plugins }, "Shown"), "As <b>INV-{date:2006}-{seq:06}.");
  },
};
