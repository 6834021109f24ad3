// Package jobs issues many numbers in the background, and shows them when somebody reads the result.
//
// A job is a document in the store and a work of package terms: the node that owns it issues chunks
// and writes after each, by a compare-and-set that names its term, which runs of numbers it got.
//
//	J1 counted  a chunk counts only if that write succeeded, so a node that is killed skips one chunk
//	            at most, and none is in a result twice: Jobs.drive (run.go). Numbers of a ledger are
//	            issued under the same Once again, so they have no gap: job.once (job.go)
//	J2 order    jobs begin when they are due, the earliest first, and then in the order of their IDs:
//	            Jobs.round (run.go)
//	J3 pinned   a result is a pure function of runs, of when they were made, and of how the biz type
//	            showed numbers when the job began. The issuer refuses a chunk, and to show numbers, if
//	            they are shown in another way by now: [seqd.Call].Display
//	J4 bounded  at most so many jobs run at once in the cluster: the permits of package terms
//
// job.go decides what comes next, and text.go makes text of runs: both are pure. jobs.go has what
// callers use, run.go what runs.
package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/storeerror"
	"github.com/seqd/seqd/server/terms"
)

// Limits of a job.
const (
	mostCount   = 1_000_000_000
	longestName = 100
	mostAhead   = 366 * 24 * time.Hour
)

// Issuer issues and shows numbers. An [issuer.Issuer] is one.
type Issuer interface {
	Issue(ctx context.Context, call *seqd.Call) error
	Show(ctx context.Context, call *seqd.Call) error
	Display(ctx context.Context, bizType, key string) (display string, ledger bool, err error)
}

// Options are what [New] needs.
type Options struct {
	Documents persist.Documents
	Terms     *terms.Terms
	Issuer    Issuer
	// Now is the time that nodes have in common.
	Now func() time.Time
	// Past returns the time before which what has ended may be removed, in ms since the Unix epoch; ok
	// is false if a clock has jumped, so that nothing may. If it is nil, Now says it.
	Past func(ctx context.Context) (before int64, ok bool, err error)
	// HasEvents returns why a biz type has no events, a conflict or unknown_biz_type; nil if it has.
	HasEvents func(ctx context.Context, bizType string) error
	// Draining reports whether the node is about to stop. Then it leaves its jobs to others.
	Draining func() bool
	// Served returns how many requests the node has begun to answer. A job goes slowly while they come.
	Served func() int64
	Log    *slog.Logger
	// AtOnce is how many jobs run at once in the cluster; 0 if none runs on this node.
	AtOnce int
	// Most is how many jobs there may be.
	Most int
	// ResultTTL is how long a job is kept after its end.
	ResultTTL time.Duration
}

// Jobs implements [admin.Jobs], and runs jobs.
type Jobs struct {
	opts Options
	wake chan struct{} // has an element if there may be something to do

	mu      sync.Mutex // guards what follows
	here    map[string]bool
	figures Figures
	running sync.WaitGroup // those that are here
}

var _ admin.Jobs = (*Jobs)(nil)

// Figures are what a node measures of jobs.
type Figures struct {
	// Running are those that it runs, and Waiting those that nobody ran when it last looked, although
	// they were due: at most mostDue.
	Running, Waiting int64
	// Done, Failed and Cancelled are totals of those that ended on it, and Numbers of what it issued.
	Done, Failed, Cancelled, Numbers int64
}

// Measure returns the figures of this node.
func (s *Jobs) Measure() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.figures
	f.Running = int64(len(s.here))
	return f
}

// note changes the figures.
func (s *Jobs) note(change func(*Figures)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.figures)
}

// New returns the jobs of a store. [Jobs.Run] runs them.
func New(o Options) *Jobs {
	return &Jobs{opts: o, wake: make(chan struct{}, 1), here: make(map[string]bool)}
}

