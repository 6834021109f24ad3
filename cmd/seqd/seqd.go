// Command seqd issues numbers over HTTP. docs/CONFIGURATION.md has its configuration. Its command
// line is package command; what it comes with is package standard.
package main

import (
	"github.com/seqd/seqd/command"
	_ "github.com/seqd/seqd/standard"
)

// version and revision are set by the linker, or else what Go knows:
//
//	-ldflags "-X main.version=v1.2.3 -X main.revision=0a1b2c"
var version, revision string

func main() { command.Main(command.WithVersion(version, revision)) }
