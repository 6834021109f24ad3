// Creating and editing a biz type. The service checks it while one types.

import { get } from "./api.js";
import { check, load, loadIfThere } from "./definitions.js";
import { changes } from "./diff.js";
import { h, put, refill } from "./dom.js";
import { form } from "./editform.js";
import { plain } from "./forms.js";
import { parse, stringify } from "./json.js";
import { link } from "./routes.js";
import { compare, conflictNotice, review, sample } from "./saving.js";
import { placed, write, wrongName } from "./settings.js";
import { button, field, fill, linkButton, notice, page } from "./ui.js";
import { count, explain, time } from "./words.js";

/** How long after the last keystroke a definition is checked, in milliseconds. */
const pause = 500;

/** Stands for a name that is not allowed while the rest is checked. */
const standIn = "not-named-yet";

const fromConfig = "Biz types are in the configuration of every node (bizTypesFrom: config), and are changed there.";

/** Shows the form of a new biz type, or of the one in the address. */
export async function show(main, { name: route, parts }, ctx) {
  const name = route === "new" ? "" : parts[0];
  const pane = h("div");
  put(main, page(name ? `Edit ${name}` : "New biz type", {
    crumbs: [["Biz types", "#/biz-types"], name && [name, link("biz-types", name, "overview")]].filter(Boolean),
  }, pane));
  await fill(pane, () => begin(name, ctx), render, { signal: ctx.signal, lines: 8 });
}

/** Reads what the form needs, and returns its state. */
async function begin(name, ctx) {
  const options = { signal: ctx.signal };
  const [{ data: settings }, base] =
    await Promise.all([get("/settings", options), name ? load(name, options) : null]);
  const edit = {
    ctx, name, base, settings, definition: base?.definition ?? {}, aside: {}, fields: new Map(),
    readOnly: ctx.why("admin") || (base?.version === 0 && fromConfig), asJSON: false,
    wrongJSON: null, result: null, timer: 0, checking: null, nameField: null, tried: false,
    panes: Object.fromEntries(["head", "top", "name", "body"].map((pane) => [pane, h("div")])),
  };
  edit.set = (path, value) => {
    edit.definition = write(edit.definition, path, value);
    schedule(edit);
  };
  edit.replace = (definition, { focus, say } = {}) => {
    edit.definition = definition;
    renderBody(edit);
    showResult(edit);
    focusField(edit, focus);
    edit.ctx.announce(say ?? "");
    schedule(edit);
  };
  return edit;
}

const changeCount = ({ base, definition }) => changes(base?.definition ?? {}, definition).length;

function render(edit) {
  const { base, ctx, readOnly, panes } = edit;
  panes.views = h("div", { role: "group", class: "actions views", aria: { label: "View" } });
  panes.status = h("div", { class: "save-status", role: "status" });
  ctx.unsaved(() => !readOnly && (edit.wrongJSON || edit.nameField?.value() || changeCount(edit) > 0));
  ctx.onLeave(() => {
    clearTimeout(edit.timer);
    edit.checking?.abort();
  });
  put(panes.name, base ? null : nameField(edit));
  renderHead(edit);
  renderBody(edit);
  schedule(edit);
  return [
    panes.head,
    readOnly && notice("info", h("strong", "You can only look. "), readOnly),
    panes.top, panes.name, panes.views, panes.body,
    !readOnly && h("div", { class: "save-bar", role: "region", aria: { label: "Save" } }, panes.status,
      h("div", { class: "actions" },
        linkButton("Cancel", base ? link("biz-types", base.name, "overview") : "#/biz-types"),
        button(base ? "Save…" : "Create…", { kind: "primary", click: () => save(edit) }))),
  ];
}

/** Says on what version the form is based. */
function renderHead({ base, panes }) {
  put(panes.head, base && h("p", { class: "soft" }, `Version ${base.version}, changed `,
    time(base.updatedAt, "ago"), base.enabled ? "." : ". It is disabled."));
}

function nameField(edit) {
  edit.nameField = plain("Name", "name", {
    required: true, help: "Callers use it: /seq/NAME. It cannot be changed later.",
    disabled: Boolean(edit.readOnly), maxlength: null, on: {
      input: () => {
        edit.name = edit.nameField.value();
        schedule(edit);
      },
    },
  });
  return edit.nameField.element;
}

