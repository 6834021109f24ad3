// The form of a definition.

import { add, h, put } from "./dom.js";
import { soft } from "./forms.js";
import {
  changeStrategy, described, fieldsOf, hidden, lists, read, strategyFields, strategyOf, textOf, valueOf, write,
} from "./settings.js";
import { button, disclosure, field, notice, section, select, sign } from "./ui.js";

/**
 * Returns {element, fields}: the form, and its fields ({input, problem, warning}) by key. edit:
 * {definition, settings (GET /settings), aside (settings of other strategies), readOnly}, with
 * set(path, value), which changes one setting, and replace(definition, {focus, say}), which makes
 * the form anew.
 */
export function form(edit) {
  const fields = new Map();
  const element = h("fieldset", { class: "plain", disabled: Boolean(edit.readOnly) },
    strategies(edit, fields),
    section("Settings", { lead: "An empty field means the default." },
      allFields(edit, fields, strategyFields(edit.definition, edit.settings))),
    lists.map((list) => items(edit, fields, list)));
  return { element, fields };
}

/** Returns a text with `code` in it as nodes. */
function rich(text = "") {
  return text.split("`").map((part, i) => (i % 2 ? h("code", part) : part));
}

/** Returns the place for problems and warnings that concern no single field. */
function spot(fields, key, input) {
  const [problem, warning] = ["problem", "warning"].map((kind) => h("p", { class: `field-${kind}` }));
  const say = (pane, kind) => (text) => put(pane, text && [sign(kind), h("span", text)]);
  fields.set(key, { input, problem: say(problem, "bad"), warning: say(warning, "warn") });
  return [problem, warning];
}

function strategies(edit, fields) {
  const current = strategyOf(edit.definition);
  const known = edit.settings.strategies;
  const all = described(known, current) ? known : [...known, { name: current, help: "Unknown to this node." }];
  const use = (name) => {
    const { definition, aside } = changeStrategy(edit.definition, name, edit.settings, edit.aside);
    edit.aside = aside;
    edit.replace(definition, { focus: "strategy" });
  };
  const inputs = all.map(({ name }) => h("input", {
    type: "radio", name: "strategy", value: name, checked: name === current, on: { change: () => use(name) },
  }));
  return h("fieldset", { class: "choices" }, h("legend", "Strategy"),
    h("div", { class: "choice-list" }, all.map(({ name, help }, i) => h("label", { class: "choice" }, inputs[i],
      h("span", h("strong", name), " ", h("small", { class: "soft" }, rich(help)))))),
    spot(fields, "strategy", inputs.find(({ checked }) => checked)));
}

function allFields(edit, fields, { main, more, unknown }) {
  const grid = (list) => h("div", { class: "field-grid" }, list.map((one) => fieldFor(edit, fields, one)));
  return [
    main.length > 0 && grid(main),
    more.length > 0 && disclosure(`More settings (${more.length})`,
      { open: more.some(({ value }) => value !== undefined) }, grid(more)),
    unknown.length > 0 && h("div", { class: "others" },
      soft("This node does not know these settings."),
      unknown.map((one) => fixed(fields, one))),
  ];
}

/** Returns a field that is changed as JSON only. */
function fixed(fields, { key, value }) {
  const input = h("textarea", { rows: 1, readonly: true, value: textOf(value) });
  const made = field({ label: key, name: key, input, help: "Change it as JSON." });
  fields.set(key, made);
  return made.element;
}

/** Returns the element of one setting. */
function fieldFor(edit, fields, { path, key, setting, value }) {
  const made = field({
    label: setting.key, name: key, unit: setting.unit, hint: setting.required && "required", help: help(setting),
    input: setting.secret ? secret(edit, path, value) : control(setting, textOf(value),
      { input: (event) => edit.set(path, valueOf(event.target.value, setting.type)) }),
  });
  fields.set(key, made);
  return setting.secret && value === hidden ? add(made.element, button("Remove the secret", {
    kind: "quiet small", "aria-label": `Remove the secret ${setting.key}`,
    click: () => edit.replace(write(edit.definition, path, undefined)),
  })) : made.element;
}

