package idempotency

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// Answers are kept in the first place that a node of a cluster names, and in another one only after
// a Redis has lost its ID, or when nobody has used the place for a while. The store is such a
// place.
func TestHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, text := memory.New(time.Now), new(testlog.Text)
		log := slog.New(slog.NewTextHandler(text, nil))
		var ids sync.Map // of the Redis servers that are not away
		ids.Store("right", "1")
		ids.Store("wrong", "2")
		nodes, end := context.WithCancel(t.Context())
		defer end()
		node := func(ctx context.Context, redis string) *Home {
			h := NewHome(store.Documents(), nil, "", time.Now)
			if redis == "" {
				go h.Follow(ctx, log)
				return h
			}
			h.id = func(context.Context) (string, error) {
				id, ok := ids.Load(redis)
				if !ok {
					return "", errReply
				}
				return id.(string), nil
			}
			go h.Follow(ctx, log)
			return h
		}
		after := func(d time.Duration, want map[*Home]error) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			for h, cause := range want {
				if !errors.Is(h.Cause(), cause) {
					t.Errorf("got %v, want %v", h.Cause(), cause)
				}
			}
		}
		a := node(nodes, "right")
		must.Report(t, (*Home)(nil).Cause()) // of who has no other node
		after(time.Second, map[*Home]error{a: nil})
		b := node(nodes, "right")
		wrong := node(t.Context(), "wrong")
		without, leave := context.WithCancel(t.Context())
		none := node(without, "")
		after(time.Hour, map[*Home]error{a: nil, b: nil, wrong: ErrNotHome, none: ErrNotHome})
		leave()
		ids.Delete("right")
		for what, times := range map[string]int{"are refused": 2, "are answered": 0} {
			must.Equal(t, text.Count("requests with an Idempotency-Key "+what), times, "the times that the log says they %s", what)
		}
		late := node(nodes, "right")
		after(time.Hour, map[*Home]error{a: nil, b: nil, wrong: ErrNotHome, late: errHomeUnknown})
		ids.Store("right", "3") // it has lost everything
		after(2*homeLook, map[*Home]error{a: nil, b: nil, wrong: ErrNotHome, late: nil})
		end()
		after(homeless-homeLook, map[*Home]error{wrong: ErrNotHome})
		after(3*homeLook, map[*Home]error{wrong: nil})
		again := node(t.Context(), "right")
		none = node(t.Context(), "")
		after(time.Hour, map[*Home]error{wrong: nil, again: ErrNotHome, none: ErrNotHome})
	})
}

// If nodes with two Redis servers begin at the same time, one of the servers is the home, and
// requests with a key are refused at the other one.
func TestHomeIsDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		var homes [2]*Home
		for i := range homes {
			homes[i] = NewHome(store.Documents(), nil, "", time.Now)
			homes[i].id = func(context.Context) (string, error) {
				time.Sleep(time.Second) // both have read that there is no home
				return strconv.Itoa(i), nil
			}
			go homes[i].Look(t.Context())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var refused [2]error
		for i, home := range homes {
			answers := New(Options{Home: home, Backend: claims{}})
			_, claim := answers.opts.Backend.Claim(t.Context(), "id", "text", time.Minute)
			_, refused[i] = answers.opts.Backend.Swap(t.Context(), "id", "", "text", time.Minute)
			if !errors.Is(claim, refused[i]) && !errors.Is(claim, ErrNotHome) {
				t.Errorf("a claim is refused for %v, and an answer for %v", claim, refused[i])
			}
		}
		if first, second := refused[0], refused[1]; (first == nil) == (second == nil) || !errors.Is(cmp.Or(first, second), ErrNotHome) {
			t.Errorf("one is refused for %v, the other one for %v", first, second)
		}
	})
}

// claims is a backend that keeps everything.
type claims struct{ Backend }

func (claims) Claim(context.Context, string, string, time.Duration) (string, error) { return "", nil }

func (claims) Swap(context.Context, string, string, string, time.Duration) (string, error) {
	return "", nil
}

// unwell is a store of which one kind of operations fails.
type unwell struct {
	persist.Documents
	fails string
}

func (u *unwell) op(name string) error {
	return map[string]error{u.fails: persist.ErrUnavailable}[name]
}

func (u *unwell) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	d, err := u.Documents.Read(ctx, kind, key)
	return d, cmp.Or(u.op("read"), err)
}

func (u *unwell) Create(ctx context.Context, d persist.Document) error {
	return cmp.Or(u.op("write"), u.Documents.Create(ctx, d))
}

// A home that cannot be read or written is not known, and one that was known stays so.
func TestHomeIsAway(t *testing.T) {
	for _, fails := range []string{"read", "write", "id"} {
		u := &unwell{memory.New(time.Now).Documents(), fails}
		h := NewHome(u, nil, "", time.Now)
		h.id = func(context.Context) (string, error) { return "1", u.op("id") }
		for i, want := range []error{errHomeUnknown, nil, nil} {
			if h.Look(t.Context()); h.Cause() != want {
				t.Errorf("%s fails, look %d: %v, want %v", fails, i, h.Cause(), want)
			}
			u.fails = map[int]string{1: fails}[i]
		}
	}
}
