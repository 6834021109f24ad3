package terms

import "github.com/seqd/seqd/internal/sabotage"

// Owner says who may do a work. It is in the body of the work's document.
type Owner struct {
	// Term is 1 more with each take. After a failover that lost a take, another session can get the
	// same term: so compare Term and Session together.
	Term int64 `json:"term"`
	// Session is the key of the session that owns the work, "" for nobody.
	Session string `json:"session,omitempty"`
}

// taken is K2, take: it returns the owner after the session by has taken the work. dead is true if
// the present owner's session had no document when it was read, which was after the work was read.
// ok is false if the work may not be taken.
func (o Owner) taken(by string, dead bool) (next Owner, ok bool) {
	if o.Session != "" && !dead && !sabotage.Off(sabotage.TermTaken) {
		return o, false
	}
	return Owner{Term: o.Term + 1, Session: by}, true
}
