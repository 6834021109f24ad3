package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
)

// job makes a job and waits until it has ended.
func (s *service) job(body string, headers ...string) admin.Job {
	s.t.Helper()
	text, _ := s.do(http.StatusAccepted, http.MethodPost, "/jobs", body, headers...)
	var made admin.Job
	must.Do(s.t, json.Unmarshal([]byte(text), &made))
	await.Eventually(s.t, "the job ends", func() error {
		text, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID, "", headers...)
		made = admin.Job{}
		if err := json.Unmarshal([]byte(text), &made); err != nil || made.EndedAt == "" {
			return fmt.Errorf("%s: %v", text, err)
		}
		return nil
	})
	return made
}

// A job is made, its result is downloaded whole, in ranges and after a restart.
func TestJobs(t *testing.T) {
	text := fmt.Sprintf(`{store: {bolt: {path: %s}}, bizTypes: [{name: coupon, plugins: [{name: format, template: "C{date:20060102}-{seq:06}{check}", check: luhn}]},
		{name: order}, {name: invoice, strategy: gapless}, {name: event, strategy: snowflake}, {name: limited, plugins: [{name: rate-limit, rate: 100000, burst: 3000, per: number}]}]}`,
		filepath.Join(t.TempDir(), "seqd.db"))
	s := start(t, load(t, text))
	s.await("/readyz", http.StatusOK)

	made := s.job(`{"bizType":"coupon","count":250000,"name":"spring"}`)
	must.Equal(t, fmt.Sprint(made.State, made.Done, made.Name), "done250000spring", "the job")
	all, etag := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	must.Equal(t, len(lines), 250_000, "lines")
	must.Equal(t, len(slices.Compact(slices.Sorted(slices.Values(lines)))), 250_000, "IDs")
	wantIn(t, s.await("/seq/coupon/parse/"+lines[77_777], http.StatusOK), `"number":"77778"`, `"valid":true`)
	part, _ := s.do(http.StatusPartialContent, http.MethodGet, "/jobs/"+made.ID+"/result", "", "Range", "bytes=1000000-1000099", "If-Range", etag)
	must.Equal(t, part, all[1_000_000:1_000_100], "a range")
	part, _ = s.do(http.StatusPartialContent, http.MethodGet, "/jobs/"+made.ID+"/result", "", "Range", "bytes=-10")
	must.Equal(t, part, all[len(all)-10:], "the end")
	s.do(http.StatusNotModified, http.MethodGet, "/jobs/"+made.ID+"/result", "", "If-None-Match", etag)
	s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "", "Range", "bytes=5-3")
	s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "", "Range", "bytes=99999999-", "If-Range", `"x"`)
	s.do(http.StatusBadRequest, http.MethodGet, "/jobs/"+made.ID+"/result", "", "Range", "bytes=99999999-")

	for bizType, count := range map[string]int{"order": 1, "invoice": 120_000, "event": 150_000, "limited": 10_000} {
		for format, line := range map[string]string{"text": "%s\n", "csv": "%s\n", "jsonl": "{\"id\":\"%s\"}\n"} {
			made := s.job(fmt.Sprintf(`{"bizType":%q,"count":%d,"format":%q}`, bizType, count, format))
			must.Equal(t, made.State, "done", "the state of a job of %s: %v", bizType, made.Error)
			all, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
			if format == "csv" {
				var ok bool
				all, ok = strings.CutPrefix(all, "id\n")
				must.Equal(t, ok, true, "there is a header")
			}
			lines := strings.SplitAfter(all, "\n")
			must.Equal(t, len(lines)-1, count, "lines of %s", bizType)
			id := strings.Trim(lines[0], "{}id:\"\n")
			must.Equal(t, lines[0], fmt.Sprintf(line, id), "a line of %s", format)
		}
	}
	wantIn(t, s.await("/seq/invoice", http.StatusOK), `"id":"360001"`)

	// A change of how numbers are shown needs force while there are results, and makes them unreadable.
	answer, _ := s.do(http.StatusConflict, http.MethodPatch, "/biz-types/coupon", `{"plugins":[{"name":"format","template":"D{seq}"}]}`)
	wantIn(t, answer, "shape")
	answer, _ = s.do(http.StatusConflict, http.MethodDelete, "/biz-types/coupon", "")
	wantIn(t, answer, made.ID, "force=true")
	s.do(http.StatusOK, http.MethodPatch, "/biz-types/coupon", `{"plugins":[{"name":"format","template":"C{date:20060102}-{seq:06}{check}","check":"luhn"},{"name":"stats"}]}`)
	s.do(http.StatusOK, http.MethodPost, "/biz-types/coupon/disable", "")

	must.Do(t, s.stop())
	s = start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	again, tag := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	must.Equal(t, again == all && tag == etag, true, "the result is the same after a restart")
	s.do(http.StatusOK, http.MethodPatch, "/biz-types/coupon?force=true", `{"plugins":[{"name":"format","template":"D{seq}"}]}`)
	answer, _ = s.do(http.StatusConflict, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	wantIn(t, answer, "conflict", "coupon was changed")

	s.do(http.StatusNoContent, http.MethodDelete, "/biz-types/coupon?force=true", "")
	s.do(http.StatusBadRequest, http.MethodGet, "/jobs?bizType=", "")
	page, _ := s.do(http.StatusOK, http.MethodGet, "/jobs?bizType=coupon&limit=1", "")
	wantIn(t, page, made.ID)
	s.do(http.StatusNoContent, http.MethodDelete, "/jobs/"+made.ID, "")
	answer, _ = s.do(http.StatusNotFound, http.MethodGet, "/jobs/"+made.ID, "")
	wantIn(t, answer, "unknown_job")
}

