package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Formats of a result.
const (
	formatText  = "text"
	formatCSV   = "csv"
	formatJSONL = "jsonl"
)

// header returns what a result begins with.
func header(format string) string {
	if format == formatCSV {
		return "id\n"
	}
	return ""
}

// appendLine appends the line of an ID.
func appendLine(dst []byte, format string, shown []byte) []byte {
	switch format {
	case formatCSV:
		if bytes.ContainsAny(shown, "\",\r\n ") {
			var buf bytes.Buffer
			w := csv.NewWriter(&buf)
			_ = w.Write([]string{string(shown)}) // a buffer takes everything
			w.Flush()
			return append(dst, buf.Bytes()...)
		}
	case formatJSONL:
		dst = append(dst, `{"id":`...)
		dst = append(appendJSON(dst, shown), '}')
		return append(dst, '\n')
	}
	return append(append(dst, shown...), '\n')
}

// appendJSON appends a text as JSON.
func appendJSON(dst, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(string(text))
			if err != nil {
				panic(err) // a text is JSON
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// blockOf returns the block of numbers that were just issued.
func blockOf(seq *seqd.Sequence, format string, made time.Time) block {
	b := block{Made: made.Unix(), Period: seq.Period()}
	if t := seq.Made(); !t.IsZero() { // as it is when an earlier answer is repeated
		b.Made = t.Unix()
	}
	for _, r := range seq.Runs() {
		b.Runs = append(b.Runs, run{r.First, int64(r.Count), r.Stride})
	}
	var line []byte
	first := true
	for shown := range seq.Displays() {
		line = appendLine(line[:0], format, shown)
		n := int64(len(line))
		if b.Bytes += n; first {
			b.Length, first = n, false
		} else if n != b.Length {
			b.Length = 0
		}
	}
	return b
}

// fill adds count numbers of a block, from number i on, to an empty sequence.
func (b *block) fill(seq *seqd.Sequence, key string, i, count int64) {
	seq.For(key)
	seq.In(b.Period)
	seq.MadeAt(time.Unix(b.Made, 0))
	for _, r := range b.Runs {
		if count == 0 {
			return
		}
		if i >= r[1] {
			i -= r[1]
			continue
		}
		n := min(count, r[1]-i)
		seq.Add(r[0]+i*r[2], int(n), r[2])
		i, count = 0, count-n
	}
}

// pageBody is the body of a page.
type pageBody struct{ blocks []block }

func (p pageBody) text() string {
	text, err := json.Marshal(p.blocks)
	if err != nil {
		panic(err) // they are numbers
	}
	return string(text)
}

func (p pageBody) page() page {
	sum := sha256.Sum256([]byte(p.text()))
	made := page{Mark: hex.EncodeToString(sum[:8])}
	for i := range p.blocks {
		made.Count += p.blocks[i].count()
		made.Bytes += p.blocks[i].Bytes
	}
	return made
}

// inPart is about how many bytes of a result are shown at once. Who downloads a result and does not read
// it keeps so many in memory.
const inPart = 64 << 10

// shower shows the numbers of call.Sequence; see [issuer.Issuer.Show].
type shower func(ctx context.Context, call *seqd.Call) error

// result reads the result of a job. It holds one page, and inPart of text.
type result struct {
	ctx  context.Context
	id   string
	job  *job
	show shower
	docs persist.Documents

	size int64
	off  int64 // where the next Read reads

	loaded int     // the page that blocks is, −1 for none; after the last page comes the tail
	blocks []block // of it
	text   []byte  // a part of the result
	at     int64   // where the text begins
	in     *block  // that was shown last: number inNext of it is at inAt
	inNext int64
	inAt   int64
	call   seqd.Call
}

var _ io.ReadSeeker = (*result)(nil)

func newResult(ctx context.Context, id string, j *job, show shower, docs persist.Documents) *result {
	r := &result{ctx: ctx, id: id, job: j, show: show, docs: docs, size: j.size(), loaded: -1}
	r.text = []byte(header(j.Format))
	return r
}

// Seek implements [io.Seeker].
func (r *result) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.off
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("the offset is negative")
	}
	r.off = offset
	return offset, nil
}