function renderBody(edit) {
  const { asJSON, nameField: named, panes } = edit;
  const view = (text, is) => button(text, {
    kind: "small", aria: { pressed: asJSON === is }, click: () => turn(edit, is),
  });
  put(panes.views, view("Form", false), view("JSON", true));
  const { element, fields } = (asJSON ? jsonView : form)(edit);
  if (named) {
    fields.set("name", named);
  }
  Object.assign(edit, { fields, wrongJSON: null });
  // A form, so that browsers know what its password fields are. Nothing submits it.
  put(panes.body, h("form", { autocomplete: "off", on: { submit: (event) => event.preventDefault() } }, element));
}

function turn(edit, asJSON) {
  if (edit.wrongJSON) {
    lead(edit, "json");
    return;
  }
  edit.asJSON = asJSON;
  renderBody(edit);
  showResult(edit);
  edit.panes.views.querySelector("[aria-pressed=true]").focus();
}

function jsonView(edit) {
  const typed = () => {
    try {
      edit.definition = parse(made.value());
      edit.wrongJSON = null;
    } catch (error) {
      edit.wrongJSON = error;
    }
    schedule(edit);
  };
  const made = field({
    label: "Definition", name: "json", help: "A secret that reads (secret) stays as it is.",
    input: h("textarea", {
      rows: 20, value: stringify(edit.definition), spellcheck: "false", class: "json",
      readonly: Boolean(edit.readOnly), on: { input: typed },
    }),
  });
  return { element: made.element, fields: new Map([["json", made]]) };
}

/** Moves the focus to where a key is set, or to what is said on top. */
function lead(edit, key) {
  if (!key || !focusField(edit, key) && !focusField(edit, "json")) {
    const { top } = edit.panes;
    top.scrollIntoView({ block: "center" });
    top.querySelector("button")?.focus();
  }
}

function focusField(edit, key) {
  const input = edit.fields.get(key)?.input;
  for (let up = input?.closest("details"); up; up = up.parentElement.closest("details")) {
    up.open = true;
  }
  input?.focus();
  return Boolean(input);
}

/** Checks soon, if nothing else is typed. */
function schedule(edit) {
  clearTimeout(edit.timer);
  edit.checking?.abort();
  if (!edit.readOnly) {
    edit.result = null;
    edit.timer = setTimeout(() => runCheck(edit), pause);
    renderStatus(edit);
  }
}

/** Has the definition checked, and returns what is wrong. null: this came too late. */
async function runCheck(edit) {
  clearTimeout(edit.timer);
  edit.checking?.abort();
  const stop = new AbortController();
  edit.checking = stop;
  const result = edit.wrongJSON ? wrongAt("json", edit.wrongJSON.message)
    : await ask(edit, stop.signal);
  if (stop.signal.aborted || edit.ctx.signal.aborted) {
    return null;
  }
  const wrong = wrongName(edit.name);
  const ofName = wrong ? [{ key: "name", text: edit.name || edit.tried ? wrong : "" }] : [];
  edit.result = { ...result, problems: [...ofName, ...result.problems] };
  showResult(edit);
  return edit.result;
}

const nothing = { problems: [], warnings: [], conflict: "", theirs: undefined, error: null, example: "" };

const wrongAt = (key, text) => ({ ...nothing, problems: [{ key, text }] });

async function ask(edit, signal) {
  const name = wrongName(edit.name) ? standIn : edit.name;
  try {
    const { warnings = [], settingWarnings = [], example } =
      await check(name, edit.definition, edit.base?.version ?? 0, signal);
    const others = warnings.filter((text) => !settingWarnings.some((one) => one.text === text));
    return {
      ...nothing, example,
      warnings: [...settingWarnings, ...others.map((text) => ({ key: "", text }))],
    };
  } catch (error) {
    return refusal(edit, error);
  }
}

