package sim

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// allKnow is the longest time until every node has a change. docs/API.md "Biz types at run time" says
// 5 s. It takes longer if the store does not answer, and the simulated store fails now and then.
const allKnow = 20 * time.Second

// undisturbed are the parts that an action holds after which all nodes must know something: nothing may
// hide it from a node meanwhile.
const undisturbed = " seqd@all pause@all link@all store@ partition@all "

// operatorKinds are what operators do on purpose. Callers do not notice, or notice what the documents
// say.
var operatorKinds = []kind{
	{name: "rolling-restart", weight: 2, holds: "seqd@all pause@all", after: time.Minute, begin: func(w *World, f *fault) {
		for _, n := range w.nodes {
			n.stop()
			n.start()
			time.Sleep(short)
		}
	}},
	{name: "ordering-changed", weight: 2, holds: undisturbed + "ordering@", least: short, most: some, after: time.Minute, marks: record.Fault{Unordered: load.SwitchedName},
		begin: change(load.SwitchedName, `{"ordering":"per-node"}`), end: change(load.SwitchedName, `{"ordering":"strict"}`)},
	{name: "sequencer-changed", weight: 3, needs: withRedis, holds: undisturbed + "sequencer@", least: short, most: some, after: time.Minute, marks: record.Fault{Unordered: load.MovingName, IfRedis: true},
		begin: change(load.MovingName, `{"sequencer":"store"}`), end: change(load.MovingName, `{"sequencer":"redis"}`)},
}

// change returns an action that changes a definition, and gives all nodes time to learn of it.
func change(name, body string) func(w *World, f *fault) {
	return func(w *World, f *fault) {
		w.insist(f, name, http.MethodPatch, "", body)
		time.Sleep(allKnow)
	}
}

// fieldOf returns the value of a line such as name:value.
func fieldOf(text, name string) string {
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name); is {
			return strings.TrimSpace(value)
		}
	}
	return fmt.Sprint("no ", name)
}
