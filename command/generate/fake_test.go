package generate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// service is a fake of a service that issues 1, 2, 3 and so on as N1, N2, N3.
type service struct {
	*httptest.Server
	maxCount int
	next     atomic.Int64
	// fault may answer in place of the service, and says so.
	fault    func(w http.ResponseWriter, r *http.Request, count int) bool
	requests atomic.Int64
	largest  atomic.Int64
}

func serve(t *testing.T) *service {
	t.Helper()
	s := &service{maxCount: 1000}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
	count, err := strconv.Atoi(r.URL.Query().Get("count"))
	if err != nil || count < 1 || count > s.maxCount {
		problem(w, 400, "invalid_count", fmt.Sprintf("count is %d and must be a whole number from 1 to %d", count, s.maxCount), "")
		return
	}
	if r.URL.Path != "/seq/invite" {
		problem(w, 404, "unknown_biz_type", "no biz type is called that", "")
		return
	}
	s.largest.Store(max(s.largest.Load(), int64(count)))
	if s.fault != nil && s.fault(w, r, count) {
		return
	}
	s.issue(w, count)
}

func (s *service) issue(w http.ResponseWriter, count int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(s.lines(count))
}

func (s *service) lines(count int) []byte {
	first := s.next.Add(int64(count)) - int64(count) + 1
	var text []byte
	for i := range int64(count) {
		text = append(text, 'N')
		text = append(strconv.AppendInt(text, first+i, 10), '\n')
	}
	return text
}

func problem(w http.ResponseWriter, status int, code, detail, after string) {
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"about:blank","title":%q,"status":%d,"code":%q,"detail":%q}`, http.StatusText(status), status, code, detail)
}

// direct is a transport that answers without the network.
type direct struct{ *service }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	count, err := strconv.Atoi(r.URL.Query().Get("count"))
	if err != nil || count > d.maxCount {
		return nil, errors.New("too many")
	}
	header := http.Header{"Content-Type": {"text/plain"}, "X-Request-Id": r.Header["X-Request-Id"]}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(bytes.NewReader(d.lines(count)))}, nil
}

// faults answers a share of the requests in every way that an answer can be wrong.
func faults(s *service, seed uint64) func(http.ResponseWriter, *http.Request, int) bool {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func(w http.ResponseWriter, r *http.Request, count int) bool {
		mu.Lock()
		kind, part := random.IntN(40), random.Float64()
		mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		switch kind {
		case 0: // cut, with a length
			text := s.lines(count)
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text[:int(part*float64(len(text)))])
			panic(http.ErrAbortHandler)
		case 1: // cut, without a length, and without an error
			text := s.lines(count)
			w.(http.Flusher).Flush()
			_, _ = w.Write(text[:int(part*float64(len(text)))])
		case 2: // cut, chunked
			text := s.lines(count)
			_, _ = w.Write(text[:int(part*float64(len(text)))])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case 3: // too many
			_, _ = w.Write(s.lines(count + 1))
		case 4: // too few
			_, _ = w.Write(s.lines(count - 1))
		case 5: // a page of a proxy
			s.lines(count)
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.Repeat("<p>Bad gateway</p>\n", count))
		case 6:
			problem(w, 503, "starting", "the service is starting", "0")
		case 7: // a proxy without a problem document
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(502)
			_, _ = io.WriteString(w, "<h1>502</h1>\n")
		case 8: // nobody listens
			panic(http.ErrAbortHandler)
		case 9: // slow
			time.Sleep(time.Duration(part * float64(20*time.Millisecond)))
			return false
		case 10: // an empty answer
			s.lines(count)
		case 11: // zeros
			_, _ = w.Write([]byte(strings.ReplaceAll(string(s.lines(count)), "N", "\x00")))
		case 12: // an answer without end
			for text := strings.Repeat("no line break in sight ", 5000); r.Context().Err() == nil; {
				if _, err := io.WriteString(w, text); err != nil {
					break
				}
			}
		default:
			return false
		}
		return true
	}
}

// checkFile fails unless the file has exactly count lines, each of them issued and none twice.
func checkFile(t *testing.T, path string, count int64, issued int64) {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	checkLines(t, f, count, issued)
	must.Is(t, must.Err(os.Stat(path+noteSuffix)), os.ErrNotExist, "the note of a complete file")
}

func checkLines(t *testing.T, r io.Reader, count int64, issued int64) {
	t.Helper()
	seen := make([]bool, issued+1)
	var lines int64
	for scanner := bufio.NewScanner(r); scanner.Scan(); lines++ {
		digits, ok := strings.CutPrefix(scanner.Text(), "N")
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || n < 1 || n > issued {
			t.Fatalf("line %d is %q, which was not issued", lines+1, scanner.Text())
		}
		if seen[n] {
			t.Fatalf("%s is there twice, again in line %d", scanner.Text(), lines+1)
		}
		seen[n] = true
	}
	if lines != count {
		t.Fatalf("there are %d lines, want %d", lines, count)
	}
}
