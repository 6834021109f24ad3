// The parts that pages are made of.

import { h, newId, put, set, svg } from "./dom.js";
import { explain } from "./codes.js";

export { ask, confirmByName, dialog } from "./dialog.js";
export { table } from "./table.js";

/** Returns the nodes of a page. crumbs: [[text, href]…]. */
export function page(title, { lead, actions, crumbs } = {}, ...children) {
  document.title = `${title} · seqd`;
  return [
    h("header", { class: "page-head" },
      crumbs && h("nav", { class: "crumbs", aria: { label: "You are here" } },
        h("ol", crumbs.map(([text, href]) => h("li", h("a", { href }, text))))),
      h("div", { class: "page-title" },
        h("h1", { tabindex: -1 }, title),
        actions && h("div", { class: "actions" }, actions)),
      lead && h("div", { class: "lead" }, lead)),
    children,
  ];
}

/** Returns a section with an h2, with lead and actions beside it. */
export function section(title, { lead, actions } = {}, ...children) {
  const id = newId("section");
  return h("section", { aria: { labelledby: id } },
    h("div", { class: "section-head" },
      h("h2", { id }, title),
      lead && h("p", { class: "soft" }, lead),
      actions && h("div", { class: "actions" }, actions)),
    children);
}

/**
 * Returns a button, which is busy while a promise of click is pending. kind: "primary", "danger",
 * "quiet", "small". why: why it is disabled; then the answer is a span with button and reason.
 */
export function button(text, { kind, click, why, ...props } = {}) {
  const node = h("button", { type: "button", ...props, class: ["button", kind] }, text);
  if (click) {
    node.addEventListener("click", (event) => whileBusy(node, () => click(event)));
  }
  if (!why) {
    return node;
  }
  const id = newId("why");
  set(node, { "disabled": true, "aria-describedby": id });
  return h("span", { class: "with-reason" }, node, h("small", { id, class: "soft" }, why));
}

/** Runs f; while its promise is pending, the button is busy and a second click does nothing. */
export async function whileBusy(node, f) {
  if (node.getAttribute("aria-busy") === "true") {
    return;
  }
  set(node, { "aria-busy": "true", "aria-disabled": "true" });
  try {
    await f();
  } finally {
    set(node, { "aria-busy": null, "aria-disabled": null });
  }
}

/** Returns a link that looks like a button. */
export function linkButton(text, href, { kind, ...props } = {}) {
  return h("a", { ...props, href, class: ["button", kind] }, text);
}

const shapes = {
  good: "M3 8.5l3 3L13 5", warn: "M8 4v5M8 11.5v.5", bad: "M5 5l6 6M11 5l-6 6",
  info: "M8 7.5V12M8 4.5v-.5", off: "M4 8h8",
};