// Create implements [admin.Jobs].
func (s *Jobs) Create(ctx context.Context, n admin.NewJob) (made admin.Job, created bool, err error) {
	if n.Format == "" {
		n.Format = formatText
	}
	now := s.opts.Now()
	if err := check(n, now); err != nil {
		return made, false, err
	}
	id, request := idOf(n), hashOf(n.Name, n.BizType, n.Key, n.Count, n.Format, n.At.UnixMilli(), n.Every, n.TimeZone)
	var removed persist.Document
	if n.Once != "" {
		if made, removed, err = s.again(ctx, id, request); seqd.CodeOf(err) != seqd.CodeUnknownJob {
			return made, false, err
		}
	}
	switch display, _, err := s.opts.Issuer.Display(ctx, n.BizType, n.Key); {
	case err != nil:
		return made, false, err
	case display == "":
		return made, false, seqd.Errorf(seqd.CodeConflict, "this node cannot say how %s shows its numbers; its log says more", n.BizType)
	}
	left, err := s.room(ctx)
	if err == nil {
		err = left.refuses(n.Owner)
	}
	if err != nil {
		return made, false, failure(err)
	}
	j := &job{
		Name: n.Name, BizType: n.BizType, Key: n.Key, Count: n.Count, Format: n.Format, Owner: n.Owner, Nonce: random(6), Named: n.Once != "", Request: request,
		At: max(n.At.UnixMilli(), now.UnixMilli()), Created: now.UnixMilli(), State: queued, Chunk: mostChunk,
	}
	if n.Every != "" {
		if !n.At.IsZero() {
			j.At = n.At.UnixMilli()
		}
		if err := j.repeats(n.Every, n.TimeZone, now); err != nil {
			return made, false, err
		}
	}
	doc, err := documentOf(id, j, s.opts.ResultTTL)
	if err != nil {
		return made, false, err
	}
	if removed.Revision > 0 {
		if err := s.deletePages(ctx, removed); err != nil {
			return made, false, failure(err)
		}
	}
	doc.Revision = removed.Revision + 1
	err = persist.Put(ctx, s.opts.Documents, doc)
	if persist.Overtaken(err) { // the same request was faster
		made, _, err = s.again(ctx, id, request)
		return made, false, err
	}
	if err != nil {
		return made, false, failure(err)
	}
	s.look()
	return s.shown(id, j, terms.Owner{}), true, nil
}

// check returns what is wrong with a new job.
func check(n admin.NewJob, now time.Time) error {
	control := func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }
	switch {
	case n.BizType == "":
		return seqd.Errorf(seqd.CodeInvalidRequest, "bizType is missing: name the biz type whose numbers the job issues")
	case n.Count < 1 || n.Count > mostCount:
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from 1 to %d", n.Count, mostCount)
	case n.Format != formatText && n.Format != formatCSV && n.Format != formatJSONL:
		return seqd.Errorf(seqd.CodeInvalidRequest, "format: %.40q is not text, csv or jsonl", n.Format)
	case n.At.Sub(now) > mostAhead:
		return seqd.Errorf(seqd.CodeInvalidRequest, "at: %s is more than a year ahead", n.At.UTC().Format(admin.TimeFormat))
	case utf8.RuneCountInString(n.Name) > longestName || strings.ContainsFunc(n.Name, control):
		return seqd.Errorf(seqd.CodeInvalidRequest, "name has more than %d characters, or some that cannot be shown", longestName)
	}
	if err := seqd.CheckName(n.BizType); err != nil {
		return err
	}
	return checkEvery(n, now)
}

// idOf returns the ID of a new job. That of a request that may be repeated is always the same, so
// that creating it is the compare-and-set.
func idOf(n admin.NewJob) string {
	if n.Once != "" {
		return hashOf(ownerID(n.Owner), n.Once)
	}
	return random(16)
}

// ownerID returns what identifies an owner, "" for whoever was not asked for a token.
func ownerID(owner string) string {
	caller := seqd.Caller{Owner: owner}
	return caller.OwnerID()
}

// random returns so many random bytes in hex.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