/** Returns what a refusal means for the form. theirs is null if somebody deleted the biz type. */
async function refusal(edit, error) {
  if (error.status === 400) {
    const { problems, detail } = error;
    return problems.length > 0 ? { ...nothing, problems } : wrongAt("", detail);
  }
  if (error.code === "conflict") {
    return error.detail.startsWith("bizTypesFrom") ? wrongAt("", fromConfig)
      : { ...nothing, conflict: error.detail };
  }
  if (error.status !== 412) {
    return { ...nothing, error };
  }
  return loadIfThere(edit.name).then((theirs) => ({ ...nothing, theirs }), (other) => ({ ...nothing, error: other }));
}

/** Puts what the check said beside the fields, on top, and into the bar. */
function showResult(edit) {
  const { problems, warnings, conflict, theirs } = edit.result ?? nothing;
  const keys = [...edit.fields.keys()];
  const [wrong, doubtful] = [problems, warnings].map((entries) => placed(entries, keys));
  for (const [key, one] of edit.fields) {
    one.problem(wrong.beside.get(key));
    one.warning(doubtful.beside.get(key));
  }
  put(edit.panes.top,
    [...wrong.others, ...doubtful.others].map(({ key, text }) => notice("warn", key && [h("code", key), ": "], text)),
    conflict && conflictNotice(conflict), theirs !== undefined && meanwhile(edit, theirs));
  renderStatus(edit);
}

/** Says that somebody else changed, created or deleted the biz type. */
function meanwhile(edit, theirs) {
  const { base, name } = edit;
  const merge = async () => {
    const chosen = await compare(edit, theirs);
    return chosen && rebase(edit, theirs, chosen);
  };
  return theirs ? notice("warn",
    h("strong", base ? `Somebody changed ${name} meanwhile` : `There is a biz type called ${name} already`),
    h("p", `It is version ${theirs.version} now. What you typed is still here.`),
    h("p", button("Compare", { click: merge })))
    : notice("warn", h("strong", `Somebody deleted ${name} meanwhile`),
      h("p", "What you typed is still here, without stored secrets. Created again, it continues above its numbers."),
      h("p", button("Create it again", { click: () => rebase(edit, null, edit.definition) })));
}

/** Goes on with another definition, on top of another version. */
function rebase(edit, base, definition) {
  Object.assign(edit, { base, result: null });
  renderHead(edit);
  if (base) {
    edit.nameField = null;
    put(edit.panes.name);
  }
  edit.replace(definition);
}

/** Says in the bar what was checked, with buttons that lead to the fields. */
function renderStatus(edit) {
  const state = edit.base ? count(changeCount(edit), "setting changed", "settings changed") : "Not created yet";
  const example = sample(edit);
  refill(edit.panes.status, h("p", state, " · ", found(edit), example && [". ", example]));
}

function found(edit) {
  if (!edit.result) {
    return "checking…";
  }
  const { conflict, error, problems, theirs } = edit.result;
  const to = (key, text) => h("button", {
    type: "button", class: "as-link", data: { key }, on: { click: () => lead(edit, key) },
  }, text);
  if (error) {
    return [`not checked: ${explain(error).title}. What you typed is kept. `,
      button("Check again", { kind: "small", click: () => runCheck(edit) })];
  }
  if (problems.length > 0) {
    return to(problems[0].key, problems.length === 1 && !edit.name ? "it needs a name"
      : count(problems.length, "problem"));
  }
  return conflict ? to("", "IDs could repeat")
    : theirs !== undefined ? to("", "changed by somebody else") : "checked: no problems";
}

/** Checks, and then leads to what is wrong, or shows the difference and saves. */
async function save(edit) {
  const { ctx } = edit;
  edit.tried = true;
  const result = await runCheck(edit);
  if (!result || result.error) {
    return;
  }
  const { problems: [problem], theirs } = result;
  if (problem || theirs !== undefined) {
    lead(edit, problem?.key);
    return;
  }
  const { saved, error } = await review(edit) ?? {};
  if (error) {
    edit.result = await refusal(edit, error);
    showResult(edit);
    edit.panes.top.scrollIntoView({ block: "center" });
  } else if (saved) {
    ctx.unsaved(() => false);
    ctx.announce(`${saved.name} is saved as version ${saved.version}.`);
    ctx.go(link("biz-types", saved.name, "overview"));
  }
}
