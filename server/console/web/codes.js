// What the codes of the API mean, and what to do about them here: written from codes.go.

const codes = {
  __proto__: null, // a code may have any name
  invalid_biz_type: ["This is not a name of a biz type", "Correct what you entered, and send it again."],
  invalid_count: ["This is not a possible count", "Correct what you entered, and send it again."],
  invalid_id: ["This is not an ID of this biz type", "Check that you copied all of it."],
  invalid_key: ["The key is wrong or missing", "A keyed biz type needs a key; others take none."],
  invalid_ttl: ["This is not a possible time", "Enter 1s to 24h, such as 90s or 10m."],
  invalid_request: ["The request is not valid", "Correct what you entered, and send it again."],
  invalid_definition: ["The definition has problems", "Correct the settings that are marked."],
  unauthorized: ["You are not signed in", "Use a valid token. Tokens expire."],
  forbidden: ["This is not allowed", "Use a token that has the scope."],
  unknown_biz_type: ["There is no biz type of this name", "It may be deleted, or so new that this node learns of it within 5 seconds."],
  unknown_reservation: ["There is no such reservation", "24 hours after its end only the account knows its numbers."],
  unknown_pool: ["There is no pool of this name", "Check the name."],
  unknown_job: ["There is no such job", "It was removed, or its result has expired."],
  unknown_subscription: ["There is no subscription of this name", "Check the name."],
  not_found: ["There is nothing at this address", "It may be deleted, or the node may have an older version."],
  method_not_allowed: ["The node does not support this", "It may have an older version."],
  conflict: ["This does not fit what is there already", "Nothing was changed."],
  exhausted: ["All numbers are used up", "Raise the limit of the biz type, or use a new one."],
  store_failed_over: ["The store failed over and may have lost counters", "An operator has to confirm how far they had come: “failover of the store” in the manual."],
  disabled: ["The biz type is disabled", "Enable it if numbers should be issued again."],
  too_many_keys: ["There are as many keys as allowed", "Raise maxKeys of the biz type."],
  too_many_reserved: ["Too many numbers are reserved", "Confirm or release reservations."],
  reservation_expired: ["The reservation has expired", "Reserve new numbers."],
  reservation_released: ["The reservation was released", "Reserve new numbers."],
  reservation_confirmed: ["The reservation is confirmed", "Its numbers can only be made void."],
  number_void: ["The number is void", "Use a new Idempotency-Key."],
  lease_lost: ["The lease has ended", "Lease a worker ID anew."],
  job_not_done: ["The job has not issued all its numbers yet", "Wait until it is done."],
  events_gone: ["These events are not kept any more", "They are kept for events.keep."],
  job_ended: ["The job has ended, perhaps before it had issued all its numbers", "Look at its state."],
  precondition_failed: ["Somebody else changed this meanwhile", "Nothing was done. Look at it, then repeat or cancel."],
  body_too_large: ["This is too large", "Send less at once."],
  uri_too_long: ["The address is too long", "Use a shorter search or name."],
  unsupported_media_type: ["The node does not read this kind of text", "Reload the page."],
  idempotency_key_reused: ["An Idempotency-Key was used twice", "Each request needs its own."],
  headers_too_large: ["The headers are too large", "Delete cookies of this host, then reload."],
  rate_limited: ["Too many requests", "Wait, or raise the limit."],
  too_many_jobs: ["There are as many jobs as allowed", "Remove jobs whose results are not needed any more."],
  too_many_answers: ["Too much is kept for your Idempotency-Keys and reservations", "Wait until some end."],
  answers_full: ["Too much is kept for Idempotency-Keys and reservations", "Raise idempotency.maxBytes, or wait."],
  starting: ["The node is starting", "Wait a few seconds: it has not reached its store yet."],
  stopping: ["The node is stopping", "Try again in a moment."],
  overloaded: ["The node has too much to do", "If it stays so, add nodes or raise limits."],
  store_unavailable: ["The store does not answer", "Only numbers in hand are issued, and nothing can be changed. Look at the store."],
  no_coordinator: ["The coordinator does not answer", "Look at the coordinator. Jobs wait, and machine IDs if they are leased there."],
  redis_unavailable: ["Redis does not answer", "Look at Redis. Strict order needs it."],
  cursor_contested: ["Nodes take numbers in turns", "They are unique, but not in order: see Redis."],
  clock_rollback: ["A clock went back", "Correct it. The node waits, so that no number repeats."],
  no_machine_id: ["No machine ID is free", "Stop spare nodes, or raise bitsMachine."],
  timeout: ["It took too long", "Try again in a moment."],
  canceled: ["The caller did not wait for the answer", "Try again in a moment."],
  plugin_panic: ["A plugin has a defect", "Look at the log of the node, with the request ID."],
  internal: ["Something in the node is broken", "Look at the log of the node, with the request ID."],
};

/** Returns what a code of the API means, and what to do about it: {what, todo}. */
export function meaning(code) {
  const [what, todo] = codes[code] || [`Refused: ${code || "no reason given"}`, "Try again in a moment."];
  return { what, todo };
}

/** Returns what an error is, and what to do about it: {title, text, todo, code, requestId}. */
export function explain(error) {
  const { name, message, code, retryAfter, requestId, status, unknown } = error ?? {};
  if (name === "ApiError") {
    const { what, todo } = meaning(code);
    return {
      title: what, text: sentence(error.detail), code, requestId,
      todo: retryAfter ? `${todo} Try again in ${retryAfter} s.` : todo,
    };
  }
  if (name === "Unreachable") {
    return {
      title: "The node does not answer", requestId,
      text: status > 0 ? `Something on the way to it answered with status ${status}.`
        : sentence(message),
      todo: unknown ? "Nobody knows whether the change was made: look before you send it again."
        : "Look whether the node runs, and whether you are connected.",
    };
  }
  return {
    title: "The page has a defect", text: String(message || error), requestId,
    todo: "Reload the page.",
  };
}

/** Returns text with a capital letter and a full stop. */
export function sentence(text) {
  const begun = text ? text[0].toUpperCase() + text.slice(1) : "";
  return begun === "" || /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
