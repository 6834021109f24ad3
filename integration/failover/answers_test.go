package failover

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/node"
)

// post asks for three numbers with an Idempotency-Key, and returns them as text.
func (p *pair) post(n *node.Node, key string) string {
	p.t.Helper()
	answer, err := n.Do(http.MethodPost, "/seq/order?count=3", "", "Idempotency-Key", key)
	if err != nil || answer.Status != http.StatusOK {
		p.t.Fatalf("%s: %+v, %v\n%s", key, answer, err, n.Log())
	}
	var body struct{ IDs []string }
	if err := json.Unmarshal([]byte(answer.Body), &body); err != nil || len(body.IDs) != 3 {
		p.t.Fatalf("%s: %s, %v", key, answer.Body, err)
	}
	return strings.Join(body.IDs, " ")
}

// Answers that the standby has are repeated after a failover. Those that it never got are
// forgotten: their keys get other numbers, which no other key ever got.
func TestAnswersAfterAFailover(t *testing.T) {
	onBoth(t, func(p *pair) {
		env := settings("per-node")
		a := p.start("a", env...)
		kept, lost := make(map[string]string), make(map[string]string)
		for i := range 20 {
			key := fmt.Sprint("kept", i)
			kept[key] = p.post(a, key)
		}
		p.reach()
		p.standby.Detach()
		for i := range 200 {
			key := fmt.Sprint("lost", i)
			lost[key] = p.post(a, key)
		}
		a.Kill()
		p.cutOff()
		b := p.start("b", env...)
		owner := make(map[string]string) // by number
		twice := 0
		claim := func(key, numbers string) {
			for number := range strings.FieldsSeq(numbers) {
				if other, known := owner[number]; known && other != key {
					if twice++; twice <= 5 {
						p.t.Errorf("%s and %s both got %s", other, key, number)
					}
				}
				owner[number] = key
			}
		}
		for key, numbers := range kept {
			if again := p.post(b, key); again != numbers {
				p.t.Errorf("%s got %s, and %s after the failover", key, numbers, again)
			}
			claim(key, numbers)
		}
		forgotten := 0
		for key, numbers := range lost {
			claim(key, numbers)
			again := p.post(b, key)
			if again != numbers {
				forgotten++
			}
			claim(key, again)
			if third := p.post(b, key); third != again {
				p.t.Errorf("%s got %s and then %s from the same server", key, again, third)
			}
		}
		if forgotten != len(lost) {
			p.t.Errorf("%d of %d answers were forgotten: this tests less than it should", forgotten, len(lost))
		}
		b.Stop()
	})
}
