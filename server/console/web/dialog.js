// Dialogs: <dialog> keeps focus inside, and gives it back when it closes.

import { h, newId, put } from "./dom.js";
import { button, errorNotice, field, whileBusy } from "./ui.js";

/**
 * Opens a dialog, and returns {element, close(value), done}: done is a promise of the value, which
 * is undefined if the user closed it. children and actions are nodes, or a function of close that
 * returns them. Until the promise of f of close.after(f) ends, the user cannot close the dialog, and
 * miss how it ended. leave: the question before it is closed without an answer, "" for none.
 */
export function dialog({ title, children, actions, wide = false, leave = "" }) {
  const id = newId("dialog");
  const back = document.activeElement;
  let answer;
  let pending = null;
  const close = (value) => {
    if (value !== undefined || !pending) {
      answer = value;
      element.close();
    }
  };
  close.after = async (f) => {
    try {
      await (pending = f());
    } finally {
      pending = null;
    }
  };
  const made = (part) => (typeof part === "function" ? part(close) : part);
  const x = button("×", { kind: "quiet small", aria: { label: "Close" }, click: () => close() });
  const element = h("dialog", { class: wide && "wide-dialog", aria: { labelledby: id },
    data: { leave: leave || null } },
    h("div", { class: "dialog-head" }, h("h2", { id, tabindex: -1 }, title), !leave && x),
    h("div", { class: "dialog-body" }, made(children)),
    actions && h("div", { class: "dialog-actions" }, made(actions)));
  element.addEventListener("cancel", (event) => (leave || pending) && event.preventDefault());
  const done = new Promise((resolve) => {
    element.addEventListener("close", async () => {
      element.remove();
      back?.focus({ preventScroll: true });
      await pending; // the page was left meanwhile
      resolve(answer);
    });
  });
  document.body.append(element);
  element.showModal();
  (element.querySelector("[autofocus]") || element.querySelector("h2")).focus();
  return { element, close, done };
}

/** Closes the dialogs of a page that is left, and returns the one that must stay, if any. */
export function closeDialogs() {
  const open = [...document.querySelectorAll("dialog[open]")].reverse();
  open.filter((one) => !one.dataset.leave).forEach((one) => one.close());
  return open.find((one) => one.dataset.leave);
}

/** Asks a question: a promise of true or false. danger: the answer yes destroys something. */
export async function ask({ title, text, yes, no = "Cancel", danger = false }) {
  return await dialog({
    title, children: h("div", text),
    actions: (close) => [
      button(no, { click: () => close(), autofocus: true }),
      button(yes, { kind: danger ? "danger" : "primary", click: () => close(true) }),
    ],
  }).done === true;
}

/**
 * Asks the user to type name before something is destroyed, then runs action, and returns a promise
 * of whether it was done. If action fails, the dialog stays and explains the error.
 */
export async function confirmByName({ title, text, name, yes, action }) {
  const typed = field({
    label: ["Type ", h("strong", name), " to confirm"], name: "confirm",
    input: { autofocus: true, spellcheck: "false", autocapitalize: "off" },
  });
  const trouble = h("div");
  const form = newId("confirm");
  const go = button(yes, { kind: "danger", type: "submit", form });
  const submit = async (event, close) => {
    event.preventDefault();
    const right = typed.value().trim() === name;
    typed.problem(right ? "" : `This is not ${name}.`);
    put(trouble);
    if (!right) {
      typed.input.focus();
      return;
    }
    await whileBusy(go, () => close.after(async () => {
      try {
        await action();
        close(true);
      } catch (error) {
        put(trouble, errorNotice(error));
      }
    }));
  };
  return await dialog({
    title,
    children: (close) => h("form", { id: form, on: { submit: (event) => submit(event, close) } },
      h("div", text), typed.element, trouble),
    actions: (close) => [button("Cancel", { click: () => close() }), go],
  }).done === true;
}
