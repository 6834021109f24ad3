// Takes numbers from seqd with ioredis.
import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";
import { Redis } from "ioredis";

const url = process.env.SEQD_REDIS; // such as redis://:seqd_token@127.0.0.1:6380
const protocol = Number(process.env.SEQD_PROTOCOL);
const client = new Redis(url, { protocol });
client.on("error", () => {}); // ioredis connects again by itself

const increasing = (values) => values.every((value, i) => i === 0 || values[i - 1] < value);

async function numbers() {
  const one = await client.incr("order");
  const last = await client.incrby("order", 10); // ten consecutive numbers: last-9 to last
  assert(one < last - 9, `${one} ${last}`);
  const ids = await client.call("SEQ.NEXT", "order", "COUNT", 5); // as text
  assert(ids.length === 5 && increasing([last, ...ids.map(Number)]), `${last} ${ids}`);
  const invoices = await client.call("SEQ.NEXT", "invoice", "COUNT", 2);
  assert(invoices[0].startsWith("INV-") && increasing(invoices), `${invoices}`);
}

async function pipeline() {
  const pipe = client.pipeline();
  for (let i = 0; i < 1000; i++) pipe.incr("order");
  const values = (await pipe.exec()).map(([error, value]) => (assert.ifError(error), value));
  assert(values.length === 1000 && increasing(values), `${values}`);
}

async function callers() {
  const take = async () => {
    const values = [];
    for (let i = 0; i < 100; i++) values.push(await client.incr("order"));
    return values;
  };
  const taken = await Promise.all(Array.from({ length: 8 }, take));
  assert(taken.every(increasing));
  assert.equal(new Set(taken.flat()).size, 800);
}

const refused = (text, ...command) => assert.rejects(client.call(...command), text, `${command}`);

async function errors() {
  await refused(/unknown_biz_type/, "INCR", "nobody");
  await refused(/SEQ\.NEXT/, "INCR", "invoice");
  await refused(/unknown command/, "GET", "order");
  await refused(/invalid_count/, "INCRBY", "order", 0);
  await refused(/invalid_count/, "INCRBY", "order", -1);
  await refused(/invalid_count/, "INCRBY", "order", "9223372036854775808");
  await refused(/invalid_count/, "SEQ.NEXT", "order", "COUNT", 1000000);
}

// A transaction is refused, and afterwards answers belong to their commands.
async function transaction() {
  await assert.rejects(client.multi().incr("order").exec(), /exec|multi/i);
  await numbers();
}

async function wrongToken() {
  const service = new URL(url);
  if (!service.password) return; // this seqd takes no tokens
  for (const token of ["seqd_wrong", ""]) {
    service.password = token;
    const stranger = new Redis(service.href, { protocol });
    stranger.on("error", () => {});
    await assert.rejects(stranger.incr("order"), /WRONGPASS|NOAUTH/);
    stranger.disconnect();
  }
}

// The client connects again after the service was killed and started.
async function restart() {
  const before = await client.incr("order");
  console.log("restart");
  const input = createInterface({ input: process.stdin });
  await input.question("");
  input.close();
  const after = await client.incr("order");
  assert(before < after, `${before} ${after}`);
}

await numbers();
await pipeline();
await callers();
await errors();
await transaction();
await wrongToken();
await restart();
client.disconnect();
console.log("all as it should be");
