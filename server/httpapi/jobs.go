package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// Routes of jobs.
const (
	jobsRoute   = "/jobs"
	jobRoute    = "/jobs/:job"
	resultRoute = "/jobs/:job/result"
)

// jobs serves /jobs and what is below it. Who may do what depends on the job, so the handlers and not
// the routes decide it.
type jobs struct {
	gate      *gate.Gate
	admission *admission
	proxies   forwarded.Proxies
}

// handler returns a handler that uses the jobs.
func (j jobs) handler(f func(*gin.Context, admin.Jobs) error) func(*gin.Context) error {
	return administration{j.gate}.handler(func(c *gin.Context, r *gate.Running) error { return f(c, r.Jobs) })
}

// own reports whether a caller made a job, and may still issue its numbers.
func (j jobs) own(c *gin.Context, job admin.Job) bool {
	caller, owner := callerOf(c, &j.proxies), seqd.Caller{Owner: job.Owner}
	return caller.OwnerID() == owner.OwnerID() && j.admission.issues(c, job.BizType, job.Key) == nil
}

var errOtherJob = seqd.Errorf(seqd.CodeForbidden, "another caller made this job")

// create answers POST /jobs.
func (j jobs) create(c *gin.Context, all admin.Jobs) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	caller := callerOf(c, &j.proxies)
	n := admin.NewJob{Owner: caller.Owner}
	if err := checkKeyHeader(c.Request.Header); err != nil {
		return err
	}
	if keys := c.Request.Header["Idempotency-Key"]; len(keys) > 0 {
		if err := checkKeys(keys); err != nil {
			return err
		}
		n.Once = keys[0]
	}
	if err := readJob(body(c), &n); err != nil {
		return err
	}
	if seqd.CheckName(n.BizType) == nil { // otherwise Create says what is wrong
		if err := j.admission.issues(c, n.BizType, n.Key); err != nil {
			return err
		}
	}
	job, created, err := all.Create(c.Request.Context(), n)
	if err != nil {
		return err
	}
	header := c.Writer.Header()
	if !created {
		header["Idempotent-Replayed"] = replayedTrue
	}
	header["Location"] = []string{"jobs/" + job.ID} // relative, as that of a reservation
	writeJSON(c, http.StatusAccepted, jsonType, job)
	return nil
}

// readJob reads the body of a new job.
func readJob(body []byte, n *admin.NewJob) error {
	o, err := readObject(body, "name", "bizType", "key", "count", "format", "at", "every", "timeZone")
	if err != nil {
		return err
	}
	for key, to := range map[string]*string{"name": &n.Name, "bizType": &n.BizType, "key": &n.Key, "format": &n.Format, "every": &n.Every, "timeZone": &n.TimeZone} {
		if err := o.take(key, "text", to); err != nil {
			return err
		}
	}
	if err := o.take("count", "a whole number", &n.Count); err != nil {
		return err
	}
	return takeTime(o, "at", &n.At)
}

// list answers GET /jobs: all jobs for those who may read, and otherwise the caller's own.
func (j jobs) list(c *gin.Context, all admin.Jobs) error {
	bizType, after, limit, err := pageOfBizType(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	reads := j.admission.mayRead(c)
	list, more, err := all.List(c.Request.Context(), after, limit, func(job admin.Job) bool {
		return (bizType == "" || bizType == job.BizType) && (reads || j.own(c, job))
	})
	if err != nil {
		return err
	}
	page := struct {
		Jobs []admin.Job `json:"jobs"`
		Next string      `json:"next,omitempty"`
	}{Jobs: append([]admin.Job{}, list...)}
	if more {
		page.Next = list[len(list)-1].ID
	}
	writeJSON(c, http.StatusOK, jsonType, page)
	return nil
}

// get answers GET /jobs/{job}.
func (j jobs) get(c *gin.Context, all admin.Jobs) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	job, err := all.Get(c.Request.Context(), c.Param("job"))
	if err != nil {
		return err
	}
	if !j.own(c, job) && !j.admission.mayRead(c) {
		return errOtherJob
	}
	writeJSON(c, http.StatusOK, jsonType, job)
	return nil
}