func sha(secret string) string { return access.DigestOf(secret).Hex() }

// Callers see and touch only their own jobs, unless they may read or administer.
func TestWhoMayTouchAJob(t *testing.T) {
	s := start(t, load(t, `{store: {driver: memory}, bizTypes: [{name: coupon}, {name: order}], auth: {tokens: [
		{name: shop, sha256: "`+sha("shop")+`", scopes: ["issue:coupon"]}, {name: other, sha256: "`+sha("other")+`", scopes: ["issue:coupon"]},
		{name: reader, sha256: "`+sha("reader")+`", scopes: [read]}, {name: boss, sha256: "`+sha("boss")+`", scopes: [admin]}]}}`))
	auth := func(name string) []string { return []string{"Authorization", "Bearer " + name} }
	await.Eventually(t, "it is ready", func() error {
		if status, body := s.get("/readyz"); status != http.StatusOK {
			return fmt.Errorf("%d: %s", status, body)
		}
		return nil
	})
	s.do(http.StatusUnauthorized, http.MethodPost, "/jobs", `{"bizType":"coupon","count":1}`)
	s.do(http.StatusForbidden, http.MethodPost, "/jobs", `{"bizType":"order","count":1}`, auth("shop")...)
	s.do(http.StatusForbidden, http.MethodPost, "/jobs", `{"bizType":"coupon","count":1}`, auth("reader")...)
	made := s.job(`{"bizType":"coupon","count":1}`, auth("shop")...)
	for _, route := range []string{"", "/result"} {
		s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+route, "", auth("shop")...)
		s.do(http.StatusForbidden, http.MethodGet, "/jobs/"+made.ID+route, "", auth("other")...)
	}
	s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID, "", auth("reader")...)
	s.do(http.StatusForbidden, http.MethodGet, "/jobs/"+made.ID+"/result", "", auth("reader")...)
	s.do(http.StatusForbidden, http.MethodDelete, "/jobs/"+made.ID, "", auth("reader")...)
	for name, sees := range map[string]bool{"shop": true, "other": false, "reader": true, "boss": true} {
		page, _ := s.do(http.StatusOK, http.MethodGet, "/jobs", "", auth(name)...)
		must.Equal(t, strings.Contains(page, made.ID), sees, "what %s sees: %s", name, page)
	}
	s.do(http.StatusNoContent, http.MethodDelete, "/jobs/"+made.ID, "", auth("boss")...)
	await.Eventually(t, "that has an audit line", func() error {
		lines, _ := s.do(http.StatusOK, http.MethodGet, "/audit", "", auth("boss")...)
		if !strings.Contains(lines, `"method":"DELETE","path":"/jobs/`+made.ID) || !strings.Contains(lines, `"target":"`+made.ID+`","status":204`) {
			return errors.New(lines)
		}
		return nil
	})

	// The same request is the same job, and another one with its key is refused.
	key := append(auth("shop"), "Idempotency-Key", "k")
	one := s.job(`{"bizType":"coupon","count":5}`, key...)
	must.Equal(t, s.job(`{"bizType":"coupon","count":5}`, key...).ID, one.ID, "the job of a repeated request")
	answer, _ := s.do(http.StatusUnprocessableEntity, http.MethodPost, "/jobs", `{"bizType":"coupon","count":6}`, key...)
	wantIn(t, answer, "idempotency_key_reused")
	for body, part := range map[string]string{
		`{"bizType":"coupon","count":5,"at":"2400-01-01T00:00:00.000Z"}`: "a year ahead", `{"bizType":"coupon","count":"5"}`: "count", `{"count":5}`: "bizType",
		`{"bizType":"coupon","count":5,"every":"1h"}`: "every", `{"bizType":"coupon","count":5,"key":"a"}`: "key", `{"bizType":"coupon"}`: "count is 0",
	} {
		answer, _ := s.do(http.StatusBadRequest, http.MethodPost, "/jobs", body, auth("shop")...)
		wantIn(t, answer, part)
	}
}

