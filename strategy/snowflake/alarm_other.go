//go:build !linux

package snowflake

import "time"

// alarm exists on Linux only.
type alarm struct{}

func (*alarm) sleep(time.Duration) bool { return false }
