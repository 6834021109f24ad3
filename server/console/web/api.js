// Requests to the API. The node finds the session by its cookie, and turns it into the token's
// Authorization header.

/** A refusal by the API: a problem document. */
export class ApiError extends Error {
  constructor(status, problem, headers) {
    const { code, detail, problems = [], requestId } = problem;
    super(detail);
    const retryAfter = Number(headers.get("Retry-After")) || null; // seconds
    Object.assign(this, { name: "ApiError", status, code, detail, problems, requestId, retryAfter,
      problem });
  }
}

/** There was no answer, or one that is not from seqd. */
export class Unreachable extends Error {
  /** unknown: the request was a change, and nobody knows whether it was made. */
  constructor(message, unknown = false, status = 0) {
    super(message);
    Object.assign(this, { name: "Unreachable", unknown, status });
  }
}

/**
 * Sends a request to a path of the API, and returns {data, etag}.
 *
 * query: an object; null, undefined and "" are left out. json: the body. headers, signal: as in
 * fetch. as: "json" (default), "text" or "blob". timeout: milliseconds (30,000). background: nobody
 * asked for it, as for a poll: it does not ask for sign-in again after the user closed that dialog.
 *
 * Throws ApiError, Unreachable, or an AbortError if signal was aborted. After 401 it asks for
 * sign-in and repeats the request: nothing was done. Nothing else is ever repeated.
 */
export async function request(method, path, options = {}) {
  for (;;) {
    const before = signIns;
    try {
      return await send(method, address(path, options.query), options);
    } catch (error) {
      const refused = error.status === 401 && error instanceof ApiError;
      // Somebody may have signed in while this request was under way.
      if (!refused || !(before !== signIns || await signInAgain(options.background))) {
        throw error;
      }
    }
  }
}

/** Returns the address of a path of the API, relative to the page; query is as in request. */
export const address = (path, query) => {
  const pairs = Object.entries(query || {}).filter(([, value]) => (value ?? "") !== "");
  return `console/api${path}${pairs.length > 0 ? `?${new URLSearchParams(pairs)}` : ""}`;
};

/** Send a request of that method: as request. */
export const get = (path, options) => request("GET", path, options);
export const post = (path, json, options) => request("POST", path, { ...options, json });
export const del = (path, options) => request("DELETE", path, options);

/** Returns a path of the API with its parts escaped: path`/biz-types/${name}/history`. */
export function path(texts, ...parts) {
  return texts.reduce((all, text, i) => all + encodeURIComponent(parts[i - 1]) + text);
}

let askForSignIn = async () => false;
let asking = null; // the dialog that is open
let dismissed = false;
let signIns = 0;

/** Sets the function that asks for sign-in, and returns whether the user signed in. */
export function onUnauthorized(f) {
  askForSignIn = f;
}

/** Says that there is a new session. */
export function signedIn() {
  signIns++;
  dismissed = false;
}

async function signInAgain(background) {
  if (background && dismissed && !asking) {
    return false;
  }
  asking ??= askForSignIn().finally(() => { asking = null; });
  const ok = await asking;
  dismissed = !ok;
  return ok;
}

/**
 * Sends a request to a URL of this node, relative to the page: as request, but it never asks for
 * sign-in.
 */
export async function send(method, url, options = {}) {
  const { json, headers, signal, as = "json", timeout = 30_000 } = options;
  const limit = AbortSignal.timeout(timeout);
  const unknown = method !== "GET";
  try {
    const answer = await fetch(url, {
      method,
      headers: {
        "Seqd-Console": "1",
        ...(json && { "Content-Type": "application/json" }),
        ...headers,
      },
      body: JSON.stringify(json),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
      redirect: "error",
    });
    return await read(answer, as, unknown);
  } catch (error) {
    if (error instanceof ApiError || error instanceof Unreachable || signal?.aborted) {
      throw error;
    }
    const what = limit.aborted ? `no answer within ${timeout / 1000} seconds` : "no connection";
    throw new Unreachable(what, unknown);
  }
}

async function read(answer, as, unknown) {
  const { status, headers, ok } = answer;
  const isJSON = /^application\/(problem\+)?json\b/.test(headers.get("Content-Type"));
  const problem = !ok && isJSON && await answer.json();
  if (typeof problem?.status === "number") {
    throw new ApiError(status, problem, headers);
  }
  if (!ok || (status !== 204 && as === "json" && !isJSON)) {
    throw new Unreachable("an answer that is not from seqd", unknown, status);
  }
  const data = status === 204 ? null : await answer[as]();
  return { data, etag: headers.get("ETag") || "" };
}
