// What the pages of a biz type, of tokens and of audit lines have in common.

import { address, get } from "./api.js";
import { h, put, refill } from "./dom.js";
import { link } from "./routes.js";
import { button, copyable, dialog, errorNotice, field, fill, notice, pager, whileBusy } from "./ui.js";
import { number, sentence } from "./words.js";

/** Returns the hash of a tab of a biz type, with a query. */
export const hash = (name, tab, query = {}) => {
  const pairs = Object.entries(query).filter(([, value]) => value);
  return link("biz-types", name, tab) + (pairs.length ? `?${new URLSearchParams(pairs)}` : "");
};

/** Returns the data of an answer to GET. It is aborted when the page is left. */
export const read = async (ctx, path, query) => (await get(path, { query, signal: ctx.signal })).data;

/**
 * Shows render(data) of a GET in pane, and looks every 5 s. failed(error) says what is shown
 * instead. What did not change stays as it is, with focus and selection.
 */
export const live = (ctx, pane, path, render, failed = errorNotice) => {
  ctx.every(5000, async () => {
    try {
      refill(pane, render((await get(path, { background: true, signal: ctx.signal })).data));
    } catch (error) {
      if (!ctx.signal.aborted) refill(pane, failed(error));
    }
  });
};

/** Returns f, which looks, so that it also shows in trouble why it failed, until it succeeds. */
export const watching = (ctx, trouble, f) => async () => {
  try {
    await f();
    refill(trouble);
  } catch (error) {
    if (!ctx.signal.aborted) refill(trouble, errorNotice(error));
    throw error; // every() waits as long as Retry-After says
  }
};

/** Returns a field for a name, a key or an ID; props are those of field and of its input. */
export const plain = (label, name, { help, hint, required, ...input } = {}) => {
  const made = field({
    label, name, help, hint, required,
    input: { spellcheck: "false", autocapitalize: "off", ...input },
  });
  return { ...made, value: () => made.input.value.trim() };
};

/** Returns a field for a time in the reader's time zone: value() is RFC 3339, or "". */
export const timeField = (label, name, instant, props) => {
  const input = h("input", { type: "datetime-local", value: toLocal(instant) });
  const begun = input.value;
  // A time that nobody touched keeps its seconds.
  const value = () => (begun && input.value === begun ? instant : toInstant(input.value));
  return { ...field({ label, name, input, ...props }), value };
};

/** Returns what fields say, by the names of their inputs. A field may be null. */
export const valuesOf = (fields) => Object.fromEntries(
  fields.filter(Boolean).map(({ input, value }) => [input.name, value()]));

/**
 * Returns buttons that have the browser save a whole list of the API at a path; it does not pass
 * through the page. query() says which items. trouble shows why it cannot be.
 */
export const downloads = (path, query, trouble) => [["CSV", "csv"], ["JSON lines", "jsonl"]].map(
  ([words, format]) => button(`Download ${words}`, {
    click: () => attempt(trouble, async () => {
      // Signs in again and says what is wrong: the browser would only say that it failed.
      await get(path, { query: { ...query(), limit: 1 } });
      h("a", { href: address(path, { ...query(), format }), download: "" }).click();
    }),
  }));

/** Returns what stands for a page without items: there may be some on the next one. */
export const noneYet = (next, none) => (next ? ["Nothing was found yet.", h("p",
  "seqd looks for some seconds at a time. ", h("strong", "Next"), " looks at what is older.")] : none);

/** Returns the field for a key, or null for a biz type that is known to have none. */
export const keyField = (it, required = it.known, label = "Key") => (it.known && !it.get("keyed") ? null
  : plain(label, "key", {
    required, value: it.query.get("key") ?? "", help: it.known ? "" : "If the biz type counts for each key.",
  }));

/** Runs f. If it fails, pane shows what failed makes of the error. */
export const attempt = async (pane, f, failed = errorNotice) => {
  put(pane);
  try {
    await f();
  } catch (error) {
    put(pane, await failed(error));
  }
};

/**
 * Asks whether to do something, and does it. An error is shown in the dialog. Returns what action
 * returned, undefined if the user did not want it.
 */
export const askAndDo = ({ title, text, yes, no = "Cancel", kind = "primary", wide, action }) => {
  const trouble = h("div");
  return dialog({
    title, wide, children: [text, trouble],
    actions: (close) => [
      button(no, { click: () => close() }),
      button(yes, {
        kind, autofocus: true,
        click: () => close.after(() => attempt(trouble, async () => close(await action()))),
      }),
    ],
  }).done;
};

