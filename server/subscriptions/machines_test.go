package subscriptions

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/events"
)

func TestFailed(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	var d delivery
	for i, pause := range pauses {
		before := d
		for jitter, most := range map[float64]time.Duration{0: pause, 1: pause + pause/5} {
			d = before
			due := d.failed(answer{err: errors.New("x")}, now, jitter, time.Hour)
			if d.Dead || due < now.Add(pause).UnixMilli() || due > now.Add(most).UnixMilli() {
				t.Errorf("attempt %d: %+v is due at %d", i, d, due)
			}
		}
	}
	asked := delivery{}
	must.Equal(t, asked.failed(answer{err: errors.New("x"), wait: time.Hour}, now, 0, 0), now.Add(time.Hour).UnixMilli())
	must.Equal(t, d.failed(answer{err: errors.New("y"), wait: 48 * time.Hour}, now, 0, time.Hour), now.Add(time.Hour).UnixMilli())
	if !d.Dead || d.Error != "y" || d.Last != now.UnixMilli() {
		t.Errorf("%+v", d)
	}
}

func TestQueue(t *testing.T) {
	var q queue
	for i, id := range []string{"a/1", "b/1", "a/2", "c/1"} {
		q.add(newQueued(keyIn("x", int64(i)), &delivery{Event: events.Event{ID: id}}, 10))
	}
	must.Equal(t, q.next(9, 2) == nil, true, "none is due")
	one, two := q.next(10, 2), q.next(10, 2)
	must.Equal(t, one.source+two.source, "ab")
	must.Equal(t, q.next(10, 2) == nil, true, "two are sent")
	must.Equal(t, q.next(10, 3).source, "c", "a waits for its first event")
	q.sent(one)
	must.Equal(t, q.next(10, 3) == one, true, "it has failed, and is first")
	q.sent(one)
	one.due = 20
	must.Equal(t, q.next(10, 3).key, keyIn("x", 2))
	q.failing = true
	must.Equal(t, q.next(30, 9) == nil, true, "the receiver fails")
	q.remove(one.key)
	q.add(newQueued(two.key, &delivery{Event: events.Event{ID: "b/1"}}, 99)) // it is being sent
	must.Equal(t, q.list[0] == two && len(q.list) == 3, true)
	q.list[1].dead = true
	must.Equal(t, q.pending(), 2)
	must.Equal(t, len(q.expired(9))+10*len(q.expired(10)), 10)
	q = queue{leaving: true, list: q.list[1:]}
	must.Equal(t, q.next(99, 9) == nil, true, "another node sends")
}

func TestMoves(t *testing.T) {
	works := map[string][]string{"me": {"a", "b"}, "you": {"c"}}
	has := []string{"b", "c", "d"}
	take, release := moves(works, "me", func(w string) bool { return slices.Contains(has, w) })
	if !slices.Equal(take, []string{"a"}) || !slices.Equal(release, []string{"c"}) {
		t.Errorf("takes %v, releases %v", take, release)
	}
}

func TestSignature(t *testing.T) {
	at := time.Unix(1614265330, 0)
	d := definition{Secrets: []secret{{Text: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}}
	const want = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	must.Equal(t, d.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, []byte(`{"test": 2432232314}`)), "v1,"+want)
	d.Secrets = append(d.Secrets, secret{Text: secretBegins + base64.StdEncoding.EncodeToString(make([]byte, 24)), Until: at.UnixMilli() + 1})
	must.Equal(t, strings.Count(d.sign("x", at, nil), "v1,"), 2, "both sign")
	must.Equal(t, strings.Count(d.sign("x", at.Add(time.Second), nil), "v1,"), 1, "the old one has expired")
}

func TestPut(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	var d definition
	want := admin.SubscriptionRequest{URL: "http://a", BizTypes: []string{"b", "a", "b"}, Enabled: true}
	first, err := d.put(want, map[string]int64{"a": 3, "b": 4}, now)
	if err != nil || keyOf(first) == nil || !slices.Equal(d.BizTypes, []string{"a", "b"}) || !maps.Equal(d.Begin, map[string]int64{"a": 3, "b": 4}) {
		t.Errorf("%+v, %v", d, err)
	}
	d.revision = 1
	want.BizTypes = []string{"b", "c"}
	made, err := d.put(want, map[string]int64{"b": 9, "c": 9}, now)
	if err != nil || made != "" || !maps.Equal(d.Begin, map[string]int64{"b": 4, "c": 9}) || len(d.Secrets) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	want.Secret = "new"
	for again := range 2 * mostSecrets { // the first one signs also if the request is repeated
		n := min(again+2, mostSecrets)
		made, err = d.put(want, nil, now)
		if err != nil || made == first || d.Secrets[0].Text != made || d.Secrets[0].Until != 0 || len(d.Secrets) != n || d.Secrets[n-1].Until != now.Add(secretLasts).UnixMilli() {
			t.Errorf("%+v, %v", d, err)
		}
	}
	want.Secret = first
	if made, err = d.put(want, nil, now); err != nil || made != first {
		t.Error(made, err)
	}
	if _, err = d.put(want, nil, now); err != nil || len(d.Secrets) != mostSecrets { // the same one
		t.Errorf("%+v, %v", d, err)
	}
	want.Secret = "new"
	if _, err = d.put(want, nil, now.Add(secretLasts)); err != nil || len(d.Secrets) != 2 { // the others have expired
		t.Errorf("%+v, %v", d, err)
	}
	want.Secret = "whsec_short"
	must.Code(t, must.Err(d.put(want, nil, now)), seqd.CodeInvalidRequest)
}

func TestOrders(t *testing.T) {
	d := &definition{Begin: map[string]int64{"a": 3, "b": -1}}
	for range mostOrders {
		must.Do(t, d.order(order{BizType: "a", From: 2}, 0))
	}
	must.Code(t, d.order(order{}, 0), seqd.CodeConflict)
	must.Do(t, d.order(order{}, mostOrders))
	must.Equal(t, len(d.Orders), 1)
	must.Equal(t, d.Orders[0].Number, mostOrders+1)
	s := state{}.of(d)
	s.At["a"] = 7
	s.order(order{Number: 1, BizType: "a", From: 5})
	s.order(order{Number: 2, BizType: "a", From: 6})
	must.Equal(t, fmt.Sprint(s.At, s.Done), "map[a:4 b:-1] 2")
	d.Made = "again"
	must.Equal(t, fmt.Sprint(s.of(d).At, s.of(d).Done), "map[a:3 b:-1] 0")
}

func TestCheck(t *testing.T) {
	good := admin.SubscriptionRequest{URL: "https://a/b?c=d", BizTypes: []string{"x"}}
	must.Do(t, check("shop", &good))
	for _, bad := range []func(*admin.SubscriptionRequest){
		func(r *admin.SubscriptionRequest) { r.URL = "ftp://a" },
		func(r *admin.SubscriptionRequest) { r.URL = "http://u:p@a" },
		func(r *admin.SubscriptionRequest) { r.URL = "http://a/" + strings.Repeat("x", longestURL) },
		func(r *admin.SubscriptionRequest) { r.BizTypes = nil },
		func(r *admin.SubscriptionRequest) { r.From = "then" },
		func(r *admin.SubscriptionRequest) { r.Types = []string{"number.vod"} },
	} {
		r := good
		bad(&r)
		must.Code(t, check("shop", &r), seqd.CodeInvalidRequest)
	}
	must.Code(t, check("a/b", &good), seqd.CodeInvalidRequest)
	good.BizTypes = []string{"-"}
	must.Code(t, check("shop", &good), seqd.CodeInvalidBizType)
}
