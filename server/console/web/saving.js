// Dialogs around saving a definition.

import { save } from "./definitions.js";
import { changes, conceal, concealed, merged, threeWay } from "./diff.js";
import { h } from "./dom.js";
import { askAndDo, soft } from "./forms.js";
import { read, secretsIn, settingAt, textOf } from "./settings.js";
import { confirmByName, notice, table } from "./ui.js";
import { count, time } from "./words.js";

/** Returns a value as it is shown in a table. */
function shown(value, standard = "") {
  const unset = standard === "" ? "not set" : `default: ${textOf(standard)}`;
  return value === undefined ? h("span", { class: "soft" }, unset)
    : h("code", { class: "value" }, textOf(value) || (Array.isArray(value) ? "none" : '""'));
}

/** Returns the column that names a setting as the form does: a plugin by its place and name. */
const settingColumn = (definition) => ({
  title: "Setting",
  cell: ({ path: [list, i, ...rest], key }) => (typeof i === "number"
    ? [i + 1, ". ", textOf(read(definition, [list, i, "name"])), " ", h("code", rest.join("."))]
    : h("code", key)),
});

/** Returns the table of what changes from one definition to another, without secrets. */
function difference(before, after, settings) {
  const side = (title, which, definition) => ({
    title, cell: (change) => shown(change[which], settingAt(settings, definition, change.path)?.default),
  });
  const to = (title) => side(title, "to", after);
  return table({
    caption: "What changes", class: "difference", key: ({ key }) => key,
    rows: concealed(changes(before ?? {}, after), secretsIn(settings, before ?? {}, after)),
    none: soft(before ? "No setting changes." : "All settings have their defaults."),
    columns: before ? [settingColumn(after), side("From", "from", before), to("To")]
      : [settingColumn(after), to("Value")],
  });
}

/** Returns what IDs look like, if the check said it. */
export const sample = ({ base, result }) => result?.example &&
  [base ? "IDs look" : "The first ID looks", " like ", h("code", result.example)];

/**
 * Shows what changes and what the check said of it, and saves it if the user says so. Returns
 * {saved} (the biz type), {error} (a refusal that concerns the definition), undefined if the user
 * went back.
 */
export async function review(edit) {
  const { name, base, definition, settings, result: { warnings, conflict } } = edit;
  const action = () => save(name, definition, base?.version ?? 0, Boolean(conflict))
    .then((saved) => ({ saved }), (error) => {
      if ([400, 409, 412].includes(error.status)) {
        return { error };
      }
      throw error;
    });
  const example = sample(edit);
  const text = [
    difference(base?.definition, definition, settings), example && h("p", example),
    warnings.map(({ key, text: warning }) => notice("warn", key && h("strong", `${key}: `), warning)),
    conflict && conflictNotice(conflict),
  ];
  const title = base ? `Save ${name}?` : `Create ${name}?`;
  if (!conflict) {
    const yes = base ? "Save" : "Create";
    return askAndDo({ title, text, yes, no: "Back to the form", wide: true, action });
  }
  let result;
  const force = async () => { result = await action(); };
  await confirmByName({ title, text, name, yes: "Save all the same", action: force });
  return result;
}

/** Explains a definition whose IDs could repeat earlier ones. */
export function conflictNotice(detail) {
  return notice("warn", h("strong", "IDs could repeat"), h("p", detail),
    h("p", "A new biz type is safe. Save this only if you know that no ID repeats."));
}

/**
 * Shows what somebody else made of a biz type. Returns both definitions in one, if it is wanted.
 */
export function compare({ name, base, definition, settings }, theirs) {
  const from = base?.definition;
  const entries = threeWay(from, definition, theirs.definition);
  const isSecret = secretsIn(settings, from ?? {}, definition, theirs.definition);
  const column = (title, of) => ({ title, cell: (entry) => shown(conceal(entry[of], entry.path, isSecret)) });
  const differing = table({
    caption: "Settings that differ", rows: entries, key: ({ key }) => key, class: "difference",
    columns: [
      settingColumn(definition), column("When you began", "base"), column("Yours", "mine"), column("Theirs", "theirs"),
      { title: "Result", cell: ({ isTheirs }) => (isTheirs ? "theirs" : "yours") },
    ],
  });
  return askAndDo({
    title: `${name} was changed meanwhile`, wide: true, no: "Decide later", yes: "Use this",
    text: [
      h("p", base ? `You began with version ${base.version}. ` : "There was none when you began. ",
        `It is version ${theirs.version} now, changed `, time(theirs.updatedAt, "ago"), "."),
      h("p", entries.length === 0 ? "Its settings are those that you have here."
        : `${count(entries.length, "setting differs", "settings differ")}. What you changed counts, and ` +
          "theirs for the rest. Nothing is saved yet: go on in the form."),
      differing,
    ],
    action: () => merged(theirs.definition, entries),
  });
}
