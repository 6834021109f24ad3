package figures

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/logging"
	"github.com/seqd/seqd/server/nodes"
)

const (
	// kind is the kind of the documents, whose keys are the IDs of the nodes.
	kind = "figures"
	// life is how long a document is kept: until all its points are too old.
	life = intervals * intervalLength * time.Millisecond
	// mostNodes is how many documents are read.
	mostNodes = 1000
	// writePatience bounds a write, leavePatience the last one.
	writePatience = 4 * time.Second
	leavePatience = time.Second
	// purgePause is how many writes are between two attempts to remove old documents.
	purgePause = minute
)

// write writes the report each time it is due, and removes those that are old, until ctx ends. Then
// it says that this node has stopped.
func (f *Figures) write(ctx context.Context, due <-chan struct{}) {
	own := nodes.Own{Documents: f.opts.Documents, Kind: kind, Key: f.opts.ID}
	writing := logging.Trouble{Log: f.opts.Log, Begins: "this node cannot tell the others its figures; it is tried again"}
	purging := logging.Trouble{Log: f.opts.Log, Begins: "old figures cannot be removed from the store; it is tried again"}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			f.leave(&own)
			return
		case <-due:
		}
		err := f.put(ctx, &own, writePatience, false)
		note(ctx, &writing, err)
		if err != nil {
			f.noteOutage()
		}
		if err == nil && n%purgePause == 0 && f.opts.ClockKnown() {
			_, err = f.opts.Documents.Purge(ctx, kind, f.opts.Clock().UnixMilli(), mostNodes)
			note(ctx, &purging, err)
		}
	}
}

// note notes an outcome, unless it is due to the end of ctx.
func note(ctx context.Context, t *logging.Trouble, err error) {
	if ctx.Err() == nil {
		t.Note(err)
	}
}

// put writes the report.
func (f *Figures) put(ctx context.Context, own *nodes.Own, patience time.Duration, left bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := f.report()
	r.Left = left
	body, err := r.write()
	if err != nil {
		return err
	}
	return own.Write(ctx, body, f.opts.Clock(), life)
}

// leave says that this node has stopped. Its points stay.
func (f *Figures) leave(own *nodes.Own) {
	if !own.Written() {
		return
	}
	if err := f.put(context.Background(), own, leavePatience, true); err != nil {
		f.opts.Log.Debug("this node could not say that it has no more figures", "error", err)
	}
}

// readReports returns the reports of the other nodes. Documents that are damaged are left out.
func (f *Figures) readReports(docs []persist.Document) (list []*report) {
	now := f.opts.Clock().UnixMilli()
	for _, doc := range docs {
		if doc.Key == f.opts.ID || doc.Expires < now {
			continue
		}
		if r, err := readReport(doc.Key, doc.Body); err == nil {
			list = append(list, r)
		}
	}
	return list
}
