import { equal } from "./assert.js";
import { stateInWords } from "../web/subscriptions.js";

export const tests = {
  "the state of a subscription in words"() {
    const state = { node: "a" };
    equal(stateInWords({ enabled: true }), ["good", "enabled"]);
    equal(stateInWords({ enabled: true, state }), ["good", "enabled"]);
    equal(stateInWords({ enabled: true, state: {} }), ["warn", "no node sends"]);
    equal(stateInWords({ enabled: true, state: { ...state, error: "the answer is 500" } }), ["warn", "the receiver fails"]);
    equal(stateInWords({ enabled: false, state }), ["off", "disabled"]);
    equal(stateInWords({ enabled: false, reason: "the receiver answered 410 Gone" }), ["bad", "disabled: its receiver is gone"]);
  },
};
