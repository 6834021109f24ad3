package load

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Watch samples the /readyz of a node at regular intervals until ctx ends.
func (l *Load) Watch(ctx context.Context, n Node, pace time.Duration) {
	Every(ctx, pace, func() {
		s := record.Sample{Node: n.Name(), Life: n.Life()}
		answer, status, _ := Readiness(ctx, l.HTTP, n.URL())
		s.At, s.Status, s.States = l.Journal.Now(), status, answer
		if n.Life() != s.Life {
			s.Life = 0
		}
		l.Journal.Write(record.Entry{Sample: &s})
		if s.Status == http.StatusOK && s.Life != 0 {
			l.Journal.ready(s.Node, s.Life, s.At)
		}
	})
}

// Readiness requests /readyz, and waits a second at most. The states are the codes of the biz types
// that are not well, and all is true if the node is ready and each biz type can issue. The status
// is 0 if there is no answer.
func Readiness(ctx context.Context, client *http.Client, url string) (states map[string]string, status int, all bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, false
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Unready  int
		BizTypes []struct{ BizType, Code string }
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(body, &answer) != nil {
		return nil, 0, false
	}
	for _, b := range answer.BizTypes {
		if states == nil {
			states = map[string]string{}
		}
		states[b.BizType] = b.Code
	}
	return states, resp.StatusCode, resp.StatusCode == http.StatusOK && answer.Unready == 0
}

// Every calls a function at regular intervals until ctx ends.
func Every(ctx context.Context, pace time.Duration, do func()) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}