/** Returns a small sign, whose shape says what its colour says: good, warn, bad, info or off. */
export function sign(kind) {
  return svg("svg", { class: `sign ${kind}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("circle", { cx: 8, cy: 8, r: 8 }), svg("path", { d: shapes[kind] }));
}

/** Returns a sign with a text: a state. */
export function status(kind, text) {
  return h("span", { class: `status ${kind}` }, sign(kind), h("span", text));
}

/** Returns a notice: info, good, warn or bad. A bad one is read out when it enters the page. */
export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" && "alert" },
    sign(kind), h("div", children));
}

/** Returns an error code that leads to its page. */
export function codeLink(code) {
  const href = `errors/${encodeURIComponent(code)}`;
  return h("a", { href, target: "_blank", rel: "noopener" }, h("code", code));
}

/** Returns a notice that explains an error, with its request ID, and a button if retry is given. */
export function errorNotice(error, { retry } = {}) {
  const { title, text, todo, code, requestId } = explain(error);
  return notice("bad", h("strong", title),
    text && text !== `${title}.` && h("p", text),
    h("p", todo),
    code && h("p", "Code ", codeLink(code)),
    requestId && h("p", "Request ID ", h("code", requestId)),
    retry && h("p", button("Try again", { click: retry })));
}

/** Returns what a list without entries shows; children say what to do. */
export function empty(title, ...children) {
  return h("div", { class: "empty" }, h("strong", title), children);
}

/** Returns lines that keep the place of what loads. */
export function busy() {
  return h("div", h("span", { class: "hidden" }, "Loading…"),
    [1, 2, 3, 4].map(() => h("span", { class: "bone" })));
}

const turns = new WeakMap(); // the newest fill of each pane: answers of older ones are dropped

/**
 * Fills pane with render(data of load()). Before that it shows busy(), or what was there if keep;
 * after an error the explanation, with a button that tries again.
 */
export async function fill(pane, load, render, { keep = false, signal } = {}) {
  if (!keep) {
    put(pane, busy());
  }
  pane.setAttribute("aria-busy", "true");
  const turn = {};
  turns.set(pane, turn);
  const show = (made) => {
    if (turns.get(pane) === turn && !signal?.aborted) {
      pane.removeAttribute("aria-busy");
      put(pane, made());
    }
  };
  try {
    const data = await load();
    show(() => render(data));
  } catch (error) {
    const retry = () => fill(pane, load, render, { keep: true, signal });
    show(() => errorNotice(error, { retry }));
  }
}

/**
 * Returns {element, input, problem(text), warning(text), value()}: a label, an input (an element,
 * or the props of an <input>) with a unit behind it, and what describes it: help, problem, warning.
 */
export function field({ label, name, help, input = {}, unit, hint, required = false }) {
  const id = newId(name || "field");
  const control = input instanceof Element ? input
    : h("input", { type: "text", autocomplete: "off", ...input });
  const [helped, wrong, doubtful] = ["help", "problem", "warning"].map((kind) =>
    h("div", { id: `${id}-${kind}`, class: `field-${kind}` }, kind === "help" && help));
  const described = [helped, wrong, doubtful].map((node) => node.id).join(" ");
  set(control, { id, name, required, "aria-describedby": described });
  const check = control.type === "checkbox";
  const element = h("div", { class: ["field", check && "check"] },
    h("label", { for: id }, label, hint && h("small", { class: "soft" }, ` ${hint}`)),
    h("div", { class: "control" }, control, unit && h("span", { class: "unit" }, unit)),
    helped, wrong, doubtful);
  return {
    element, input: control,
    problem: (text) => {
      put(wrong, text && [sign("bad"), h("span", text)]);
      set(control, { "aria-invalid": text ? "true" : null });
    },
    warning: (text) => put(doubtful, text && [sign("warn"), h("span", text)]),
    value: () => (check ? control.checked : control.value),
  };
}

/** Returns a <select> for field: options are texts, or [value, text]. */
export function select(options, props) {
  return h("select", props || {}, options.map((option) => {
    const [of, text] = [option, option].flat();
    return h("option", { value: of }, text);
  }));
}

/** Returns terms with their values: pairs are [term, node or text]; false skips one. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([term, value]) =>
    h("div", h("dt", term), h("dd", value))));
}

/** Returns links as tabs: items are {name, href, text}; current is the name of the one shown. */
export function tabs(label, items, current) {
  return h("nav", { class: "tabs", aria: { label } }, h("ul", items.map(({ name, href, text }) =>
    h("li", h("a", { href, aria: { current: name === current ? "page" : null } }, text)))));
}

/** Returns a text with a button that copies it. label: what it is, for screen readers. */
export function copyable(text, { label = "text", block = false } = {}) {
  const said = h("span", { class: "soft", aria: { live: "polite" } });
  const code = h("code", text);
  const copy = button("Copy", {
    kind: "quiet small", aria: { label: `Copy the ${label}` },
    click: async () => {
      put(said, await toClipboard(text, code) ? "Copied" : "Press Ctrl+C");
    },
  });
  return h("span", { class: ["copyable", block && "block"] }, code, copy, said);
}

async function toClipboard(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // pages on plain HTTP have no clipboard
    getSelection().selectAllChildren(node);
    return document.execCommand("copy");
  }
}

/** Returns buttons for first, previous and next, functions or null, with a text beside them. */
export function pager({ first = null, previous = null, next = null, text = "" }) {
  const one = (label, f) => button(label, { click: f, disabled: !f });
  return h("nav", { class: "pager", aria: { label: "Pages" } }, h("span", { class: "soft" }, text),
    first && one("First", first), one("Previous", previous), one("Next", next));
}

/** Returns a summary that opens details. */
export function disclosure(summary, props, ...children) {
  return h("details", props, h("summary", summary), children);
}
