package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seqd/seqd"
)

const (
	// mostChunk is how many numbers are issued at once. That many are skipped at most if a node is
	// killed.
	mostChunk = 100_000
	// mostTail is how many runs the document of a job has at most; those above go to pages of
	// mostInPage. A job has at most mostPages.
	mostTail   = 1000
	mostInPage = 5000
	mostPages  = 5000
)

// States of a job.
const (
	queued    = "queued"
	running   = "running"
	done      = "done"
	failed    = "failed"
	cancelled = "cancelled"
)

// job is the state of a job, as its document has it. Its methods decide and do no I/O.
type job struct {
	// Version is that of the format.
	Version int    `json:"version"`
	Name    string `json:"name,omitempty"`
	BizType string `json:"bizType"`
	Key     string `json:"key,omitempty"`
	Count   int64  `json:"count"`
	Format  string `json:"format"`
	// Owner is the owner of who made the job; see [seqd.Caller].
	Owner string `json:"owner,omitempty"`
	// Nonce differs if a job that was removed is made again under its ID, as one that is Named is by a
	// repeated request or its schedule: see [job.once] and [job.under].
	Nonce string `json:"nonce,omitempty"`
	Named bool   `json:"named,omitempty"`
	// Every is day, week or month for a schedule, whose first job was due at First, by the clock of
	// Zone; it has made Times jobs, or left them out, of which it missed Missed. Schedule is the ID of the
	// schedule that made a job.
	Every    string `json:"every,omitempty"`
	Zone     string `json:"zone,omitempty"`
	First    int64  `json:"first,omitempty"`
	Times    int64  `json:"times,omitempty"`
	Missed   int64  `json:"missed,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	// Request is a hash of what the caller asked for.
	Request string `json:"request,omitempty"`
	// At, Created, Started, Ended and Updated are in ms since the Unix epoch, 0 for not yet. At is
	// when the job is due.
	At      int64 `json:"at"`
	Created int64 `json:"created"`
	Started int64 `json:"started,omitempty"`
	Ended   int64 `json:"ended,omitempty"`
	Updated int64 `json:"updated,omitempty"`
	// Expires is until when the job is kept after its end, in ms since the Unix epoch. What callers
	// were told counts, whatever the settings say by then.
	Expires int64 `json:"expires,omitempty"`
	// Untold is true if the job has ended and its event is not copied yet: see [Jobs.tell].
	Untold bool `json:"untold,omitempty"`

	State string `json:"state"`
	// Display is how the numbers are shown, as the job found it when it began; see
	// [issuer.Definition]. Without it the job has not begun.
	// Refused is the last one with which the first chunk was refused.
	Display string `json:"display,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Ledger is true if each number of the biz type is accounted for. Then a chunk that was issued and
	// not written must be asked for again, or there would be a gap.
	Ledger bool `json:"ledger,omitempty"`
	// Chunk is how many numbers are issued at once, and Chunks how often that was.
	Chunk  int   `json:"chunk"`
	Chunks int64 `json:"chunks,omitempty"`
	// TooMany are how many numbers of the next chunk were refused as too many, if the job has a Ledger.
	// The ledger may have issued the chunk in one of these counts, before a limit was lowered: Issued is
	// true once it said so. Then it must be asked for that count.
	TooMany []int `json:"tooMany,omitempty"`
	Issued  bool  `json:"issued,omitempty"`
	Done    int64 `json:"done,omitempty"`
	// Cancel is true if the job is to end, once it has more chunks than CancelAt if it has a Ledger.
	Cancel   bool   `json:"cancel,omitempty"`
	CancelAt int64  `json:"cancelAt,omitempty"`
	Code     string `json:"code,omitempty"`
	Detail   string `json:"detail,omitempty"`
	// Pages and then Tail are what was issued.
	Pages []page  `json:"pages,omitempty"`
	Tail  []block `json:"tail,omitempty"`
}

// action is what to do next for a job.
type action int

const (
	// begin finds out how the numbers are shown; then call [job.begun].
	begin action = iota
	// issue issues [job.next] numbers; then call [job.issued] or [job.refused].
	issue
	// end ends the job as done or cancelled: call [job.end].
	end
	// nothing is left to do.
	nothing
)

