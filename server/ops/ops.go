// Package ops is what an operator runs beside the service: [Raise] and [Restored] after restoring a
// backup, [Failover] after a failover of the store, [Compact], [Healthcheck] and [Doctor]. Each is
// one function, and one sub-command of package command.
//
// The package depends on the configuration and opens the back ends itself (package backends). It
// reads definitions from the store (package definitions). Of a running service it uses only the
// HTTP routes. To add a command, write a file here and add a case to package command.
package ops
