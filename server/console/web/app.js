// The frame: navigation, the session, and the page that the address names.

import { onUnauthorized } from "./api.js";
import { closeDialogs } from "./dialog.js";
import { put, set } from "./dom.js";
import { parse } from "./routes.js";
import { load, may, mayIssue, onSession, session, why } from "./session.js";
import { header, signInDialog, signInPage } from "./signin.js";
import { ask, busy, button, errorNotice, notice, page } from "./ui.js";
import { moveOn } from "./words.js";

const main = document.getElementById("main");
const live = document.getElementById("live");

let current = null; // the page that is shown: {hash, name, parts, query, leave: [f], unsaved: f}

/** Has the live region read text out, also the same text again. */
function announce(text) {
  put(live);
  setTimeout(() => put(live, text), 50);
}

/** Returns what a page gets beside its element and its address. */
function context(shown) {
  const abort = new AbortController();
  const onLeave = (f) => shown.leave.push(f);
  const here = () => current.hash === shown.hash;
  onLeave(() => abort.abort());
  return {
    session, may, mayIssue, why, announce, onLeave,
    signal: abort.signal, // aborted when the page is left
    // A late answer changes nothing on the next page.
    go: (hash) => { if (here()) location.hash = hash; },
    replace: (hash) => { // changes the address, and leaves the page as it is
      history.replaceState(null, "", hash);
      shown.hash = hash;
    },
    reload: () => { if (here()) show(true); },
    unsaved: (f) => { shown.unsaved = f; }, // f returns whether leaving would lose something
    every: (ms, f) => every(ms, f, onLeave),
  };
}

/**
 * Runs f, which returns a promise, now and ms after each run has ended, while the page is shown and
 * visible. After an error with retryAfter the next run waits so long at least.
 */
function every(ms, f, onLeave) {
  let timer = 0;
  let running = false;
  let left = false;
  const run = async () => {
    clearTimeout(timer);
    if (running || left || document.hidden) {
      return;
    }
    running = true;
    const error = await f().catch((e) => e);
    running = false;
    timer = setTimeout(run, Math.max(ms, (error?.retryAfter || 0) * 1000));
  };
  document.addEventListener("visibilitychange", run);
  onLeave(() => {
    left = true;
    document.removeEventListener("visibilitychange", run);
  });
  run();
}

/** Shows the page of the address. again: also if it is shown already. */
async function show(again = false) {
  const hash = location.hash || "#/overview";
  if (!again && hash === current?.hash) {
    return;
  }
  const stays = !again && closeDialogs();
  if (stays || (!again && current?.unsaved?.())) {
    mayLeave(hash, stays);
    return;
  }
  const at = document.activeElement;
  const from = current || main.contains(at) ? at : null; // no page had focus before the first
  current?.leave.forEach((f) => f());
  const { load: module, ...where } = parse(hash);
  const shown = { hash, ...where, leave: [], unsaved: null };
  current = shown;
  markNav(where.name);
  try {
    await render(shown, module, () => focus(shown, from));
  } catch (error) {
    console.error(error);
    if (current === shown) {
      put(main, page("This page failed", {}, errorNotice(error, { retry: () => show(true) })));
    }
  }
}

async function render(shown, module, rendered) {
  const loaded = await module?.().catch((error) => console.error(error));
  if (current !== shown) {
    return;
  }
  put(main);
  const done = loaded ? loaded.show(main, shown, context(shown)) : put(main, noPage(module));
  rendered(); // its h1 is there already
  await done;
  rendered();
}

function noPage(module) {
  if (!module) {
    return page("There is no such page", {}, notice("warn", "The address may be old."));
  }
  return page("This page could not be loaded", {}, notice("bad",
    "The node that answered may have another version, or does not answer any more. ",
    button("Reload", { click: () => location.reload() })));
}

/** Moves focus to the heading of a new page once, unless the user has moved it from there. */
function focus(shown, from) {
  const at = document.activeElement;
  const heading = main.querySelector("h1");
  if (current !== shown || shown.focused || !heading) {
    return;
  }
  shown.focused = true;
  if (from && (at === from || at === document.body)) {
    const tab = from.closest(".tabs") && main.querySelector(".tabs [aria-current]");
    (tab || heading).focus({ preventScroll: true });
    if (!tab) {
      scrollTo(0, 0);
    }
  }
}

/** Asks before the page is left for hash, or a dialog that stays is closed. */
async function mayLeave(hash, dialog) {
  history.replaceState(null, "", current.hash);
  const leave = await ask({
    title: dialog?.dataset.leave ?? "Leave without saving?",
    text: dialog ? "Nobody can show it again." : "What you changed on this page is not saved.",
    yes: "Leave", no: "Stay", danger: true,
  });
  if (leave) {
    current.unsaved = null;
    delete dialog?.dataset.leave;
    location.hash = hash;
  }
}

function markNav(name) {
  const section = name === "new" ? "biz-types" : name;
  document.querySelectorAll("#nav a").forEach((a) =>
    set(a, { "aria-current": a.hash === `#/${section}` ? "page" : null }));
}

async function start() {
  document.documentElement.classList.add("started");
  put(main, busy());
  try {
    await load();
  } catch (error) {
    put(main, page("The console cannot start", {}, errorNotice(error, { retry: start })));
    return;
  }
  if (session.tokensAskedFor && !session.signedIn) {
    document.documentElement.classList.add("signed-out");
    await signInPage(main); // focus is still there, and moves to the first page
    document.documentElement.classList.remove("signed-out");
  }
  await show(true);
}

const who = () => header(document.getElementById("who"));

onUnauthorized(signInDialog);
onSession(who);
setInterval(() => {
  if (!document.hidden) {
    moveOn();
    who();
  }
}, 30_000);
// Another tab may have signed in with another token meanwhile.
document.addEventListener("visibilitychange", () => !document.hidden && load().catch(() => {}));
addEventListener("hashchange", () => current && show()); // not while somebody signs in
addEventListener("beforeunload", (event) => current?.unsaved?.() && event.preventDefault());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // "#main" is no page
  (main.querySelector("h1") || main).focus();
});
start();
