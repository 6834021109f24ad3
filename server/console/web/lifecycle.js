// Enabling, disabling and deleting a biz type.

import { enable, loadIfThere, remove } from "./definitions.js";
import { h } from "./dom.js";
import { askAndDo, changeShown } from "./forms.js";
import { confirmByName } from "./ui.js";

/** Changes b in the version that is shown. */
const change = (b, ctx, f) => changeShown("biz type", b, () => loadIfThere(b.name), () => ctx.reload(), f);

/** Disables a biz type, or enables a disabled one, if the user says so. */
export async function disableOrEnable(b, ctx) {
  const [verb, kind] = b.enabled ? ["Disable", "danger"] : ["Enable", "primary"];
  const changed = await askAndDo({
    title: `${verb} ${b.name}?`, yes: verb, kind,
    text: h("p", b.enabled
      ? "Within 5 seconds all nodes refuse requests for numbers, until you enable it again."
      : "Within 5 seconds all nodes issue numbers again, above those that were issued before."),
    action: () => change(b, ctx, (version) => enable(b.name, !b.enabled, version)),
  });
  if (changed) {
    ctx.announce(`${b.name} is ${verb.toLowerCase()}d.`);
    ctx.reload();
  }
}

/** Deletes a biz type if the user types its name. */
export async function deleteByName(b, ctx) {
  const deleted = await confirmByName({
    title: `Delete ${b.name}?`, name: b.name, yes: "Delete",
    text: [
      h("p", "Within 5 seconds all nodes refuse requests for its numbers."),
      h("p", "Its definition and its secrets are gone. Its numbers are never issued again: a biz type " +
        "of this name continues above them."),
      b.enabled && h("p", "To stop it for a while, disable it instead."),
    ],
    action: () => change(b, ctx, (version) => remove(b.name, version)),
  });
  if (deleted) {
    ctx.announce(`${b.name} is deleted.`);
    ctx.go("#/biz-types");
  }
}
