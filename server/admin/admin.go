// Package admin defines what administrators read and change in a cluster: biz types, nodes, figures
// and the audit log. It has interfaces and the types that they use. Packages definitions, nodes,
// figures and audit implement the interfaces; package httpapi and the drop-ins call them. So neither
// side imports the other. The package depends on no protocol. The JSON names of its types are the
// names in the API and in the documents in the store.
package admin

import "time"

// TimeFormat is how a time is shown, in UTC: RFC 3339 with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// Time formats a time in ms since the Unix epoch.
func Time(ms int64) string { return time.UnixMilli(ms).UTC().Format(TimeFormat) }