function help(setting) {
  const standard = !setting.secret && !isChoice(setting) && textOf(setting.default);
  const facts = [standard && `default ${standard}`, setting.range, setting.zero && `0: ${setting.zero}`].filter(Boolean);
  return [rich(setting.help), facts.length > 0 && h("span", { class: "facts-line" }, ` ${facts.join(" · ")}`)];
}

const isChoice = ({ type, values }) => type === "boolean" || type === "text" && Boolean(values);

/** Returns the input of a setting that is no secret. */
function control(setting, text, on) {
  if (isChoice(setting)) {
    const words = (value) => (setting.type === "boolean" ? { true: "yes", false: "no" }[value] : value);
    const values = setting.type === "boolean" ? ["true", "false"] : setting.values.filter(Boolean);
    const odd = text === "" || values.includes(text) ? [] : [text];
    const options = [...values, ...odd].map((value) => [value, words(value) ?? value]);
    return select([["", `Default: ${words(textOf(setting.default)) || "none"}`], ...options], { value: text, on });
  }
  return h(setting.type === "list" ? "textarea" : "input", {
    value: text, autocomplete: "off", spellcheck: "false", autocapitalize: "off",
    placeholder: textOf(setting.default), on,
  });
}

/** Returns the input for a secret. Empty keeps the one that is stored. */
function secret(edit, path, value) {
  const stored = value === hidden;
  return h("input", {
    type: "password", value: stored ? "" : textOf(value), autocomplete: "new-password",
    placeholder: stored && "stored; type to replace it",
    on: { input: ({ target }) => edit.set(path, target.value || (stored ? hidden : undefined)) },
  });
}

const words = {
  plugins: ["Plugins", "plugin", "None: IDs are plain numbers."],
  rejected: ["Rejection handlers", "handler", "Those of the node's configuration, or else the log."],
};

/** Returns the section of a list. */
function items(edit, fields, list) {
  const [title, what, none] = words[list];
  const value = read(edit.definition, [list]);
  const lead = rich(edit.settings.common?.find(({ key }) => key === list)?.help);
  if (value !== undefined && !(Array.isArray(value) && value.every((item) => item && typeof item === "object"))) {
    return section(title, { lead }, notice("warn", "This is not a list of sections: change it as JSON."));
  }
  const names = select(edit.settings[list].map(({ name }) => name), { aria: { label: `The ${what} to add` } });
  const pane = h("div", { tabindex: -1 });
  const use = (all, options) =>
    edit.replace(write(edit.definition, [list], all.length > 0 ? all : undefined), options);
  return section(title, { lead }, add(pane, spot(fields, list, pane)),
    value?.length > 0 ? h("ol", { class: "items" }, value.map((item, i) =>
      h("li", card(edit, fields, { list, item, i, all: value, use }))))
      : soft(value ? "An empty list: not even the default." : none),
    h("div", { class: "actions adder" }, names, button(`Add ${what}`, {
      click: () => use([...value ?? [], { name: names.value }], { focus: `${list}[${value?.length ?? 0}]` }),
    })));
}

/** Returns one plugin or rejection handler with its settings. */
function card(edit, fields, { list, item, i, all, use }) {
  const name = textOf(read(item, ["name"])) || "without a name";
  const known = described(edit.settings[list], name);
  const legend = h("legend", { tabindex: -1 }, `${i + 1}. ${name}`);
  const act = (sign, verb, click, disabled) => button(sign, {
    kind: "quiet small", "aria-label": `${verb} ${name}, number ${i + 1}`, click, disabled,
  });
  const others = all.toSpliced(i, 1);
  const move = (to) => use(others.toSpliced(to, 0, item), { focus: `${list}[${to}]` });
  return h("fieldset", { class: "card" }, legend,
    h("div", { class: "card-actions" },
      others.length > 0 && [act("↑", "Move up", () => move(i - 1), i === 0),
        act("↓", "Move down", () => move(i + 1), i === others.length)],
      act("Remove", "Remove", () => use(others, { focus: list, say: `${name} is removed.` }))),
    soft(known ? rich(known.help) : "Unknown to this node."),
    ["", ".name"].map((end) => spot(fields, `${list}[${i}]${end}`, legend)),
    allFields(edit, fields, fieldsOf(item, known?.settings ?? [], [list, i])));
}
