package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// firstNumber gives all IDs of a run the same length.
const firstNumber = 1_000_000_000

// definition is a biz type as an item of bizTypes.
type definition map[string]any

// order is the biz type of most figures.
var order = definition{"name": "order", "start": firstNumber}

// bizTypes returns the setting with the first biz types of a node.
func bizTypes(list ...definition) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // a definition here is not JSON
	}
	return "SEQD_BIZTYPES=" + string(text)
}

// node is a seqd process.
type node struct {
	*child

	url   string
	dir   string
	began time.Time
	took  float64 // from the start of the process until it was ready, in µs
}

// binary is a seqd that a figure measures.
type binary struct{ name, path string }

// binaries returns the new binary, and the old one if there is one.
func (o options) binaries() []binary {
	list := []binary{{newBinary, o.binary}}
	if o.oldBinary != "" {
		list = append(list, binary{oldBinary, o.oldBinary})
	}
	return list
}

// longestStart is how long a node may take until it is ready.
const longestStart = 5 * time.Minute

// startNode starts seqd in a new folder, with bolt unless the environment says otherwise, and waits
// until it is ready.
func (s *servers) startNode(ctx context.Context, path string, env ...string) (n node, err error) {
	dir, err := s.folder()
	if err != nil {
		return n, err
	}
	return s.startNodeIn(ctx, dir, path, "/readyz", env...)
}

// startNodeIn is startNode in a folder. The node is ready if an answer from probe is 200.
func (s *servers) startNodeIn(ctx context.Context, dir, path, probe string, env ...string) (n node, err error) {
	addr, err := freeAddr()
	if err != nil {
		return n, err
	}
	return s.startNodeAt(ctx, addr, dir, path, probe, env...)
}

// startNodeAt is startNodeIn with an address.
func (s *servers) startNodeAt(ctx context.Context, addr, dir, path, probe string, env ...string) (n node, err error) {
	n = node{url: "http://" + addr, dir: dir, began: time.Now()}
	env = append([]string{"SEQD_SERVER_ADDR=" + addr, "SEQD_SERVER_STOPTIMEOUT=10m"}, env...)
	if n.child, err = startChild(ctx, dir, env, path); err != nil {
		return n, err
	}
	s.cleanUps = append(s.cleanUps, n.stop)
	return n, n.awaitReady(ctx, probe)
}

// awaitReady waits until an answer from path is 200.
func (n *node) awaitReady(ctx context.Context, path string) error {
	for {
		_, err := get(n.url + path)
		since := time.Since(n.began)
		if err == nil {
			n.took = float64(since.Nanoseconds()) / 1000
			return nil
		}
		if since > longestStart || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		select {
		case <-n.exited:
			return errors.Join(err, n.stop())
		case <-time.After(max(200*time.Microsecond, since/50)): // an answer costs the node time
		}
	}
}

// get returns the body of an answer. Any status except 200 is an error.
func get(url string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if strings.Contains(url, "count=") {
		req.Header.Set("Accept", "text/plain")
	}
	return answer(http.DefaultClient, req, http.StatusOK)
}

// post sends a request, and decodes the answer unless into is nil.
func post(ctx context.Context, callers *http.Client, url, body string, want int, into any) error {
	text, err := send(ctx, callers, http.MethodPost, url, body, want)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// send sends a request with a JSON body, if there is one.
func send(ctx context.Context, callers *http.Client, method, url, body string, want int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return answer(callers, req, want)
}

// answer sends a request and returns the body. Any other status than want is an error.
func answer(client *http.Client, req *http.Request, want int) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s: %s: %s", req.URL, resp.Status, body)
	}
	return body, err
}
