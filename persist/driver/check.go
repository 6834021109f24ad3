package driver

import (
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// Within returns list, with a problem of key added if value is less than least or more than most.
func Within(list []seqd.Problem, key string, value, least, most time.Duration) []seqd.Problem {
	if value >= least && value <= most {
		return list
	}
	short := literal.ShortDuration
	return append(list, seqd.Problem{Key: key, Text: fmt.Sprintf("%s is outside %s to %s", short(value), short(least), short(most))})
}
