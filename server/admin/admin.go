// Package admin has the words in which administrators read and change a cluster: biz types, nodes,
// figures, reasons. It is what package definitions, nodes and figures offer, and what package
// httpapi and drop-ins ask for, so that neither side imports the other. It knows no protocol. Types
// that leave the process have their JSON names here, once: the API and documents in the store use
// the same.
package admin

import "time"

// TimeFormat is how a time is shown, in UTC: RFC 3339 with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// Time formats a time in ms since the Unix epoch.
func Time(ms int64) string { return time.UnixMilli(ms).UTC().Format(TimeFormat) }
