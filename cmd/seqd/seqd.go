// Command seqd issues numbers over HTTP and the Redis protocol. docs/CONFIGURATION.md lists its
// settings. The command line is in package command. Package standard imports the built-in
// strategies and plugins.
package main

import (
	"github.com/seqd/seqd/command"
	_ "github.com/seqd/seqd/standard"
)

func main() { command.Main() }
