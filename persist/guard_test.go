package persist_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/seqd/seqd/persist"
)

// Drivers with bugs: each operation panics.
type (
	buggy struct {
		persist.Store // nil, so that each operation panics
	}
	buggyFenced struct {
		buggy
		persist.Fenced
	}
	buggyAnswerer struct{ buggy }
	counters      struct{ persist.Counters }
	documents     struct{ persist.Documents }
	slots         struct{ persist.SlotStore }
	history       struct{ persist.HistoryStore }
	answers       struct{ persist.Answers }
)

func (buggy) Counters() persist.Counters       { return counters{} }
func (buggy) Documents() persist.Documents     { return documents{} }
func (buggy) Slots() persist.SlotStore         { return slots{} }
func (buggy) History() persist.HistoryStore    { return history{} }
func (buggyAnswerer) Answers() persist.Answers { return answers{} }

// Whatever panics in a driver, its caller gets an error. A guarded store can do what the store can.
func TestGuard(t *testing.T) {
	plain, fenced, answerer := persist.Guard(buggy{}), persist.Guard(buggyFenced{}), persist.Guard(buggyAnswerer{})
	for _, of := range []any{
		plain.Counters(), plain.Documents(), plain.Slots(), plain.History(), fenced.(persist.Fenced), answerer.(persist.Answerer).Answers(),
		struct{ persist.Clock }{plain}, struct{ persist.Clock }{fenced}, struct{ persist.Counters }{fenced.Counters()},
	} {
		v := reflect.ValueOf(of)
		operations := 0
		for i := range v.NumMethod() {
			method, name := v.Method(i), v.Type().String()+"."+v.Type().Method(i).Name
			results := method.Type().NumOut()
			if results == 0 || method.Type().Out(results-1) != reflect.TypeFor[error]() || strings.HasSuffix(name, ".Close") {
				continue
			}
			operations++
			args := []reflect.Value{reflect.ValueOf(context.Background())}
			for j := 1; j < method.Type().NumIn() && !(method.Type().IsVariadic() && j == method.Type().NumIn()-1); j++ {
				args = append(args, reflect.Zero(method.Type().In(j)))
			}
			out := method.Call(args)
			if err, _ := out[results-1].Interface().(error); err == nil || !strings.Contains(err.Error(), "panicked") {
				t.Errorf("%s returns %v", name, err)
			}
		}
		if operations == 0 {
			t.Errorf("%T has no operations", of)
		}
	}
	if _, ok := plain.(persist.Fenced); ok {
		t.Error("a store without a fence has one")
	}
	if err := plain.Close(); err == nil {
		t.Error("closing it does not fail")
	}
}
