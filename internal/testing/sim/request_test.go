package sim

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// request sends a request to a node. The status is 0 if there is no answer.
func (w *World) request(ctx context.Context, n *node, method, path, body string, headers ...string) (status int, header http.Header, answer string) {
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		panic(err) // it is built from constants
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.load.HTTP.Do(req)
	if err != nil {
		return 0, nil, ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, ""
	}
	return resp.StatusCode, resp.Header, string(text)
}