// due is when something is to be done for the job, in ms since the Unix epoch.
func (j *job) due(resultTTL time.Duration) int64 {
	switch {
	case j.Untold: // before all jobs that wait
		return 1
	case j.ended():
		return j.expires(resultTTL)
	}
	return max(1, j.At, j.Created)
}

// expires is until when a job that has ended is kept, in ms since the Unix epoch.
func (j *job) expires(resultTTL time.Duration) int64 {
	return cmp.Or(j.Expires, j.Ended+resultTTL.Milliseconds())
}

func (j *job) ended() bool { return j.Ended != 0 }

// act returns what to do next.
func (j *job) act() action {
	switch {
	case j.ended():
		return nothing
	case j.Display == "" && !j.Cancel:
		return begin
	case j.Done >= j.Count, j.Cancel && (!j.Ledger || j.Chunks > j.CancelAt):
		return end
	}
	return issue
}

// next returns how many numbers the next chunk has. It only depends on what was written, so that the
// next owner of the job asks for the same chunk.
func (j *job) next() int { return int(min(int64(j.Chunk), j.Count-j.Done)) }

// once returns what identifies the next chunk of a job. A ledger keeps the answers to a job that was
// removed, so one that was made again under the same ID must not ask in the same words.
func (j *job) once(id string) string {
	return "job/" + id + "/" + j.Nonce + "/" + strconv.FormatInt(j.Chunks, 10)
}

// begun notes how the numbers are shown.
func (j *job) begun(display string, ledger bool, now time.Time) {
	j.State, j.Display, j.Ledger = running, display, ledger
	if j.Started == 0 {
		j.Started = now.UnixMilli()
	}
	j.Updated = now.UnixMilli()
}

// issued adds a chunk. The pages must be in the store before the job is written.
func (j *job) issued(b block, now time.Time) (full []pageBody) {
	j.Chunks, j.Done, j.Updated = j.Chunks+1, j.Done+b.count(), now.UnixMilli()
	j.TooMany, j.Issued = nil, false
	j.Tail = join(j.Tail, b)
	if runsOf(j.Tail) > mostTail {
		full = j.turn()
	}
	if len(j.Pages) > mostPages {
		j.fail(seqd.Errorf(seqd.CodeConflict, "the numbers of %s are in too many pieces: make smaller jobs", j.BizType))
	}
	return full
}

// turn moves the tail to pages.
func (j *job) turn() (full []pageBody) {
	for _, blocks := range cut(j.Tail, mostInPage) {
		b := pageBody{blocks: blocks}
		full = append(full, b)
		j.Pages = append(j.Pages, b.page())
	}
	j.Tail = nil
	return full
}

// refused notes that the next numbers were refused. It returns for how long to wait before they are
// asked for again, which must not be before the job is written.
func (j *job) refused(err *seqd.Error) (wait time.Duration) {
	switch m, _ := err.Code.Meaning(); {
	case err.Code == seqd.CodeIdempotencyKeyReused && len(j.TooMany) > 0:
		n := len(j.TooMany) - 1
		j.Chunk, j.TooMany, j.Issued = j.TooMany[n], j.TooMany[:n], true
		return 0
	case err.Code == seqd.CodeInvalidCount && j.Issued && !j.Cancel: // until the limit allows it again
		return 10 * time.Second
	case err.Code == seqd.CodeInvalidCount && !j.Issued && j.next() > 1:
		if j.Ledger {
			j.TooMany = append(j.TooMany, j.next())
		}
		j.Chunk = (j.next() + 1) / 2
		return 0
	case err.Code == seqd.CodeConflict && !isOfNode(err) && j.Done == 0 && j.Display != j.Refused && !j.Cancel:
		// The biz type may have been changed since the job found out how its numbers are shown.
		j.Refused, j.Display = j.Display, ""
		return time.Second
	case m.Status == 429, m.Status == 503, m.Status == 507, err.Code == seqd.CodeStoreFailedOver, isOfNode(err):
		return min(max(err.RetryAfter, 100*time.Millisecond), 10*time.Second)
	}
	j.fail(err)
	return 0
}

// isOfNode reports whether it is this node that cannot use the biz type, such as because it has no
// key file. Another one may.
func isOfNode(err *seqd.Error) bool { return err.Code == seqd.CodeConflict && err.RetryAfter > 0 }

