import { equal } from "./assert.js";
import { inOrder, jobsOf, stateInWords } from "../web/jobs.js";

export const tests = {
  "the state of a job in words"() {
    const now = Date.parse("2026-11-30T12:00:00Z");
    const at = "2026-11-30T12:00:01Z";
    equal(stateInWords({ state: "queued", at }, now), ["off", "waits for its time"]);
    equal(stateInWords({ state: "queued", at }, now + 2000), ["off", "queued"]);
    equal(stateInWords({ state: "running", at }, now), ["info", "running"]);
    equal(stateInWords({ state: "done", at }, now), ["good", "done"]);
    equal(stateInWords({ state: "failed", at }, now), ["bad", "failed"]);
    equal(stateInWords({ state: "cancelled", at }, now), ["off", "cancelled"]);
  },
  "running jobs first, and then the newest"() {
    const jobs = ["done 3", "queued 1", "failed 4", "running 0", "queued 2"].map((one) => {
      const [state, createdAt] = one.split(" ");
      return { state, createdAt, endedAt: ["done", "failed"].includes(state) && createdAt };
    });
    equal(inOrder(jobs).map((job) => job.createdAt), ["0", "2", "1", "4", "3"]);
  },
  "addresses of the jobs of a biz type"() {
    equal(jobsOf("a&b"), "#/jobs?bizType=a%26b");
    equal(jobsOf("order", { new: 1 }), "#/jobs?new=1&bizType=order");
  },
};
