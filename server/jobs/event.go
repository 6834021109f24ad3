package jobs

import (
	"context"
	"encoding/json"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// event returns the batch of the event that tells of the end of a job. It is the only one of its
// source, and always the same.
func (j *job) event(id string) (persist.Document, error) {
	code := ""
	if j.State == failed {
		code = j.Code
	}
	data, err := json.Marshal(struct {
		Job   string `json:"job"`
		Name  string `json:"name,omitempty"`
		State string `json:"state"`
		Count int64  `json:"count"`
		Done  int64  `json:"done"`
		Code  string `json:"code,omitempty"`
	}{id, j.Name, j.State, j.Count, j.Done, code})
	if err != nil {
		return persist.Document{}, err
	}
	b := persist.EventBatch{
		BizType: j.BizType, Source: "job/" + id + "/" + j.Nonce, Key: j.Key, First: 1, Final: true,
		Events: []persist.SourceEvent{{Type: persist.EventJob, At: j.Ended, Data: data}},
	}
	return b.Document()
}

// tells reports whether a biz type has events.
func (s *Jobs) tells(ctx context.Context, bizType string) (bool, error) {
	err := s.opts.HasEvents(ctx, bizType)
	if code := seqd.CodeOf(err); code == seqd.CodeConflict || code == seqd.CodeUnknownBizType {
		return false, nil
	}
	return err == nil, err
}

// tell copies the event of a job that has ended (V1), and notes that. The write that ended the job
// says that there is one, so nothing is lost if a node is killed before or within tell: the job stays
// due, and each node that finds it does this. The node that ended it looks at once. A job is removed
// after its event was copied: see [Jobs.delete].
func (s *Jobs) tell(ctx context.Context, id string, j *job) error {
	if err := s.copyEvent(ctx, id, j); err != nil {
		return err
	}
	return s.opts.Terms.Edit(ctx, kind, id, func(state json.RawMessage) (json.RawMessage, int64, error) {
		now, err := decode(id, state)
		if err != nil {
			return nil, 0, err
		}
		if now.Nonce == j.Nonce { // otherwise it is another one by now
			now.Untold = false
		}
		return now.encode(), now.due(s.opts.ResultTTL), nil
	})
}

// copyEvent copies the event of a job, if there is one that is not copied yet.
func (s *Jobs) copyEvent(ctx context.Context, id string, j *job) error {
	if !j.Untold {
		return nil
	}
	doc, err := j.event(id)
	if err == nil {
		err = s.opts.Documents.Keep(ctx, []persist.Document{doc})
	}
	return err
}
