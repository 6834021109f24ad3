// Uses the types of openapi-typescript with openapi-fetch.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];

// Numbers also exist as text/plain. A client that lists the media types it reads has only JSON in
// its types.
type Media = "application/json" | "application/problem+json";

const admin = connect(setting("SEQD_TOKEN"));

function connect(token: string) {
  return createClient<paths, Media>({ baseUrl: setting("SEQD_URL"), headers: { Authorization: `Bearer ${token}` } });
}

function setting(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set`);
  return value;
}

interface Answer<T> {
  data?: T;
  error?: Schemas["Problem"];
  response: Response;
}

// good returns the data of an answer that must not be an error.
function good<T>({ data, error, response }: Answer<T>): T {
  assert.ok(data !== undefined, `${response.url}: ${response.status} ${JSON.stringify(error)}`);
  return data;
}

// refused checks that a request got a problem with this code.
function refused({ error, response }: Answer<unknown>, status: number, code: Schemas["Code"]): void {
  assert.equal(response.status, status);
  assert.equal(error?.status, status);
  assert.equal(error?.code, code);
}

async function numbers(): Promise<void> {
  const path = { bizType: "order" };
  const one = good(await admin.GET("/seq/{bizType}", { params: { path } }));
  assert.match(one.id ?? "", /^[0-9]+$/);
  assert.equal(one.ids, undefined);
  const three = good(await admin.GET("/seq/{bizType}", { params: { path, query: { count: 3 } } }));
  assert.equal(three.ids?.length, 3);
  assert.equal(three.id, undefined);

  const keyed = { params: { path, query: { count: 2 }, header: { "Idempotency-Key": "typescript" } } };
  const first = await admin.POST("/seq/{bizType}", keyed);
  const again = await admin.POST("/seq/{bizType}", keyed);
  assert.deepEqual(good(again).ids, good(first).ids);
  assert.equal(again.response.headers.get("Idempotent-Replayed"), "true");
  const other = { ...keyed.params, query: { count: 3 } };
  refused(await admin.POST("/seq/{bizType}", { params: other }), 422, "idempotency_key_reused");

  const id = one.id ?? "";
  const parsed = good(await admin.GET("/seq/{bizType}/parse/{id}", { params: { path: { ...path, id } } }));
  assert.deepEqual([parsed.valid, parsed.number], [true, id]);
  refused(await admin.GET("/seq/{bizType}", { params: { path: { bizType: "nobody" } } }), 404, "unknown_biz_type");
}

async function bizTypes(): Promise<void> {
  const path = { name: "typescript" };
  const start = 9_000_000_000_000; // more than 32 bits have
  const plugins = [{ name: "stats" }];
  const made = good(await admin.PUT("/biz-types/{name}", { params: { path }, body: { start, plugins } }));
  assert.deepEqual([made.name, made.enabled, made.definition.start], ["typescript", true, start]);
  const page = good(await admin.GET("/biz-types", { params: { query: { limit: 1000 } } }));
  assert.ok(page.bizTypes.some((bizType) => bizType.name === "typescript"));

  const got = await admin.GET("/biz-types/{name}", { params: { path } });
  assert.equal(good(got).version, made.version);
  const header = { "If-Match": got.response.headers.get("ETag") ?? "" };
  const changed = good(await admin.PATCH("/biz-types/{name}", { params: { path, header }, body: { step: 500 } }));
  assert.equal(changed.definition.step, 500);
  refused(await admin.PATCH("/biz-types/{name}", { params: { path, header }, body: { step: 600 } }), 412, "precondition_failed");
  const wrong = await admin.PATCH("/biz-types/{name}", { params: { path }, body: { step: 0 } });
  refused(wrong, 400, "invalid_definition");
  assert.equal(wrong.error?.problems?.[0]?.key, "step");
}

async function tokens(): Promise<void> {
  const path = { name: "typescript" };
  const body = { name: "typescript", scopes: ["issue:typescript"] };
  const made = good(await admin.POST("/tokens", { body }));
  assert.equal(made.enabled, true);
  refused(await admin.POST("/tokens", { body }), 409, "conflict");
  const shop = connect(made.secret);
  const issued = good(await shop.GET("/seq/{bizType}", { params: { path: { bizType: "typescript" } } }));
  assert.equal(issued.id, "9000000000000");
  refused(await shop.GET("/tokens"), 403, "forbidden");
  refused(await connect("seqd_wrong").GET("/tokens"), 401, "unauthorized");

  const expires = "2100-01-01T00:00:00Z";
  assert.ok(good(await admin.PATCH("/tokens/{name}", { params: { path }, body: { expires } })).expires);
  const changed = good(await admin.PATCH("/tokens/{name}", { params: { path }, body: { expires: null, enabled: false } }));
  assert.deepEqual([changed.enabled, changed.expires], [false, undefined]);
  assert.equal((await admin.DELETE("/tokens/{name}", { params: { path } })).response.status, 204);
  refused(await admin.GET("/tokens/{name}", { params: { path } }), 404, "not_found");
}

async function service(): Promise<void> {
  const path = { name: "typescript" };
  const stats = good(await admin.GET("/biz-types/{name}/stats", { params: { path } }));
  assert.deepEqual([stats.issued, typeof stats.rates["1m"].issued], [1, "number"]);
  assert.equal(good(await admin.GET("/readyz")).status, "ready");
  assert.equal(good(await admin.GET("/nodes")).nodes[0]?.self, true);
  assert.equal((await admin.DELETE("/biz-types/{name}", { params: { path } })).response.status, 204);
}

await numbers();
await bizTypes();
await tokens();
await service();
console.log("all as it should be");
