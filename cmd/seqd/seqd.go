// Command seqd issues numbers over HTTP. docs/CONFIGURATION.md lists its settings. Its command line
// is package command; what it comes with is package standard.
package main

import (
	"github.com/seqd/seqd/command"
	_ "github.com/seqd/seqd/standard"
)

func main() { command.Main() }
