package ops

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/doctor"
)

// having is a hook of a Redis in which each key has a value: "" for none.
type having string

func (h having) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h having) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		var err error
		switch h {
		case "":
			err = redis.Nil
		case "away":
			err = errors.New("connection refused")
		default:
			cmd.(interface{ SetVal(any) }).SetVal(string(h))
		}
		cmd.SetErr(err)
		return err
	}
}

func (h having) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The doctor warns if the other nodes keep the answers to requests with a key in another Redis, or
// if only this node, or only the others, have one.
func TestDoctorKnowsTheOtherRedis(t *testing.T) {
	cfg := must.Get(config.LoadYAML([]byte("store: {driver: memory}\nbizTypes: [{name: order}]\n"), config.Sources{}))(t)
	const none = having("none")
	for _, test := range []struct {
		named     string // by the store, "" for nothing
		has       having
		elsewhere bool
	}{
		{"", none, false}, {"", "1", false}, {"store", none, false}, {"1", "1", false},
		{"store", "1", true}, {"store", "", true}, {"1", none, true}, {"1", "2", true}, {"1", "", true}, {"1", "away", false},
	} {
		store := memory.New(time.Now)
		if test.named != "" {
			must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: "answerhome", Key: "redis", Revision: 1, Body: test.named}))
		}
		var client redis.UniversalClient
		if test.has != none {
			real := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			defer real.Close()
			real.AddHook(test.has)
			client = real
		}
		found, err := elsewhere(t.Context(), cfg, store, client)
		if warned := len(found) == 1 && found[0].Level == doctor.Warn; warned != test.elsewhere || (err != nil) != (test.has == "away") {
			t.Errorf("the store names %q, and Redis has %q: found %+v, %v", test.named, test.has, found, err)
		}
	}
}

// What biz types share, such as the registry of machine IDs, is not left to one that was deleted.
func TestDeletedBizTypesComeFirst(t *testing.T) {
	cfg := must.Get(config.LoadYAML([]byte("store: {driver: memory}\nbizTypes: [{name: order}]\n"), config.Sources{}))(t)
	store := memory.New(time.Now)
	for name, body := range map[string]string{
		"a": `{"definition":{"name":"a"},"enabled":true}`, "b": `{"definition":{"name":"b"},"enabled":true,"deleted":true}`, "c": `{"definition":{"name":"c"}}`,
	} {
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: "definition", Key: name, Revision: 1, Body: body}))
	}
	list, deleted, err := allDefined(t.Context(), cfg, store)
	if err != nil || deleted != 1 || len(list) != 4 || list[0].Name != "b" || list[1].Name != "a" || list[3].Name != "order" {
		t.Errorf("%+v, %d, %v", list, deleted, err)
	}
}
