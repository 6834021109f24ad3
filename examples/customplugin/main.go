// Command customplugin is seqd with a plugin, a rejection handler and a strategy of one's own,
// which are in the folder own. It has every sub-command of seqd, and nothing of seqd was changed
// for it. docs/PLUGINS.md walks through it.
//
//	go run ./examples/customplugin --config examples/customplugin/seqd.yaml
package main

import (
	"github.com/seqd/seqd/command"
	// your plugins, rejection handlers and strategies
	_ "github.com/seqd/seqd/examples/customplugin/own"
	_ "github.com/seqd/seqd/standard" // everything that comes with seqd
)

func main() { command.Main() }
