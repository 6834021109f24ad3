// Signing in and out, and who is signed in.

import { h, put, refill } from "./dom.js";
import { session, signIn, signOut } from "./session.js";
import { button, dialog, errorNotice, field, notice, page, whileBusy } from "./ui.js";
import { duration, sentence, shortTime } from "./words.js";

/** Shows the sign-in page; the promise ends when somebody has signed in. */
export function signInPage(main) {
  return new Promise((resolve) => {
    put(main, h("div", { class: "sign-in" }, page("Sign in", {
      lead: "This service asks for a token: one with the scope read or, to change things, admin.",
    }, form(resolve))));
    main.querySelector("input").focus();
  });
}

/** Asks for sign-in over the page: a promise of whether somebody has signed in. */
export async function signInDialog() {
  const { caller } = session;
  return await dialog({
    title: "Sign in again",
    children: (close) => [
      h("p", caller ? `The session of ${caller} has ended.` : "You are not signed in.",
        " What you entered on the page is kept, and is sent after you have signed in."),
      form(() => close(true)),
    ],
  }).done === true;
}

/** Returns the form; done is called after a successful sign-in. */
function form(done) {
  const token = field({
    label: "Token", name: "token",
    help: "It begins with seqd_. An administrator creates tokens under Access.",
    input: { type: "password", autocomplete: "current-password", autofocus: true },
  });
  const trouble = h("div");
  const go = button("Sign in", { kind: "primary", type: "submit" });
  const submit = (event) => {
    event.preventDefault();
    return whileBusy(go, () => attempt(token, trouble, done));
  };
  return h("form", { class: "stack", on: { submit } }, unencrypted(), token.element, trouble, go);
}

function unencrypted() {
  return session.encrypted === false && !/^(localhost|127\.|\[::1\])/.test(location.hostname) &&
    notice("warn", "This connection is not encrypted: others on the network can read the token. ",
      "Use https.");
}

async function attempt(token, trouble, done) {
  const text = token.value().trim();
  put(trouble);
  token.problem(text === "" ? "Enter a token." : "");
  token.input.focus();
  if (text === "") {
    return;
  }
  try {
    await signIn(text);
    token.input.value = "";
    done();
  } catch (error) {
    if (error.status === 429) {
      const wait = error.retryAfter ? duration(error.retryAfter) : "a minute";
      put(trouble, notice("bad", `Too many attempts. Try again in ${wait}.`));
    } else if ([400, 401].includes(error.status)) {
      token.problem(error.status === 401 ? "This token is wrong, has expired, or is disabled."
        : sentence(error.detail));
      token.input.select();
    } else {
      put(trouble, errorNotice(error));
    }
  }
}

/** Fills the corner of the header: who is signed in, until when, and sign-out. */
export function header(pane) {
  const { signedIn, tokensAskedFor, caller, expires } = session;
  if (!signedIn) {
    refill(pane, !tokensAskedFor && h("span", { class: "soft" }, "No tokens asked for"));
    return;
  }
  const until = Date.parse(expires) <= Date.now() ? "ended"
    : `until ${shortTime(expires).slice(0, -3)}`;
  refill(pane, h("strong", caller), h("span", { class: "soft until" }, until),
    button("Sign out", { kind: "quiet small", click: leave }));
}

async function leave() {
  try {
    await signOut();
  } catch (error) {
    if (error.code === "store_unavailable") {
      await dialog({ title: "This browser is signed out", children: notice("warn", "The store does ",
        "not know: a copy of the cookie could be used until the session ends by time.") }).done;
    } else if (error.status !== 401) { // after 401 the session had ended before
      await dialog({ title: "You may still be signed in", children: errorNotice(error) }).done;
      return;
    }
  }
  location.reload(); // nothing of the session stays in the page
}
