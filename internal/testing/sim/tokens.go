package sim

import (
	"crypto/sha256"
	"fmt"
)

// admin is the secret of a token that may do everything, which the usual callers and operators
// have.
const admin = "seqd_admin0000000000000000000000000"

// tokenSettings are those of nodes whose callers need tokens.
func tokenSettings() map[string]string {
	return map[string]string{
		"SEQD_AUTH_MODE": "token", "SEQD_COMPAT_TOKEN": "ops",
		"SEQD_AUTH_TOKENS": fmt.Sprintf(`[{"name":"ops","sha256":"%x","scopes":["admin","read","issue:*","lease:*"]}]`, sha256.Sum256([]byte(admin))),
	}
}