// remove answers DELETE /jobs/{job}.
func (j jobs) remove(c *gin.Context, all admin.Jobs) error {
	values, err := readQuery(c.Request.URL.RawQuery, "ended")
	if err != nil {
		return err
	}
	ended, given, err := readFlag(values, "ended")
	if err != nil {
		return err
	}
	may := func(job admin.Job) error {
		err := j.mayTouch(c, job)
		if err == nil && !j.own(c, job) {
			alsoAudited(c)
		}
		switch has := job.EndedAt != ""; {
		case err != nil || !given || has == ended:
			return err
		case has:
			return seqd.Errorf(seqd.CodeJobEnded, "the job is %s already, so it cannot be cancelled; without ended=false it would be removed with its result", job.State)
		}
		return seqd.Errorf(seqd.CodeJobNotDone, "the job is %s, so it is not removed; without ended=true it would be cancelled", job.State)
	}
	if err := all.Remove(c.Request.Context(), c.Param("job"), may); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

func (j jobs) mayTouch(c *gin.Context, job admin.Job) error {
	if !j.own(c, job) && !j.admission.mayAdminister(c) {
		return errOtherJob
	}
	return nil
}

// resultTypes are the media types of results.
var resultTypes = map[string][]string{"text": textType, "csv": csvType, "jsonl": {"application/jsonl"}}

// result answers GET /jobs/{job}/result, or a range of it.
func (j jobs) result(c *gin.Context, all admin.Jobs) error {
	values, err := readQuery(c.Request.URL.RawQuery, "partial")
	if err != nil {
		return err
	}
	partial, _, err := readFlag(values, "partial")
	if err != nil {
		return err
	}
	id := c.Param("job")
	job, err := all.Get(c.Request.Context(), id)
	if err != nil {
		return err
	}
	if err := j.mayTouch(c, job); err != nil {
		return err
	}
	job, reader, err := all.Result(c.Request.Context(), id, partial)
	if err != nil {
		return err
	}
	header := c.Writer.Header()
	header["Content-Type"] = resultTypes[job.Format]
	header["Content-Disposition"] = []string{dispositionOf(job)}
	// A removed job may be made again under its ID.
	header["Etag"] = []string{strconv.Quote(id + "-" + job.EndedAt)}
	r := &download{ReadSeeker: reader, c: c}
	if err := checkRange(c.Request.Header, r); err != nil {
		return err
	}
	http.ServeContent(c.Writer, c.Request, "", time.Time{}, r)
	return r.failed
}

// unsafeInNames are characters that some file system does not allow.
var unsafeInNames = regexp.MustCompile(`[/\\:*?"<>|]`)

// dispositionOf returns the header that names the file of a result: as its job is called, and for
// clients that read only ASCII, or if it has no name, after the biz type and the ID.
func dispositionOf(job admin.Job) string {
	ending := "." + job.Format
	if job.Format == "text" {
		ending = ".txt"
	}
	header := fmt.Sprintf(`attachment; filename="%s-%s%s"`, job.BizType, job.ID[:8], ending)
	if name := strings.Trim(unsafeInNames.ReplaceAllString(job.Name, "-"), " ."); name != "" {
		header += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name+ending), "+", "%20")
	}
	return header
}

// oneRange matches the ranges that are answered.
var oneRange = regexp.MustCompile(`^bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-[1-9][0-9]{0,17})$`)

// checkRange removes a range that is answered by all of the result, and returns an error for one that
// begins after its end: that of net/http would be no problem document.
func checkRange(header http.Header, result io.Seeker) error {
	if len(header["Range"]) == 0 {
		return nil
	}
	parts := oneRange.FindStringSubmatch(header.Get("Range"))
	if parts == nil {
		header.Del("Range")
		return nil
	}
	from, _ := strconv.ParseInt(parts[1], 10, 64)
	if to, err := strconv.ParseInt(parts[2], 10, 64); err == nil && to < from {
		header.Del("Range")
		return nil
	}
	size, err := result.Seek(0, io.SeekEnd)
	switch {
	case size == 0 && from == 0: // there is no part of nothing
		header.Del("Range")
	case err != nil || from < size:
	case len(header["If-Range"]) > 0: // it may be another result by now
		header.Del("Range")
	default:
		err = seqd.Errorf(seqd.CodeInvalidRequest, "Range begins at byte %d, and the result has %d bytes", from, size)
	}
	return err
}

// download reads a result, and gives each part of it the write timeout of the server.
type download struct {
	io.ReadSeeker
	c      *gin.Context
	failed error
}

// Read implements [io.Reader].
func (d *download) Read(p []byte) (int, error) {
	restartWriteTimeout(d.c)
	n, err := d.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		d.failed = err
	}
	return n, err
}

// issues returns why the caller may not issue numbers of a biz type and key, if it is not the route
// that says which.
func (a *admission) issues(c *gin.Context, bizType, key string) error {
	if a.guard == nil {
		return nil
	}
	_, err := a.guard.Allow(c.Request.Header["Authorization"], access.ScopeIssue, seqd.CounterOf(bizType, key))
	return err
}