// Read implements [io.Reader].
func (r *result) Read(p []byte) (int, error) {
	if r.off >= r.size {
		return 0, io.EOF
	}
	if r.off < r.at || r.off >= r.at+int64(len(r.text)) {
		if err := r.find(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.text[r.off-r.at:])
	r.off += int64(n)
	return n, nil
}

// find makes text the part in which the offset is.
func (r *result) find() error {
	at := int64(len(header(r.job.Format)))
	if r.off < at {
		r.text, r.at = []byte(header(r.job.Format)), 0
		return nil
	}
	n := 0
	for ; n < len(r.job.Pages) && r.off >= at+r.job.Pages[n].Bytes; n++ {
		at += r.job.Pages[n].Bytes
	}
	if err := r.load(n); err != nil {
		return err
	}
	for i := range r.blocks {
		b := &r.blocks[i]
		if r.off < at+b.Bytes {
			return r.part(b, at)
		}
		at += b.Bytes
	}
	return r.damaged("it ends too early")
}

// load reads a page.
func (r *result) load(n int) error {
	switch {
	case n == r.loaded:
		return nil
	case n == len(r.job.Pages):
		r.blocks, r.loaded = r.job.Tail, n
		return nil
	}
	doc, err := r.docs.Read(r.ctx, pageKind, r.job.Pages[n].key(r.job.under(r.id), n))
	if errors.Is(err, persist.ErrNotFound) {
		return noJob(r.id) // it was removed meanwhile
	}
	if err != nil {
		return err
	}
	r.blocks, r.loaded = nil, -1
	if err := json.Unmarshal([]byte(doc.Body), &r.blocks); err != nil {
		return r.damaged(err.Error())
	}
	r.loaded = n
	return nil
}

// part makes text the part of a block, which begins at a place, in which the offset is.
func (r *result) part(b *block, at int64) error {
	count, i := b.count(), int64(0)
	switch {
	case b.Length > 0:
		i = (r.off - at) / b.Length
		at += i * b.Length
	case r.in == b && r.off >= r.inAt:
		i, at = r.inNext, r.inAt
	}
	for i < count {
		n := min(max(1, inPart*count/b.Bytes), count-i)
		if err := r.render(b, i, n); err != nil {
			return err
		}
		if b.Length > 0 && int64(len(r.text)) != n*b.Length {
			return r.damaged("lines have another length")
		}
		r.at = at
		i, at = i+n, at+int64(len(r.text))
		r.in, r.inNext, r.inAt = b, i, at
		if r.off < at {
			return nil
		}
	}
	return r.damaged("a block ends too early")
}

// render shows numbers of a block.
func (r *result) render(b *block, i, n int64) error {
	c := &r.call
	c.BizType, c.Key, c.Display = r.job.BizType, r.job.Key, r.job.Display
	c.Sequence.Reset()
	b.fill(&c.Sequence, r.job.Key, i, n)
	if err := r.show(r.ctx, c); err != nil {
		return err
	}
	r.text = r.text[:0]
	if r.job.Format == formatText { // as below, and faster
		r.text = append(c.Sequence.AppendIDs(r.text, "", "", "\n"), '\n')
		return nil
	}
	for shown := range c.Sequence.Displays() {
		r.text = appendLine(r.text, r.job.Format, shown)
	}
	return nil
}

func (r *result) damaged(why string) error {
	return fmt.Errorf("%w: the result of job %s is damaged: page %d: %s", persist.ErrInvalid, r.id, r.loaded, why)
}

// noJob is the error for a job that does not exist.
func noJob(id string) *seqd.Error {
	return seqd.Errorf(seqd.CodeUnknownJob, "there is no job %.40q: it may have been removed, or its result has expired", id)
}