func hashOf(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // they are texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// again returns the job that a repeated request has made. If that was removed, it returns what the job has
// left.
func (s *Jobs) again(ctx context.Context, id, request string) (made admin.Job, removed persist.Document, err error) {
	j, owner, doc, err := s.read(ctx, id)
	if err != nil {
		return made, doc, err
	}
	if j.Request != request {
		return made, removed, seqd.Errorf(seqd.CodeIdempotencyKeyReused, "this Idempotency-Key was used for another job; a new job needs a new key")
	}
	return s.shown(id, j, owner), removed, nil
}

// room is the room for more jobs.
type room struct {
	left, most int
	has        map[string]int // jobs, by the ID of their owner
}

// room returns how much room there is.
func (s *Jobs) room(ctx context.Context) (room, error) {
	docs, err := s.opts.Documents.List(ctx, kind, "", s.opts.Most)
	r := room{left: s.opts.Most, most: s.opts.Most, has: make(map[string]int)}
	for _, doc := range docs {
		if j, _, err := jobIn(doc); err == nil {
			r.take(j.Owner)
		} else { // removed or damaged
			r.left--
		}
	}
	return r, err
}

// take notes one more job.
func (r *room) take(owner string) {
	r.left--
	r.has[ownerID(owner)]++
}

// refuses returns why an owner gets no other job, nil if it does. Each token has room for half of all
// jobs, so that none keeps the others out.
func (r *room) refuses(owner string) error {
	many := fmt.Sprintf("there are %d jobs, which is the most", r.most)
	if has := r.has[ownerID(owner)]; r.left > 0 {
		if ownerID(owner) == "" || has < (r.most+1)/2 {
			return nil
		}
		many = fmt.Sprintf("the caller has %d jobs, which is the most for one caller", has)
	}
	return &seqd.Error{Code: seqd.CodeTooManyJobs, RetryAfter: time.Minute, Detail: many + ": remove those whose results are not needed any more"}
}

// read returns a job and its owner.
func (s *Jobs) read(ctx context.Context, id string) (*job, terms.Owner, persist.Document, error) {
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return nil, terms.Owner{}, persist.Document{}, noJob(id)
	}
	doc, err := s.opts.Documents.Read(ctx, kind, id)
	if errors.Is(err, persist.ErrNotFound) {
		err = noJob(id)
	}
	if err != nil {
		return nil, terms.Owner{}, doc, failure(err)
	}
	j, owner, err := jobIn(doc)
	if errors.Is(err, errRemoved) {
		err = noJob(id)
	}
	return j, owner, doc, failure(err)
}

// Get implements [admin.Jobs].
func (s *Jobs) Get(ctx context.Context, id string) (admin.Job, error) {
	j, owner, _, err := s.read(ctx, id)
	if err != nil {
		return admin.Job{}, err
	}
	return s.shown(id, j, owner), nil
}

// List implements [admin.Jobs].
func (s *Jobs) List(ctx context.Context, after string, limit int, want func(admin.Job) bool) (list []admin.Job, more bool, err error) {
	for {
		docs, err := s.opts.Documents.List(ctx, kind, after, limit+1)
		if err != nil {
			return nil, false, failure(err)
		}
		for _, doc := range docs {
			after = doc.Key
			j, owner, err := jobIn(doc)
			if err != nil {
				continue // one that is damaged must not hide the others
			}
			if one := s.shown(doc.Key, j, owner); want(one) {
				if list = append(list, one); len(list) > limit {
					return list[:limit], true, nil
				}
			}
		}
		if len(docs) <= limit {
			return list, false, nil
		}
	}
}

// Result implements [admin.Jobs].
func (s *Jobs) Result(ctx context.Context, id string, partial bool) (admin.Job, io.ReadSeeker, error) {
	j, owner, _, err := s.read(ctx, id)
	switch {
	case err != nil:
		return admin.Job{}, nil, err
	case !j.ended():
		return admin.Job{}, nil, &seqd.Error{
			Code: seqd.CodeJobNotDone, Detail: fmt.Sprintf("the job is %s and has issued %d of %d numbers", j.State, j.Done, j.Count), RetryAfter: time.Second,
		}
	case j.State != done && !partial:
		return admin.Job{}, nil, seqd.Errorf(seqd.CodeJobEnded, "the job %s after %d of %d numbers: add partial=true to download these",
			map[string]string{failed: "failed", cancelled: "was cancelled"}[j.State], j.Done, j.Count)
	}
	r := newResult(ctx, id, j, s.opts.Issuer.Show, s.opts.Documents)
	if j.Done > 0 { // so that what is wrong is found before the answer begins
		r.off = int64(len(header(j.Format)))
		if err := r.find(); err != nil {
			return admin.Job{}, nil, failure(err)
		}
		r.off = 0
	}
	return s.shown(id, j, owner), r, nil
}

// Remove implements [admin.Jobs].
func (s *Jobs) Remove(ctx context.Context, id string, may func(admin.Job) error) error {
	j, owner, doc, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	if err := may(s.shown(id, j, owner)); err != nil {
		return err
	}
	if j.ended() {
		return failure(s.delete(ctx, doc, j))
	}
	tells, err := s.tells(ctx, j.BizType)
	if err != nil {
		return failure(err)
	}
	err = s.opts.Terms.Edit(ctx, kind, id, func(state json.RawMessage) (json.RawMessage, int64, error) {
		j, err := decode(id, state)
		if err != nil {
			return nil, 0, err
		}
		if err := may(s.shown(id, j, owner)); err != nil { // it may have ended since
			return nil, 0, err
		}
		if !j.ended() {
			j.stop(s.opts.Now(), s.opts.ResultTTL, tells)
		}
		return j.encode(), j.due(s.opts.ResultTTL), nil
	})
	if errors.Is(err, persist.ErrNotFound) {
		err = noJob(id)
	}
	s.look()
	return failure(err)
}

