package redisbound

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/internal/testing/must"
)

// read reads what a server sends, in parts of some size, until the connection ends.
func read(b *Bound, sent string, part int, after string) (got string, err error) {
	server, client := net.Pipe()
	c := b.Conn(client)
	defer c.Close()
	go func() {
		defer server.Close()
		if after != "" {
			_, _ = server.Read(make([]byte, 100))
		}
		for len(sent) > 0 {
			n, err := server.Write([]byte(sent[:min(part, len(sent))]))
			if sent = sent[n:]; err != nil {
				return
			}
		}
	}()
	if after != "" {
		if _, err := io.WriteString(c, after); err != nil {
			return "", err
		}
	}
	all, err := io.ReadAll(c)
	return string(all), err
}

// Answers of Redis pass, and nothing of them is held afterwards.
func TestAnswersPass(t *testing.T) {
	sent := "%1\r\n+a\r\n*1\r\n_\r\n>2\r\n#t\r\n,1.5\r\n~0\r\n|1\r\n+ttl\r\n:1\r\n*2\r\n(12\r\n=5\r\ntxt:a\r\n|0\r\n!2\r\nno\r\n" +
		"+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n$0\r\n\r\n$5\r\na\r\n*9\r\n*-1\r\n*0\r\n*2\r\n*1\r\n$2\r\n\r\n\r\n:1\r\n*1\r\n$-1\r\n" +
		"$10000\r\n" + strings.Repeat("*", 10_000) + "\r\n" + "*9999\r\n" + strings.Repeat("$1\r\n\n\r\n", 9999) + "+" + strings.Repeat("x", 60_000) + "\r\n"
	var b Bound
	for _, part := range []int{1, 2, 3, 4096, len(sent)} {
		if got, err := read(&b, sent, part, ""); err != nil || got != sent {
			t.Errorf("in parts of %d: %d of %d bytes, %v", part, len(got), len(sent), err)
		}
		must.Equal(t, b.held.Load(), 0, "the bytes held")
	}
	for _, address := range []string{"*-1\r\n", "_\r\n", "*2\r\n$1\r\na\r\n$1\r\n1\r\n", "-ERR no\r\n"} {
		must.Equal(t, must.Get(read(&b, address, 1, primaryOf))(t), address)
	}
}

const (
	subscribe = "*2\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n"
	primaryOf = "*3\r\n$8\r\nsentinel\r\n$23\r\nget-master-addr-by-name\r\n$1\r\nx\r\n"
)

// What no Redis sends ends the connection, before the client allocates what it announces.
func TestOthersEnd(t *testing.T) {
	cases := map[string]struct {
		sent  string
		after string
	}{
		"a large string":         {"$3000000000\r\nxx", ""},
		"a large array":          {"*2000000000\r\n", ""},
		"a larger array":         {"*9223372036854775807\r\n", ""},
		"too many digits":        {"$99999999999999999999\r\n", ""},
		"arrays of large arrays": {strings.Repeat("*600000\r\n", 3), ""},
		"many strings":           {"*600000\r\n" + strings.Repeat("$100000\r\n"+strings.Repeat("x", 1_000_000)+"\r\n", 40), ""},
		"nested":                 {strings.Repeat("*1\r\n", 1000), ""},
		"a long line":            {"+" + strings.Repeat("x", 1_000_000), ""},
		"many long lines":        {"*1000\r\n" + strings.Repeat("+"+strings.Repeat("x", 60_000)+"\r\n", 999), ""},
		"negative":               {"$-5\r\n", ""},
		"a map":                  {"%2000000000\r\n", ""},
		"nothing":                {"\r\n", ""},
		"another protocol":       {"HTTP/1.1 400 Bad Request\r\n", ""},
		"no message":             {"*0\r\n", subscribe},
		"a null":                 {"*-1\r\n", subscribe},
		"a message of numbers":   {"*3\r\n:1\r\n:2\r\n:3\r\n", subscribe},
		"a short message":        {"*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n", subscribe},
		"a message of messages":  {"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n*1\r\n$1\r\nx\r\n", subscribe},
		"a null message":         {"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$-1\r\n", subscribe},
		"a long message":         {"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$5000\r\n", subscribe},
		"a subscription":         {"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n$1\r\n1\r\n", subscribe},
		"no address":             {"*0\r\n", primaryOf},
		"half an address":        {"*1\r\n$1\r\nx\r\n", primaryOf},
		"a number":               {":1\r\n", primaryOf},
		"a primary":              {"*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$8\r\nmymaster\r\n", subscribe},
	}
	for name, c := range cases {
		var b Bound
		for _, part := range []int{1, 1 << 16} {
			if part == 1 && len(c.sent) > 1000 {
				continue
			}
			if got, err := read(&b, c.sent, part, c.after); !errors.Is(err, errAnswer) {
				t.Errorf("%s in parts of %d: %d bytes, %v", name, part, len(got), err)
			}
			must.Equal(t, b.held.Load(), 0, "%s: the bytes held", name)
		}
	}
}

// All connections together are bounded, and one that is closed counts no more.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bound
		begin := func() (c net.Conn, ended chan error) {
			server, client := net.Pipe()
			c, ended = b.Conn(client), make(chan error, 1)
			go func() {
				_, err := io.ReadAll(c)
				ended <- err
			}()
			must.Get(io.WriteString(server, "$30000000\r\nx"))(t)
			synctest.Wait()
			return c, ended
		}
		first, firstEnded := begin()
		second, secondEnded := begin()
		if _, ended := begin(); !errors.Is(<-ended, errAnswer) {
			t.Error("a third answer was not refused")
		}
		first.Close()
		<-firstEnded
		third, thirdEnded := begin()
		select {
		case err := <-thirdEnded:
			t.Errorf("an answer was refused although another one had ended: %v", err)
		default:
		}
		second.Close()
		third.Close()
		<-secondEnded
		<-thirdEnded
		must.Equal(t, b.held.Load(), 0, "the bytes held")
	})
}

// The client of a false server neither ends the process nor stays subscribed, and gets the messages
// of a true one.
func TestClient(t *testing.T) {
	for message, want := range map[string]bool{
		"*0\r\n": false, "*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n": false,
		"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$5\r\nhello\r\n": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			var b Bound
			dial := func(context.Context, string, string) (net.Conn, error) {
				server, client := net.Pipe()
				go func() {
					p := make([]byte, 4096)
					for {
						n, err := server.Read(p)
						answer := "-ERR no\r\n"
						if strings.Contains(string(p[:n]), "subscribe") {
							answer = message
						}
						if _, wrong := io.WriteString(server, answer); err != nil || wrong != nil {
							return
						}
					}
				}()
				return client, nil
			}
			client := redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:1", Dialer: b.Dial(dial), Protocol: 2, MaxRetries: -1, DisableIdentity: true,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
			subscription := client.Subscribe(t.Context(), "x")
			messages := subscription.Channel(redis.WithChannelHealthCheckInterval(0))
			select {
			case got := <-messages:
				if !want || got.Payload != "hello" {
					t.Errorf("%q: got %v", message, got)
				}
			case <-time.After(time.Minute):
				if want {
					t.Errorf("%q: no message", message)
				}
			}
			_ = subscription.Close()
			_ = client.Close()
			time.Sleep(time.Second) // the subscription ends in the background
		})
	}
}
