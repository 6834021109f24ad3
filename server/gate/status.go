package gate

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

// StatusOf returns the HTTP status of a code. It is 500 and above if the service failed and not the
// request, in other protocols too. A code that is not known comes from foreign code and is an
// internal error.
func StatusOf(code seqd.Code) int {
	m, _ := code.Meaning()
	return m.Status
}

// ReasonOf returns what callers may see of why a biz type cannot issue or is degraded. It leaves
// out the cause. A code that is not known becomes [seqd.CodeInternal].
func ReasonOf(bizType string, why *seqd.Error) admin.Reason {
	m, _ := why.Code.Meaning()
	return admin.Reason{BizType: bizType, Code: m.Code, Detail: why.Detail}
}
