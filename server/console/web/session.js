// The session: who is signed in, and what its token allows.

import { send, signedIn } from "./api.js";

const URL = "console/session";

/** What GET /console/session says; the object changes when somebody signs in. */
export const session = { tokensAskedFor: false, signedIn: false, caller: "", scopes: [] };

let changed = () => {};

/** Sets the function that is called after each change of the session. */
export function onSession(f) {
  changed = f;
}

/** Reads the session. */
export async function load() {
  const { data } = await send("GET", URL);
  Object.assign(session, { caller: "", scopes: [], expires: null }, data);
  changed();
}

/** Signs in with a token, or throws ApiError or Unreachable. */
export async function signIn(token) {
  await send("POST", URL, { json: { token } });
  await load();
  signedIn();
}

/** Ends the session, on all nodes. */
export async function signOut() {
  await send("DELETE", URL);
}

/** Whether the session may send requests that need a scope: "read" or "admin". */
export function may(scope, who = session) {
  return !who.tokensAskedFor || who.scopes.includes("admin") || who.scopes.includes(scope);
}

/** Whether the session may take numbers of a biz type, and of a key if there is one. */
export function mayIssue(bizType, key = "", who = session) {
  const patterns = who.scopes.filter((scope) => scope.startsWith("issue:"))
    .map((scope) => scope.slice("issue:".length));
  return !who.tokensAskedFor || patterns.some((pattern) => matches(pattern, bizType) ||
    (key !== "" && matches(pattern, `${bizType}/${key}`)));
}

/** Whether text is what pattern says: "*" stands for any characters except "/". */
export function matches(pattern, text) {
  const parts = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^/]*")}$`).test(text);
}

/** Returns why a button is disabled, or "": scope is "read", "admin" or "issue:order". */
export function why(scope, who = session) {
  const [bizType, key] = scope.replace(/^issue:/, "").split("/");
  const ok = scope.startsWith("issue:") ? mayIssue(bizType, key, who) : may(scope, who);
  return ok ? "" : `Your token ${who.caller} lacks the scope ${scope}.`;
}
