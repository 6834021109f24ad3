// Requests about definitions of biz types. Numbers in definitions stay as they were written.

import { ApiError, del, get, path, post, request, Unreachable } from "./api.js";
import { conceal } from "./diff.js";
import { parse, same } from "./json.js";
import { hidden } from "./settings.js";

const of = (name) => path`/biz-types/${name}`;

/** Returns the headers of a change of a version; 0 means that there must be none. */
const condition = (version) => (version ? { "If-Match": `"${version}"` } : { "If-None-Match": "*" });

/** Reads a biz type. */
export async function load(name, options) {
  return parse((await get(of(name), { ...options, as: "text" })).data);
}

/** Reads a biz type, or returns null if there is none. */
export async function loadIfThere(name, options) {
  return load(name, options).catch((error) => {
    if (error.code === "unknown_biz_type") {
      return null;
    }
    throw error;
  });
}

/** Checks a definition without saving it, and returns what saving it would give. */
export async function check(name, definition, version, signal) {
  const options = { json: definition, query: { dryRun: true }, headers: condition(version), signal };
  return (await request("PUT", of(name), options)).data;
}

/** Saves a definition on top of a version, 0 for a new biz type, and returns the biz type. */
export function save(name, definition, version, force) {
  const query = { force: force || null };
  const options = { json: definition, query, headers: condition(version) };
  return surely(name, version, () => request("PUT", of(name), options),
    (there) => there?.version > version && sameButSecrets(there.definition, definition));
}

/** Enables or disables a version of a biz type, and returns the biz type. */
export function enable(name, enabled, version) {
  const route = `${of(name)}/${enabled ? "enable" : "disable"}`;
  return surely(name, version, () => post(route, undefined, { headers: condition(version) }),
    (there) => there?.enabled === enabled);
}

/** Deletes a version of a biz type. */
export function remove(name, version) {
  return surely(name, version, () => del(of(name), { headers: condition(version) }), (there) => !there);
}

/** Sends a change of a version. If the answer is lost, it looks whether the change was made. */
async function surely(name, version, send, isMade) {
  try {
    return (await send()).data;
  } catch (error) {
    if (!error.unknown) {
      throw error;
    }
    const there = await loadIfThere(name, { timeout: 10_000 }).catch(() => { throw error; });
    if (isMade(there)) {
      return there;
    }
    if ((there?.version ?? 0) === version) {
      throw new Unreachable("the connection broke, and the change was not made");
    }
    const detail = there ? `It is version ${there.version} now` : "It is deleted";
    throw new ApiError(412, { code: "precondition_failed", detail }, new Headers());
  }
}

/** Compares a definition with one whose secrets are hidden. */
function sameButSecrets(shown, typed) {
  const isHidden = (steps) => steps.reduce((found, step) => found?.[step], shown) === hidden;
  return same(shown, conceal(typed, [], isHidden));
}
