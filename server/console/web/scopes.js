// Scopes of tokens: what one allows in words, and the fields for them.

import { h, put } from "./dom.js";
import { plain, rowForm, sender } from "./forms.js";
import { link } from "./routes.js";
import { matches } from "./session.js";
import { button, field, notice } from "./ui.js";

const form = /^(admin|read|issue:([A-Za-z*][\w.*-]{0,63})(\/([A-Za-z0-9*][\w.*-]{0,63}))?|lease:([A-Za-z*][\w.*-]{0,63}))$/;

/** Returns whether a text is a scope. */
export const isScope = (text) => form.test(text);

const whole = {
  read: "Look at everything except secrets. It changes nothing and takes no numbers.",
  admin: "Look at everything and change everything. It takes no numbers.",
};

/** Says what a scope allows. */
export const scopeInWords = (scope) => {
  if (whole[scope]) return whole[scope];
  const [, , name, , key, pool] = form.exec(scope) ?? [];
  if (pool) return `Lease worker IDs of ${pool.includes("*") ? "the pools whose names fit" : "the pool"} ${pool}.`;
  if (!name) return "Nothing that this console knows.";
  const of = name === "*" ? "every biz type"
    : name.includes("*") ? `each biz type whose name fits ${name}` : name;
  return `Take and reserve numbers of ${of}`
    + (key ? `, but only of the ${key.includes("*") ? "keys that fit" : "key"} ${key}.`
      : ", with all its keys.");
};

/** Returns why a session cannot take numbers of a biz type, not even of some keys, or "". */
export const whyNotIssue = (bizType, { session, why }) => (session.scopes.some((scope) =>
  matches(form.exec(scope)?.[2] ?? "", bizType)) ? "" : why(`issue:${bizType}`));

/** Returns the names of biz types in scopes that are no patterns. */
export const namesIn = (scopes) => [...new Set(scopes.map((scope) => form.exec(scope)?.[2] ?? "*"))]
  .filter((name) => !name.includes("*"));

/** Returns what a token that may not read finds instead of figures: a way to its biz types. */
export const onlyNumbers = (ctx) => {
  const { caller, scopes } = ctx.session;
  const name = plain("Biz type", "biz-type", { required: true });
  const open = async () => ctx.go(link("biz-types", name.value()));
  return [
    notice("info", h("strong", `The token ${caller} may only take and parse numbers.`),
      scopes.map((scope) => h("p", h("code", scope), " ", scopeInWords(scope))),
      h("p", "To see more, use one with the scope read.")),
    h("p", { class: "links" },
      namesIn(scopes).map((one) => h("a", { href: link("biz-types", one) }, one))),
    rowForm(open, sender("Open"), [name]),
  ];
};

/** Returns what builds a scope of numbers: {element, pending()}. add gets it. */
const builder = (add) => {
  const name = plain("Take numbers of", "scope-biz-type", {
    hint: "biz type", help: "Such as order, order* or *. For worker IDs of a pool: lease:shop.",
  });
  const key = plain("Key", "scope-key", { hint: "optional", help: "For this key only." });
  const go = () => {
    const what = name.value().startsWith("lease:") ? "" : "issue:";
    const scope = `${what}${name.value()}${key.value() && `/${key.value()}`}`;
    const good = isScope(scope);
    name.problem(good ? "" : "Biz types and keys have at most 64 letters, digits and . _ - *, and "
      + "begin with a letter or *, keys also with a digit.");
    name.input.focus();
    if (good) {
      add(scope);
      name.input.value = key.input.value = "";
    }
  };
  const onEnter = (event) => {
    if (event.key === "Enter" && event.target.matches("input")) {
      event.preventDefault(); // it would send the form
      go();
    }
  };
  const on = { keydown: onEnter, input: () => name.problem("") };
  const element = h("div", { class: "row-form", on },
    name.element, key.element, h("div", { class: "form-action" }, button("Add", { click: go })));
  return { element, pending: () => name.value() + key.value() };
};

/**
 * Returns a fieldset of scopes: {element, value(), pending(), check()}. pending is what was entered
 * but not added. check says what is wrong, true if nothing.
 */
export const scopeField = (scopes) => {
  const boxes = Object.entries(whole).map(([scope, help]) => field({
    label: h("code", scope), name: scope, help,
    input: { type: "checkbox", checked: scopes.includes(scope) },
  }));
  let others;
  const list = h("ul", { class: "scope-list" });
  const trouble = h("div");
  const set = (next) => {
    others = [...new Set(next)];
    put(trouble);
    put(list, others.map((scope) => h("li", h("code", scope), h("span", scopeInWords(scope)),
      button("Remove", {
        kind: "quiet small", "aria-label": `Remove ${scope}`,
        click: () => set(others.filter((one) => one !== scope)),
      }))));
  };
  set(scopes.filter((scope) => !whole[scope]));
  const { element, pending } = builder((scope) => set([...others, scope]));
  const value = () => [
    ...boxes.filter((box) => box.value()).map((box) => box.input.name), ...others,
  ];
  const check = () => {
    const problem = pending() ? "You entered a biz type but did not add it: add it, or clear it."
      : value().length === 0 && "Choose or add one scope at least: the token would allow nothing.";
    put(trouble, problem && notice("bad", problem));
    return !problem;
  };
  return {
    element: h("fieldset", h("legend", "What it may do"), boxes.map((box) => box.element),
      element, list, trouble),
    value, pending, check,
  };
};
