package openapi_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// jobs tests jobs and their results.
func (c *checker) jobs(url string) {
	c.Helper()
	const list, create, get, remove, result = "GET /jobs", "POST /jobs", "GET /jobs/{job}", "DELETE /jobs/{job}", "GET /jobs/{job}/result"
	var job struct{ ID, State string }
	post := func(body string, status int, code string, wrong bool, headers ...string) {
		c.Helper()
		answer := c.on(url, call{op: create, target: "/jobs", headers: append(headers, jsonBody), body: body, status: status, code: code, wrong: wrong})
		if status == 202 {
			must.Do(c, json.Unmarshal(answer.body, &job))
		}
	}
	post(`{"bizType": "order"}`, 400, "invalid_count", true)
	post(`{"bizType": "order", "count": 1, "format": "xml"}`, 400, "invalid_request", true)
	post(`{"bizType": "order", "count": 1, "every": "hour"}`, 400, "invalid_request", true)
	post(`{"bizType": "order", "count": 1, "timeZone": "UTC"}`, 400, "invalid_request", false)
	post(`{"bizType": "order", "count": 1, "at": "2040-01-01T00:00:00Z", "every": "day"}`, 400, "invalid_request", false)
	post(fmt.Sprintf(`{"bizType": "order", "count": 1, "every": "week", "at": %q, "timeZone": "Europe/Berlin"}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)), 202, "", false)
	c.on(url, call{op: get, target: "/jobs/" + job.ID, status: 200})
	must.Equal(c, job.State, "scheduled", "state")
	c.on(url, call{op: result, target: "/jobs/" + job.ID + "/result", status: 409, code: "job_not_done"})
	c.on(url, call{op: remove, target: "/jobs/" + job.ID, status: 204})
	c.on(url, call{op: remove, target: "/jobs/" + job.ID, status: 204})
	post(`{"bizType": "nothing", "count": 1}`, 404, "unknown_biz_type", false)
	c.on(url, call{op: create, target: "/jobs", headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	for _, format := range []string{"text", "csv"} { // the validator takes jsonl for JSON
		post(fmt.Sprintf(`{"bizType": "order", "count": 1000, "format": %q, "name": "a"}`, format), 202, "", false)
		at := "/jobs/" + job.ID
		await.Eventually(c, "the job ends", func() error {
			must.Do(c, json.Unmarshal(c.on(url, call{op: get, target: at, status: 200}).body, &job))
			if job.State != "done" {
				return fmt.Errorf("it is %s", job.State)
			}
			return nil
		})
		c.on(url, call{op: result, target: at + "/result", status: 200})
		c.on(url, call{op: result, target: at + "/result", headers: []string{"Range: bytes=10-20"}, status: 206})
		c.on(url, call{op: result, target: at + "/result", headers: []string{"If-None-Match: *"}, status: 304})
		c.on(url, call{op: result, target: at + "/result", headers: []string{"Range: bytes=1000000-"}, status: 400, code: "invalid_request"})
		c.on(url, call{op: result, target: at + "/result?partial=x", status: 400, code: "invalid_request", wrong: true})
		c.on(url, call{op: list, target: "/jobs?bizType=order&limit=1", status: 200})
		c.on(url, call{op: remove, target: at, status: 204})
		c.on(url, call{op: remove, target: at, status: 404, code: "unknown_job"})
		c.on(url, call{op: get, target: at, status: 404, code: "unknown_job"})
		c.on(url, call{op: result, target: at + "/result", status: 404, code: "unknown_job"})
	}
	c.on(url, call{op: list, target: "/jobs?limit=0", status: 400, code: "invalid_request", wrong: true})
	late := fmt.Sprintf(`{"bizType": "order", "count": 1000, "at": %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	post(late, 202, "", false, "Idempotency-Key: k")
	post(late, 202, "", false, "Idempotency-Key: k")
	post(`{"bizType": "order", "count": 1}`, 422, "idempotency_key_reused", false, "Idempotency-Key: k")
	at := "/jobs/" + job.ID
	c.on(url, call{op: result, target: at + "/result", status: 409, code: "job_not_done"})
	c.on(url, call{op: remove, target: at, status: 204})
	c.on(url, call{op: result, target: at + "/result", status: 409, code: "job_ended"})
	c.on(url, call{op: result, target: at + "/result?partial=true", status: 200})
}