// fail says that the job cannot go on. [job.end] ends it.
func (j *job) fail(err *seqd.Error) {
	j.Code, j.Detail = string(err.Code), err.Detail
	j.Cancel, j.CancelAt = true, -1
}

// stop asks for the end of a job. A job that has not begun ends at once; tells is that of [job.end].
func (j *job) stop(now time.Time, resultTTL time.Duration, tells bool) {
	if !j.Cancel {
		j.Cancel, j.CancelAt = true, j.Chunks
	}
	if j.Display == "" {
		j.end(now, resultTTL, tells)
	}
}

// end ends the job. The pages must be in the store before it is written. tells is whether its biz type
// has events: then the same write says that there is one to copy.
func (j *job) end(now time.Time, resultTTL time.Duration, tells bool) (full []pageBody) {
	j.State = done
	if j.Done < j.Count {
		j.State = cancelled
		if j.Code != "" {
			j.State = failed
		}
	}
	j.Ended = max(1, now.UnixMilli())
	j.Expires = j.Ended + resultTTL.Milliseconds()
	j.Untold = tells && j.Every == ""
	return j.turn()
}

// page is where a page of the result is.
type page struct {
	// Mark is a hash of the page. So pages of two nodes that believe that the job is theirs differ, and
	// only that counts which the document of the job names.
	Mark  string `json:"mark"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"`
}

// under is how the keys of the pages of a job begin. Whoever removes a job that was removed already,
// and made again, leaves those of the new one.
func (j *job) under(id string) string { return id + "/" + j.Nonce + "/" }

// key returns the key of page n of a job.
func (p page) key(under string, n int) string { return fmt.Sprintf("%s%06d-%s", under, n, p.Mark) }

// size returns how many bytes the result has.
func (j *job) size() (n int64) {
	n = int64(len(header(j.Format)))
	for _, p := range j.Pages {
		n += p.Bytes
	}
	for _, b := range j.Tail {
		n += b.Bytes
	}
	return n
}

// block is numbers that are shown with the same time and belong to the same period.
type block struct {
	// Made is when they were made, in seconds since the Unix epoch.
	Made   int64       `json:"made"`
	Period seqd.Period `json:"period,omitempty"`
	// Length is how many bytes the line of each of them has, 0 if they differ. Bytes is the sum.
	Length int64 `json:"length,omitempty"`
	Bytes  int64 `json:"bytes"`
	Runs   []run `json:"runs"`
}

// run is the first number, how many there are, and how far they are apart.
type run [3]int64

func (b *block) count() (n int64) {
	for _, r := range b.Runs {
		n += r[1]
	}
	return n
}

// join adds a block at the end of blocks. It becomes part of the last one if that can still be read
// from anywhere: both have lines of the same length.
func join(blocks []block, b block) []block {
	n := len(blocks)
	if n == 0 || b.Length == 0 || blocks[n-1].Length != b.Length || blocks[n-1].Made != b.Made || blocks[n-1].Period != b.Period {
		return append(blocks, b)
	}
	last := &blocks[n-1]
	last.Bytes += b.Bytes
	for _, r := range b.Runs {
		if end := &last.Runs[len(last.Runs)-1]; end[2] == r[2] && end[0]+end[1]*end[2] == r[0] {
			end[1] += r[1]
		} else {
			last.Runs = append(last.Runs, r)
		}
	}
	return blocks
}

func runsOf(blocks []block) (n int) {
	for _, b := range blocks {
		n += len(b.Runs)
	}
	return n
}

// cut divides blocks into lists with at most so many runs, except that a block whose lines differ in
// length, which only its chunk can say, stays whole.
func cut(blocks []block, most int) (lists [][]block) {
	var list []block
	has := 0
	for _, b := range blocks {
		for _, part := range b.split(most) {
			if has > 0 && has+len(part.Runs) > most {
				lists, list, has = append(lists, list), nil, 0
			}
			list, has = append(list, part), has+len(part.Runs)
		}
	}
	if has > 0 {
		lists = append(lists, list)
	}
	return lists
}

func (b block) split(most int) (parts []block) {
	if b.Length == 0 {
		return []block{b}
	}
	for runs := range slices.Chunk(b.Runs, most) {
		part := b
		part.Runs = runs
		part.Bytes = part.count() * b.Length
		parts = append(parts, part)
	}
	return parts
}