/**
 * Changes what is shown, in the version that is shown. If that is not the present one, shows the
 * present one: the next try changes that. load returns what is there, undefined for nothing.
 */
export const changeShown = async (kind, shown, load, show, send) => {
  try {
    return await send(shown.version);
  } catch (error) {
    if (error.status === 412) {
      const there = await load();
      const now = there ? `version ${there.version}` : "deleted";
      error.detail = `The ${kind} ${shown.name} is ${now} now`;
      shown.version = there?.version ?? shown.version;
      show();
    }
    throw error;
  }
};

/**
 * Returns a form in a row, which runs f when it is sent, and a place for errors: as attempt. A
 * click while f runs does nothing. A field may be null.
 */
export const rowForm = (f, submit, fields, failed) => {
  const pane = h("div");
  const there = fields.filter(Boolean);
  const send = (event) => {
    event.preventDefault();
    there.forEach((one) => one.problem(""));
    whileBusy(submit, () => attempt(pane, f, failed));
  };
  return [h("form", { class: "row-form", on: { submit: send } },
    there.map((one) => one.element), h("div", { class: "form-action" }, submit)), pane];
};

/** Returns a form that shows a tab again, with what its fields say in the address. */
export const queryForm = (it, tab, ctx, fields, text = "Show") => rowForm(async () => {
  ctx.go(hash(it.name, tab, valuesOf(fields)));
}, sender(text, "", ""), fields);

/** Returns a button that sends its form. */
export const sender = (text, why, kind = "primary") => button(text, { kind, why, type: "submit" });

/**
 * Returns a function that shows an error at the field that it concerns, by its code or the first
 * word of its text, or returns a notice. lost: what to do if the answer was lost.
 */
export const atField = (fields, lost) => (error) => {
  const concerned = fields[error.code] ?? fields[error.detail?.split(":")[0]];
  if (concerned) {
    concerned.problem(sentence(error.detail));
    concerned.input.focus();
    return null;
  }
  return lost && error.unknown ? notice("bad", h("strong", "The answer was lost."), h("p", lost))
    : errorNotice(error);
};

/**
 * Returns a function that gives what is sent an Idempotency-Key: the same one until done() is
 * called or something else is sent. So an answer that was lost uses up nothing twice.
 */
export const onceOnly = () => {
  let last = null;
  const headers = (what) => {
    const text = JSON.stringify(what);
    // Pages on plain HTTP have no crypto.randomUUID.
    if (last?.text !== text) last = { text, key: crypto.getRandomValues(new Uint32Array(4)).join("-") };
    return { "Idempotency-Key": last.key };
  };
  headers.done = () => { last = null; };
  return headers;
};

/** Shows IDs: a few with a button each to copy it, many with one for all. */
export const idList = (ids) => (ids.length > 20
  ? h("div", { class: "id-block", tabindex: 0 }, copyable(ids.join("\n"), { label: "IDs", block: true }))
  : h("ul", { class: "id-list" }, ids.map((id) => h("li", copyable(id, { label: `ID ${id}` })))));

/** Returns terms with sentences, below each other; false skips one. */
export const terms = (pairs) => h("dl", { class: "terms" },
  pairs.filter(Boolean).map(([term, text]) => h("div", h("dt", term), h("dd", text))));

/** Returns a soft text. */
export const soft = (...text) => h("p", { class: "soft" }, text);

/**
 * Fills pane with pages of a list: page(after) returns a page of the API, render(page) its nodes.
 * start is what the first page comes behind. The answer is a function that shows the page again;
 * with true it shows the first one.
 */
export const pages = (pane, page, render, start = "") => {
  const behind = [start];
  const load = (keep) => fill(pane, () => page(behind.at(-1)), (data) => {
    const go = (change) => async ({ target }) => {
      change();
      await load(true);
      [...pane.querySelectorAll(".pager button")].find((one) => one.textContent === target.textContent)?.focus();
    };
    const later = behind.length > 1;
    return [render(data), (later || data.next) && pager({
      first: later ? go(() => behind.splice(1)) : null,
      previous: later ? go(() => behind.pop()) : null,
      next: data.next ? go(() => behind.push(data.next)) : null,
      text: `Page ${number(behind.length)}`,
    })];
  }, { keep });
  load(false);
  return (first) => {
    if (first) behind.splice(1);
    return load(true);
  };
};

/** Returns RFC 3339 for the value of a datetime-local input, which is in the reader's time zone. */
export const toInstant = (local) => {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
};

/** Returns the value of a datetime-local input for a time, in the reader's time zone. */
export const toLocal = (instant) => {
  const at = new Date(instant);
  if (!instant || Number.isNaN(at.getTime())) return "";
  return new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};
