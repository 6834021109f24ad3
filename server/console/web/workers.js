// Workers: pools of worker IDs, and the programs that hold them.

import { del, get, path, request } from "./api.js";
import { h, put, refill } from "./dom.js";
import { atField, attempt, changeShown, pages, plain, read, sender, soft, watching } from "./forms.js";
import { link } from "./routes.js";
import {
  button, confirmByName, empty, errorNotice, facts, fill, linkButton, notice, page, section, table,
  whileBusy,
} from "./ui.js";
import { count, number, time } from "./words.js";

const home = [["Workers", "#/workers"]];
const at = (name) => path`/worker-pools/${name}`;

/** Shows the pools, or one: #/workers, #/workers?new=1, #/workers/{pool}, #/workers/{pool}/edit. */
export async function show(main, { parts: [name, edit], query }, ctx) {
  const make = query.has("new");
  const why = ctx.why("read") || ((make || edit) && ctx.why("admin"));
  if (why) return put(main, page("Workers", {}, notice("info", why)));
  if (make) return put(main, page("New pool", { crumbs: home }, poolForm(null, ctx)));
  if (name === undefined) return showPools(main, ctx);
  if (!edit) return showPool(main, name, ctx);
  const pane = h("div");
  put(main, page(`Edit ${name}`, { crumbs: [...home, [name, link("workers", name)]] }, pane));
  return fill(pane, () => read(ctx, at(name)), (pool) => poolForm(pool, ctx), { signal: ctx.signal });
}

const showPools = (main, ctx) => {
  const list = h("div");
  const why = ctx.why("admin");
  put(main, page("Workers", {
    lead: "Worker IDs that other programs lease, to make snowflake numbers themselves.",
    actions: why ? button("New pool", { why }) : linkButton("New pool", "#/workers?new=1", { kind: "primary" }),
  }, list));
  // Lists do not say who holds what.
  const load = async (after) => {
    const { pools: all, next } = await read(ctx, "/worker-pools", { after, limit: 20 });
    return { next, rows: await Promise.all(all.map((p) => read(ctx, at(p.pool)).catch(() => p))) };
  };
  pages(list, load, ({ rows }) => table({
    caption: "Pools of worker IDs",
    columns: [
      { title: "Pool", cell: (p) => h("a", { href: link("workers", p.pool) }, p.pool) },
      { title: "Held", number: true, cell: (p) => number(p.held) },
      { title: "Free", number: true, cell: (p) => number(p.free) },
      { title: "Lease", cell: (p) => p.ttl },
      { title: "Changed", cell: (p) => time(p.updatedAt) },
    ],
    rows, key: (p) => p.pool,
    none: empty("No pools yet.", h("p", "A pool is the worker IDs for one kind of numbers.")),
  }));
};

/** Says what numbers are made with the worker IDs of a pool. */
export const numbersInWords = ({ bitsMachine, bitsSequence }) =>
  `${count(2 ** bitsMachine, "worker ID")}, ${count(2 ** bitsSequence, "number")} a millisecond each`;

const showPool = (main, name, ctx) => {
  let pool = null;
  const [figures, trouble] = [h("div"), h("div")];
  const remove = async () => { if (await deletePool(pool, ctx)) ctx.go("#/workers"); };
  const holders = table({
    caption: "Holders",
    columns: [
      { title: "Worker ID", cell: (one) => String(one.workerId) },
      { title: "Instance", cell: (one) => one.instance },
      { title: "Until", cell: (one) => time(one.until) },
    ],
    rows: [], key: (one) => `${one.workerId} ${one.instance}`,
    none: soft("Nobody holds a worker ID."),
  });
  put(main, page(name, {
    crumbs: home,
    actions: ctx.may("admin") && [linkButton("Edit", link("workers", name, "edit")),
      button("Delete…", { kind: "danger", click: () => pool && remove() })],
  }, trouble, figures, section("Holders", { lead: "At most 1,000 are listed." }, holders)));
  ctx.every(5000, watching(ctx, trouble, async () => {
    pool = (await get(at(name), { background: true, signal: ctx.signal })).data;
    refill(figures, facts([
      ["Held", number(pool.held)],
      ["Free", number(pool.free)],
      ["Stand by at this node", number(pool.standingBy)],
      ["Numbers", numbersInWords(pool)],
      ["Epoch", pool.epoch],
      ["Lease", pool.ttl],
      ["Version", `${pool.version}, ${time(pool.updatedAt).textContent}`],
    ]));
    holders.update(pool.holders ?? []);
  }));
};

