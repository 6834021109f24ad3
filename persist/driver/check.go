package driver

import (
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// Within returns list, with a problem of key added if value is less than least or more than most.
func Within(list []seqd.Problem, key string, value, least, most time.Duration) []seqd.Problem {
	if err := literal.Within(value, least, most); err != nil {
		list = append(list, seqd.Problem{Key: key, Text: err.Error()})
	}
	return list
}
