package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

// administer changes two biz types under load: one is raised, disabled and enabled, the other
// deleted and created again.
func (l *laboratory) administer(ctx context.Context, d *dice) {
	for ctx.Err() == nil {
		r := d.next()
		pause := 300*time.Millisecond + upTo(r, 1500*time.Millisecond)
		switch r.IntN(5) {
		case 0, 1:
			l.patch(ctx, r, d.round)
		case 2, 3:
			if l.change(ctx, pick(r, l.world.seqds), mutableName, http.MethodPost, "/disable", "") {
				rest(ctx, upTo(r, 400*time.Millisecond))
			}
			l.untilDone(ctx, r, mutableName, http.MethodPost, "/enable", "")
		default:
			l.change(ctx, pick(r, l.world.seqds), temporaryName, http.MethodDelete, "", "")
			rest(ctx, upTo(r, 300*time.Millisecond))
			l.untilDone(ctx, r, temporaryName, http.MethodPut, "", l.definition(temporaryName, nil))
		}
		rest(ctx, pause)
	}
}

// patch raises the counter, or changes the step.
func (l *laboratory) patch(ctx context.Context, r *rand.Rand, round uint64) {
	body := fmt.Sprintf(`{"step":%d}`, 50+r.IntN(400))
	if r.IntN(2) == 0 {
		body = fmt.Sprintf(`{"start":%d}`, round*50_000)
	}
	l.change(ctx, pick(r, l.world.seqds), mutableName, http.MethodPatch, "", body)
}

// untilDone repeats a change until a node has made it.
func (l *laboratory) untilDone(ctx context.Context, r *rand.Rand, name, method, path, body string) {
	for ctx.Err() == nil && !l.change(ctx, pick(r, l.world.seqds), name, method, path, body) {
		rest(ctx, 300*time.Millisecond)
	}
}

// definition returns the configured definition of a biz type without its name, with some settings
// changed.
func (l *laboratory) definition(name string, but settings) string {
	for i := range l.shapes {
		if l.shapes[i].Name == name {
			rest := settings{}
			for key, value := range l.shapes[i].setting {
				if key != "name" {
					rest[key] = value
				}
			}
			maps.Copy(rest, but)
			text, _ := json.Marshal(rest) // cannot fail: it was marshaled for the configuration
			return string(text)
		}
	}
	panic("no shape has the name " + name)
}

// change requests a change from a node and reports whether it was made.
func (l *laboratory) change(ctx context.Context, n *seqd, name, method, path, body string) bool {
	c := &record.Call{Node: n.name(), BizType: name, Kind: record.Admin, Key: strings.TrimSpace(method + path + " " + summary(body))}
	ctx, cancel := context.WithTimeout(ctx, longPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url()+"/biz-types/"+name+path, strings.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	life := n.life.Load()
	c.Start = l.journal.now()
	resp, err := l.http.Do(req)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	c.End = l.journal.now()
	if life == n.life.Load() {
		c.Life = int(life)
	}
	if err != nil {
		c.Code = complaint(err)
	} else {
		var problem struct{ Code string }
		_ = json.Unmarshal(answer, &problem) // answers of 204 are empty
		c.Status, c.Code = resp.StatusCode, problem.Code
	}
	l.journal.call(c)
	return c.Status >= 200 && c.Status < 300
}

// summary formats a body for the record, such as start=700000.
func summary(body string) string {
	fields := map[string]any{}
	if json.Unmarshal([]byte(body), &fields) != nil || len(fields) != 1 {
		return ""
	}
	for key, value := range fields {
		if number, is := value.(float64); is {
			return fmt.Sprintf("%s=%.0f", key, number)
		}
		return fmt.Sprintf("%s=%v", key, value)
	}
	return ""
}