/** Deletes a pool in the version that is shown, also if worker IDs were held then. */
const deletePool = (pool, ctx) => {
  const shown = { name: pool.pool, version: pool.version };
  const force = pool.held > 0 || null;
  const send = (version) => del(at(shown.name), { query: { force }, headers: { "If-Match": `"${version}"` } });
  return confirmByName({
    title: `Delete the pool ${shown.name}?`, name: shown.name, yes: "Delete",
    text: [
      force && notice("warn", `Held: ${count(pool.held, "worker ID")}. Their programs go on until their leases `
        + "end, and cannot renew them."),
      h("p", "If a pool gets this name again, its leases begin above those of this one."),
    ],
    action: () => changeShown("pool", shown, () => read(ctx, at(shown.name)), () => {}, send).catch((error) => {
      if (error.code !== "unknown_pool") throw error; // somebody else deleted it
    }),
  });
};

/** Returns the form of a pool, or of a new one if pool is null. */
const poolForm = (pool, ctx) => {
  const fixed = "It cannot change once the pool is made.";
  const value = pool ?? { bitsMachine: 10, bitsSequence: 12, epoch: "2025-01-01T00:00:00.000Z", ttl: "30s" };
  const bits = (label, name, help) => plain(label, name, {
    required: true, type: "number", min: 1, value: value[name], help: `${help} ${fixed}`,
  });
  const name = !pool && plain("Name", "name", { required: true, help: "Whose worker IDs these are. It cannot be changed." });
  const fields = {
    bitsMachine: bits("Bits of the worker ID", "bitsMachine", "10 bits are 1,024 programs at once."),
    bitsSequence: bits("Bits of the sequence", "bitsSequence", "12 bits are 4,096 numbers a millisecond."),
    epoch: plain("Epoch", "epoch", { required: true, value: value.epoch, help: `The time that numbers count from. ${fixed}` }),
    ttl: plain("Lease", "ttl", {
      required: true, value: value.ttl,
      help: "How far ahead a lease reaches, from 1s to 1h: so long a program goes on without a node, and so long "
        + "a worker ID stays taken after a crash.",
    }),
  };
  const entered = () => Object.fromEntries(Object.entries(fields).map(([key, one]) =>
    [key, one.input.type === "number" ? Number(one.value()) : one.value()]));
  const text = () => JSON.stringify([name && name.value(), entered()]);
  const begun = text();
  ctx.unsaved(() => text() !== begun);
  const trouble = h("div");
  const submit = sender(pool ? "Save" : "Create");
  const failed = async (error) => {
    if (error.status !== 412) return atField(fields)(error);
    if (!pool) {
      return atField({ precondition_failed: name })({ ...error, detail: "There is a pool of this name already" });
    }
    const there = await read(ctx, at(pool.pool)).catch(() => null);
    if (!there) return errorNotice(error);
    pool.version = there.version;
    return notice("warn", h("strong", `Somebody changed ${pool.pool} meanwhile.`), h("p",
      `Its leases are ${there.ttl} now. What you entered is still here: save again to write it over theirs.`));
  };
  const send = (event) => {
    event.preventDefault();
    [name, ...Object.values(fields)].forEach((one) => one && one.problem(""));
    whileBusy(submit, () => attempt(trouble, async () => {
      const headers = pool ? { "If-Match": `"${pool.version}"` } : { "If-None-Match": "*" };
      const { data } = await request("PUT", at(pool?.pool ?? name.value()), { json: entered(), headers });
      ctx.unsaved(null);
      if (!ctx.signal.aborted) ctx.go(link("workers", data.pool));
    }, failed));
  };
  return h("form", { class: "stack", on: { submit: send } },
    name && name.element, Object.values(fields).map((one) => one.element), trouble,
    h("div", { class: "actions" }, submit, linkButton("Cancel", pool ? link("workers", pool.pool) : "#/workers")));
};
