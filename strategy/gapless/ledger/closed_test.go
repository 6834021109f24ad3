package ledger

import (
	"testing"

	"github.com/seqd/seqd"
)

// After Recall found nothing, the same request is carried out no more, also by another node and
// after a restart. What was carried out before is found, and requests without Once are not refused.
func TestClosed(t *testing.T) {
	docs := newDocs()
	one, two := newNode(t, docs, "one"), newNode(t, docs, "two")
	one.want(Op{Kind: Issue, Count: 1, Once: "before"}, "", Run{1, 1})
	for range 2 {
		if res := two.want(Op{Kind: Issue, Count: 1, Once: "late", Recall: true}, ""); len(res.Runs) > 0 {
			t.Fatalf("Recall hands out %v", res.Runs)
		}
	}
	for _, n := range []*node{one, two, newNode(t, docs, "three")} {
		n.want(Op{Kind: Issue, Count: 1, Once: "late"}, seqd.CodeStarting)
		n.want(Op{Kind: Reserve, ID: id(1), Count: 1, Once: "later"}, seqd.CodeStarting)
		n.want(Op{Kind: Issue, Count: 1, Once: "before"}, "", Run{1, 1})
		n.want(Op{Kind: Issue, Count: 1, Once: "before", Recall: true}, "", Run{1, 1})
	}
	one.want(Op{Kind: Issue, Count: 1}, "", Run{2, 2})
	one.check()
}