// goneFor is for how long a removed job leaves its document: longer than a removal can be late.
const goneFor = time.Minute

// delete removes a job that has ended. From the first write on nobody finds it, so nobody sees one without
// its pages. The document stays for a while: if not all pages could be removed, it says which are left,
// and if the job is made again under its ID, the revision goes on, so that a removal that comes late, or
// is repeated, removes no other job.
func (s *Jobs) delete(ctx context.Context, doc persist.Document, j *job) error {
	if err := s.copyEvent(ctx, doc.Key, j); err != nil {
		return err
	}
	doc = remainsOf(doc, j, s.opts.Now().Add(goneFor))
	if err := s.opts.Documents.Update(ctx, doc); err != nil {
		return notFoundIsFine(err)
	}
	if j.Named {
		return s.deletePages(ctx, doc)
	}
	return s.deleteRemains(ctx, doc)
}

// deleteRemains deletes what a job has left that was removed.
func (s *Jobs) deleteRemains(ctx context.Context, doc persist.Document) error {
	if err := s.deletePages(ctx, doc); err != nil {
		return err
	}
	return notFoundIsFine(s.opts.Documents.Delete(ctx, kind, doc.Key, doc.Revision))
}

// deletePages deletes the pages of a job that was removed.
func (s *Jobs) deletePages(ctx context.Context, doc persist.Document) error {
	var left remains
	if err := json.Unmarshal([]byte(doc.Body), &left); err != nil || left.Pages == "" {
		return err
	}
	for page, err := range persist.DocumentsUnder(ctx, s.opts.Documents, pageKind, left.Pages) {
		if err == nil {
			err = notFoundIsFine(s.opts.Documents.Delete(ctx, pageKind, page.Key, page.Revision))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notFoundIsFine returns err unless it says that what was to be deleted is gone.
func notFoundIsFine(err error) error {
	if errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	return err
}

// Shown returns the ID of a job whose result cannot be shown any more once its biz type shows
// numbers in another way than display did, "" if there is none.
func (s *Jobs) Shown(ctx context.Context, bizType, display string) (id string, err error) {
	now := s.opts.Now().UnixMilli()
	for doc, err := range persist.EveryDocument(ctx, s.opts.Documents, kind) {
		if err != nil {
			return "", err
		}
		j, _, err := jobIn(doc)
		if err != nil || j.BizType != bizType || j.Display == "" || j.Display == display {
			continue
		}
		if !j.ended() || j.Done > 0 && j.expires(s.opts.ResultTTL) > now {
			return doc.Key, nil
		}
	}
	return "", nil
}

// shown returns a job as callers see it.
func (s *Jobs) shown(id string, j *job, owner terms.Owner) admin.Job {
	shown := admin.Job{
		ID: id, Name: j.Name, BizType: j.BizType, Key: j.Key, Count: j.Count, Format: j.Format, State: j.State, Done: j.Done,
		At: admin.Time(j.At), CreatedAt: admin.Time(j.Created), Owner: j.Owner, Every: j.Every, TimeZone: j.Zone, Schedule: j.Schedule, Missed: j.Missed,
	}
	if j.Started > 0 {
		shown.StartedAt = admin.Time(j.Started)
		shown.Rate = j.Done * 1000 / max(1, j.Updated-j.Started)
	}
	switch {
	case j.ended():
		shown.EndedAt, shown.ExpiresAt = admin.Time(j.Ended), admin.Time(j.expires(s.opts.ResultTTL))
	case j.State == running:
		shown.Node = terms.NodeOf(owner.Session)
		if shown.Rate > 0 {
			shown.SecondsLeft = new((j.Count - j.Done) / shown.Rate)
		}
	}
	if j.State == failed {
		shown.Error = &admin.JobError{Code: j.Code, Detail: j.Detail}
	}
	return shown
}

// failure returns what callers see of an error of the store, nil for nil.
func failure(err error) error {
	if _, known := errors.AsType[*seqd.Error](err); !known && errors.Is(err, persist.ErrConflict) {
		return seqd.Errorf(seqd.CodePreconditionFailed, "the job was changed meanwhile")
	}
	return storeerror.Of(err, "the job", "jobs")
}
