package redisslots

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

var (
	someSet  = persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "12/10/1ms <&>", Floor: persist.MaxNumber, Ahead: 5000, Source: "ü"}
	someSlot = persist.Slot{ID: 5, Key: "seqd.8080.10.0.0.1", Token: "t", Until: persist.MaxNumber, Reserved: persist.MaxNumber, RenewedAt: 50}
)

func TestKey(t *testing.T) {
	must.Equal(t, Key("seqd:", "order"), "seqd:{slots:order}")
}

func TestFieldsSurvive(t *testing.T) {
	set, err := decode[persist.SlotSet]("set", encode(&someSet))
	if err != nil || set != someSet {
		t.Errorf("%+v, %v", set, err)
	}
	must.Equal(t, must.Get(decode[persist.Slot]("5", encode(&someSlot)))(t), someSlot)
	must.Equal(t, encode[persist.Slot](nil), "", "nothing is something")
}

// TestDamagedFields checks that a field that decodes to the same value but is another text is an
// error: a swap would never find it as it was seen.
func TestDamagedFields(t *testing.T) {
	good := encode(&someSlot)
	for _, text := range []string{
		"", "x", "null", "{}", "[]", "7", good + " ", " " + good, strings.Replace(good, `"id":5`, `"id":5.0`, 1), strings.Replace(good, `"id":5`, `"ID":5`, 1),
		strings.Replace(good, `"id":5`, `"id":5,"more":1`, 1), strings.Replace(good, `"token":"t",`, "", 1), strings.Replace(good, "9007199254740991", "9007199254740992", 1),
		strings.Replace(good, "seqd.8080.10.0.0.1", "", 1),
	} {
		if slot, err := decode[persist.Slot]("5", text); !errors.Is(err, persist.ErrInvalid) || !strings.Contains(err.Error(), "5") {
			t.Errorf("%q became %+v, %v", text, slot, err)
		}
	}
}

func TestContents(t *testing.T) {
	other := someSlot
	other.ID = 0
	five, zero := encode(&someSlot), encode(&other)
	good := func(rest ...any) *reply { return &reply{items: append([]any{"ok", nil}, rest...)} }
	set, slots, err := good("5", five, "0", zero).contents(1, nil)
	if err != nil || set != nil || len(slots) != 2 || slots[0] != other || slots[1] != someSlot {
		t.Errorf("%+v, %+v, %v", set, slots, err)
	}
	if _, slots, err := good("5", five, "0", zero).contents(1, []int64{5, 7}); err != nil || len(slots) != 1 || slots[0] != someSlot {
		t.Errorf("%+v, %v", slots, err)
	}
	for _, rest := range [][]any{{"5"}, {"5", nil}, {nil, five}, {"6", five}, {"05", five}, {"x", five}, {"5", five, "5", five}, {"5", int64(7)}} {
		if _, slots, err := good(rest...).contents(1, nil); !errors.Is(err, persist.ErrInvalid) || slots != nil {
			t.Errorf("%v: %+v, %v", rest, slots, err)
		}
	}
	for _, set := range []any{"", "x", int64(1), []any{}, "{}"} {
		if _, _, err := (&reply{items: []any{"ok", set}}).contents(1, nil); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("set %v: %v", set, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, test := range []struct {
		answer any
		want   settings
		bad    string
	}{
		{[]any{"min-replicas-max-lag", "10", "min-replicas-to-write", "1"}, settings{1, 10}, ""},
		{map[any]any{"min-replicas-max-lag": "0", "min-replicas-to-write": "3"}, settings{3, 0}, ""},
		{[]any{}, settings{}, "min-replicas-"},
		{[]any{"min-replicas-max-lag", "10"}, settings{}, "min-replicas-to-write"},
		{[]any{"min-replicas-to-write", "10", "min-replicas-max-lag"}, settings{}, "min-replicas-max-lag"},
		{[]any{"min-replicas-max-lag", "x", "min-replicas-to-write", "1"}, settings{}, "min-replicas-max-lag"},
		{[]any{"min-replicas-max-lag", int64(5), "min-replicas-to-write", "-1"}, settings{}, "min-replicas-"},
		{nil, settings{}, "min-replicas-"}, {"OK", settings{}, "min-replicas-"},
	} {
		got, err := parseSettings(test.answer)
		if test.bad == "" && (err != nil || got != test.want) {
			t.Errorf("%v became %+v, %v", test.answer, got, err)
		}
		if test.bad != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), test.bad)) {
			t.Errorf("%v: %v", test.answer, err)
		}
	}
}

func TestLag(t *testing.T) {
	must.Equal(t, must.Get((settings{1, 10}).lag())(t), 12_000)
	for set, setting := range map[settings]string{{0, 10}: "min-replicas-to-write", {1, 0}: "min-replicas-max-lag", {1, math.MaxInt}: "min-replicas-max-lag"} {
		if ms, err := set.lag(); ms != 0 || !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), setting) {
			t.Errorf("%+v: %d, %v", set, ms, err)
		}
	}
	must.Equal(t, (settings{0, 1 << 40}).left(), maxLagSeconds*1000+slack)
}

func TestAlone(t *testing.T) {
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	sentinels := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	for client, want := range map[redis.UniversalClient]bool{single: true, sentinels: false, cluster: false} {
		must.Equal(t, alone(client), want, "%T", client)
		must.Report(t, client.Close())
	}
}
