// Package ops is what an operator runs beside the service: [Raise] and [Restored] after restoring a
// backup, [Compact], [Healthcheck] and [Doctor]. Each is one function, and one sub-command of
// package command.
//
// The package depends on the configuration and opens the back ends itself (package backends). It
// reads definitions from the store (package definitions), and uses nothing of a running service but
// its HTTP routes. A new command is a file of its own here, and a case in package command.
package ops
