package docstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server"
	_ "github.com/seqd/seqd/standard"
)

// TestExamples runs the examples of documents that assume a service just started with
// configs/seqd.yaml. It sends each line of curl and redis-cli in order and compares the answer.
func TestExamples(t *testing.T) {
	root := must.Get(filepath.Abs("../.."))(t)
	for document, least := range map[string]int{"README.md": 8, "docs/CLIENTS.md": 1, "docs/API.md": 20, "docs/SNOWFLAKE.md": 2, "docs/WORKERS.md": 5} {
		t.Run(document, func(t *testing.T) {
			text := must.Get(os.ReadFile(filepath.Join(root, document)))(t)
			addr, redisAddr := serve(t, root)
			tried, ids := 0, strings.NewReplacer()
			for _, e := range examplesOf(string(text)) {
				e.command = ids.Replace(e.command)
				if strings.Contains(e.command, "Bearer") || strings.Contains(e.command, ":8081") {
					continue // needs tokens, or another node
				}
				tried++
				got := ""
				await.True(t, "no biz type is still starting", func() bool {
					if strings.HasPrefix(e.command, redisCLI) {
						got = e.sendRedis(t, redisAddr)
					} else {
						got = e.send(t, addr)
					}
					return !starting.MatchString(got) || starting.MatchString(e.want)
				})
				for _, random := range []*regexp.Regexp{reservation, lease} {
					if in, found := random.FindString(e.want), random.FindString(got); in != "" && found != "" {
						ids = strings.NewReplacer(name(in), name(found))
					}
				}
				if !same(strings.TrimPrefix(got, "\ufeff"), ids.Replace(e.want)) { // a terminal does not show the mark
					t.Errorf("%s\ngot  %s\nwant %s", e.command, got, e.want)
				}
			}
			if tried < least {
				t.Errorf("only %d examples were tried", tried)
			}
		})
	}
}

// starting matches an answer for which a slow machine is the reason, and which spends no number.
var starting = regexp.MustCompile(`"code":"starting"|^\(error\) LOADING`)

// serve starts the service of the first example in a new folder.
func serve(t *testing.T, root string) (addr, redisAddr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan int, 1)
	onListen := server.WithOnListen(func(addr net.Addr) { listening <- addr.String() })
	onListenResp := server.WithOnListenResp(func(addr net.Addr) { redisAddr = addr.String() })
	args := []string{
		"--config", filepath.Join(root, "configs/seqd.yaml"), "--server.addr", "127.0.0.1:0",
		"--resp.addr", "127.0.0.1:0", "--log.level", "error",
	}
	go func() {
		ended <- command.Run(ctx, args, io.Discard, os.Stderr, command.WithServer(onListenResp, onListen, server.WithClock(documented())))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case addr = <-listening:
	case code := <-ended:
		ended <- code
		t.Fatalf("the service ended with %d", code)
	}
	await.True(t, "the service is ready", func() bool {
		resp := must.Get(http.Get("http://" + addr + "/readyz"))(t)
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return addr, redisAddr
}

// documented returns a clock that begins at the day of the documents, whose numbers show the year.
func documented() func() time.Time {
	ahead := time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	return func() time.Time { return time.Now().Add(ahead) }
}

// example is a command and what it prints.
type example struct{ command, want string }

var console = regexp.MustCompile("(?s)```console\n(.*?)```")

// examplesOf returns the examples of a document that call the service with curl or redis-cli. A line of an
// answer that begins with two spaces continues the previous line.
func examplesOf(text string) (list []example) {
	for _, block := range console.FindAllStringSubmatch(text, -1) {
		for _, part := range strings.Split("\n"+strings.ReplaceAll(block[1], "\\\n", ""), "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			if strings.HasPrefix(command, "curl ") || strings.HasPrefix(command, redisCLI) {
				list = append(list, example{command, strings.TrimSpace(strings.ReplaceAll(want, "\n  ", ""))})
			}
		}
	}
	return list
}

var word = regexp.MustCompile(`'([^']*)'|(\S+)`)

// send sends the request of an example and returns the answer.
func (e example) send(t *testing.T, addr string) string {
	t.Helper()
	var words []string
	for _, m := range word.FindAllStringSubmatch(e.command, -1) {
		words = append(words, m[1]+m[2])
	}
	method, url, body, header := http.MethodGet, "", "", http.Header{}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-X":
			i++
			method = words[i]
		case "-d":
			i++
			body = words[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		default:
			url = "http://" + strings.Replace(words[i], "localhost:8080", addr, 1)
		}
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	req.Header = header
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer func() { _ = resp.Body.Close() }()
	answer := must.Get(io.ReadAll(resp.Body))(t)
	return strings.TrimSpace(string(answer))
}

// redisCLI begins an example that calls the service with a Redis client.
const redisCLI = "redis-cli -p 6380 "

// sendRedis sends the command of an example and returns the answer as redis-cli shows it.
func (e example) sendRedis(t *testing.T, addr string) string {
	t.Helper()
	var args []any
	for _, arg := range strings.Fields(strings.TrimPrefix(e.command, redisCLI)) {
		args = append(args, arg)
	}
	client := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: await.Patience, ReadTimeout: await.Patience})
	defer func() { _ = client.Close() }()
	answer, err := client.Do(t.Context(), args...).Result()
	if err != nil {
		return "(error) " + err.Error()
	}
	return shown(answer)
}

// shown returns an answer as redis-cli shows it.
func shown(answer any) string {
	switch a := answer.(type) {
	case int64:
		return fmt.Sprintf("(integer) %d", a)
	case []any:
		var lines []string
		for i, part := range a {
			lines = append(lines, fmt.Sprintf("%d) %s", i+1, shown(part)))
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("%q", answer)
}

// reservation matches the ID of a reservation of a year. It is random, so the one that the service
// made replaces the one in the document.
var reservation = regexp.MustCompile(`[0-9a-f]{20}\.[0-9]{4}`)

// lease matches the text of a lease, which is random too.
var lease = regexp.MustCompile(`"lease":"[\w-]+"`)

// name returns the text of a lease alone, and anything else as it is.
func name(text string) string {
	return strings.TrimSuffix(strings.TrimPrefix(text, `"lease":"`), `"`)
}

// passing matches what differs from run to run: request IDs, times, and numbers derived from the
// time.
var passing = regexp.MustCompile(`"(requestId|updatedAt|expiresAt|at|after|until)":"[^"]*"|"bizType":"user","id":"\d+"}`)

// same compares answers. If an example contains …, the rest is not compared.
func same(got, want string) bool {
	got = strings.ReplaceAll(got, "\r\n", "\n")
	got, want = passing.ReplaceAllString(got, "$1"), passing.ReplaceAllString(want, "$1")
	if begin, _, shortened := strings.Cut(want, "…"); shortened {
		begin = begin[:min(len(begin), strings.Index(begin+`"details"`, `"details"`))]
		return strings.HasPrefix(got, begin)
	}
	return got == want
}
