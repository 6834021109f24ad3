package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// administer changes two biz types under load: one is raised, disabled and enabled, the other
// deleted and created again.
func (l *Load) administer(ctx context.Context, d *Dice) {
	for ctx.Err() == nil {
		r := d.Next()
		pause := 300*time.Millisecond + UpTo(r, 1500*time.Millisecond)
		switch r.IntN(5) {
		case 0, 1:
			l.patch(ctx, r, d.round)
		case 2, 3:
			if l.Change(ctx, Pick(r, l.Nodes), MutableName, http.MethodPost, "/disable", "") {
				l.rest(ctx, UpTo(r, 400*time.Millisecond))
			}
			l.UntilDone(ctx, r, MutableName, http.MethodPost, "/enable", "")
		default:
			l.Change(ctx, Pick(r, l.Nodes), TemporaryName, http.MethodDelete, "", "")
			l.rest(ctx, UpTo(r, 300*time.Millisecond))
			l.UntilDone(ctx, r, TemporaryName, http.MethodPut, "", l.Definition(TemporaryName, nil))
		}
		l.rest(ctx, pause)
	}
}

// patch raises the counter, or changes the step.
func (l *Load) patch(ctx context.Context, r *rand.Rand, round uint64) {
	body := fmt.Sprintf(`{"step":%d}`, 50+r.IntN(400))
	if r.IntN(2) == 0 {
		body = fmt.Sprintf(`{"start":%d}`, round*50_000)
	}
	l.Change(ctx, Pick(r, l.Nodes), MutableName, http.MethodPatch, "", body)
}

// UntilDone repeats a change until a node has made it.
func (l *Load) UntilDone(ctx context.Context, r *rand.Rand, name, method, path, body string) {
	for ctx.Err() == nil && !l.Change(ctx, Pick(r, l.Nodes), name, method, path, body) {
		Rest(ctx, 300*time.Millisecond)
	}
}

// Definition returns the configured definition of a biz type without its name, with some Settings
// changed.
func (l *Load) Definition(name string, but Settings) string {
	rest := maps.Clone(l.Shape(name).Setting)
	delete(rest, "name")
	maps.Copy(rest, but)
	text, _ := json.Marshal(rest) // cannot fail: it was marshaled for the configuration
	return string(text)
}

// Shape returns the biz type with a name, which must be under load.
func (l *Load) Shape(name string) *Shape {
	for i := range l.Shapes {
		if l.Shapes[i].Name == name {
			return &l.Shapes[i]
		}
	}
	panic("no shape has the name " + name)
}

// Change requests a change from a node and reports whether it was made.
func (l *Load) Change(ctx context.Context, n Node, name, method, path, body string) bool {
	c := &record.Call{Node: n.Name(), BizType: name, Kind: record.Admin, Key: strings.TrimSpace(method + path + " " + summary(body))}
	ctx, cancel := context.WithTimeout(ctx, LongPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+"/biz-types/"+name+path, strings.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	life := n.Life()
	c.Start = l.Journal.Now()
	resp, err := l.HTTP.Do(req)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	c.End = l.Journal.Now()
	if life == n.Life() {
		c.Life = life
	}
	if err != nil {
		c.Code = Complaint(err)
	} else {
		var problem struct{ Code string }
		_ = json.Unmarshal(answer, &problem) // answers of 204 are empty
		c.Status, c.Code = resp.StatusCode, problem.Code
	}
	l.Journal.Call(c)
	gone := method == http.MethodDelete && c.Status == http.StatusNotFound // one whose answer was lost has done it
	return gone || c.Status >= 200 && c.Status < 300
}

// summary formats a body for the record, such as start=700000. That of a whole definition is empty.
func summary(body string) string {
	fields := map[string]any{}
	if json.Unmarshal([]byte(body), &fields) != nil || len(fields) > 2 {
		return ""
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if number, is := fields[key].(float64); is {
			parts = append(parts, fmt.Sprintf("%s=%.0f", key, number))
		} else {
			parts = append(parts, fmt.Sprintf("%s=%v", key, fields[key]))
		}
	}
	return strings.Join(parts, " ")
}