// A job that is made again under an Idempotency-Key, after the first one was removed, has other
// numbers: the ledger of a gapless biz type still knows what the first one asked for.
func TestJobMadeAgain(t *testing.T) {
	s := start(t, load(t, `{store: {driver: memory}, bizTypes: [{name: invoice, strategy: gapless}]}`))
	s.await("/readyz", http.StatusOK)
	var results [2]string
	for i := range results {
		made := s.job(`{"bizType":"invoice","count":3}`, "Idempotency-Key", "k")
		results[i], _ = s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
		s.do(http.StatusNoContent, http.MethodDelete, "/jobs/"+made.ID, "")
	}
	must.Equal(t, results, [2]string{"1\n2\n3\n", "4\n5\n6\n"}, "the results")
}

// A template shows dates in the time zone of the biz type, so a change of that is one of how numbers
// are shown, also if they never reset.
func TestJobTimeZone(t *testing.T) {
	s := start(t, load(t, `{store: {driver: memory}, bizTypes: [{name: plain}, {name: coupon, plugins: [{name: format, template: "{date:2006010215}-{seq}"}]}]}`))
	s.await("/readyz", http.StatusOK)
	s.job(`{"bizType":"plain","count":3}`)
	made := s.job(`{"bizType":"coupon","count":3}`)
	before, etag := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	answer, _ := s.do(http.StatusConflict, http.MethodPatch, "/biz-types/coupon", `{"timeZone":"Asia/Tokyo"}`)
	wantIn(t, answer, made.ID, "force=true")
	s.do(http.StatusOK, http.MethodPatch, "/biz-types/coupon?force=true", `{"timeZone":"Asia/Tokyo"}`)
	s.do(http.StatusConflict, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	s.do(http.StatusOK, http.MethodPatch, "/biz-types/coupon", `{"timeZone":"UTC"}`)
	after, tag := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	must.Equal(t, after+tag, before+etag, "the result, once the definition is as it was")
	s.do(http.StatusOK, http.MethodPatch, "/biz-types/plain", `{"timeZone":"Asia/Tokyo"}`)
}

// The result of a job that was cancelled before it began is empty, and so has no parts. With ended a
// request does only one of the two: cancel, or remove.
func TestEmptyResult(t *testing.T) {
	s := start(t, load(t, `{store: {driver: memory}, bizTypes: [{name: coupon}]}`))
	s.await("/readyz", http.StatusOK)
	text, _ := s.do(http.StatusAccepted, http.MethodPost, "/jobs", fmt.Sprintf(`{"bizType":"coupon","count":3,"at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	var made admin.Job
	must.Do(t, json.Unmarshal([]byte(text), &made))
	s.do(http.StatusBadRequest, http.MethodDelete, "/jobs/"+made.ID+"?ended=1", "")
	answer, _ := s.do(http.StatusConflict, http.MethodDelete, "/jobs/"+made.ID+"?ended=true", "")
	wantIn(t, answer, "job_not_done", "queued")
	s.do(http.StatusNoContent, http.MethodDelete, "/jobs/"+made.ID+"?ended=false", "")
	answer, _ = s.do(http.StatusConflict, http.MethodDelete, "/jobs/"+made.ID+"?ended=false", "")
	wantIn(t, answer, "job_ended", "cancelled already")
	for _, part := range []string{"bytes=0-", "bytes=-5", "bytes=0-0"} {
		text, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result?partial=true", "", "Range", part)
		must.Equal(t, text, "", "the result")
	}
	s.do(http.StatusBadRequest, http.MethodGet, "/jobs/"+made.ID+"/result?partial=true", "", "Range", "bytes=5-")
	s.do(http.StatusNoContent, http.MethodDelete, "/jobs/"+made.ID+"?ended=true", "")
}

// A job whose node lost the key file of its biz type waits for it.
func TestJobWaitsForAKey(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	text := fmt.Sprintf(`{store: {bolt: {path: %s}}, bizTypes: [{name: coupon, plugins: [{name: obfuscate, digits: 9, keyFile: %s}, {name: rate-limit, rate: 2000, burst: 1000, per: number}]}]}`,
		filepath.Join(dir, "seqd.db"), key)
	s := start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	made := s.job(`{"bizType":"coupon","count":3}`)
	before, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	var running admin.Job
	answer, _ := s.do(http.StatusAccepted, http.MethodPost, "/jobs", `{"bizType":"coupon","count":5000}`)
	must.Do(t, json.Unmarshal([]byte(answer), &running))
	await.Eventually(t, "the job has begun", func() error {
		if answer, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+running.ID, ""); !strings.Contains(answer, `"startedAt"`) || strings.Contains(answer, `"done":0`) {
			return errors.New(answer)
		}
		return nil
	})
	must.Do(t, s.stop())
	must.Do(t, os.Rename(key, key+".away"))
	s = start(t, load(t, text))
	await.Eventually(t, "the result cannot be shown", func() error {
		if status, body := s.get("/jobs/" + made.ID + "/result"); status != http.StatusConflict || !strings.Contains(body, "tried again") {
			return fmt.Errorf("%d: %s", status, body)
		}
		return nil
	})
	time.Sleep(3 * time.Second) // it is looked for every 2
	answer, _ = s.do(http.StatusOK, http.MethodGet, "/jobs/"+running.ID, "")
	wantIn(t, answer, `"state":"running"`)
	must.Do(t, os.Rename(key+".away", key))
	await.Eventually(t, "the job is done", func() error {
		if answer, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+running.ID, ""); !strings.Contains(answer, `"state":"done"`) {
			return errors.New(answer)
		}
		return nil
	})
	after, _ := s.do(http.StatusOK, http.MethodGet, "/jobs/"+made.ID+"/result", "")
	must.Equal(t, after, before, "the result")
}
