package gate

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

// status maps every code to its HTTP status.
var status = map[seqd.Code]int{
	seqd.CodeInvalidBizType:       400,
	seqd.CodeInvalidCount:         400,
	seqd.CodeInvalidID:            400,
	seqd.CodeInvalidRequest:       400,
	seqd.CodeInvalidDefinition:    400,
	seqd.CodeUnauthorized:         401,
	seqd.CodeForbidden:            403,
	seqd.CodeUnknownBizType:       404,
	seqd.CodeNotFound:             404,
	seqd.CodeMethodNotAllowed:     405,
	seqd.CodeConflict:             409,
	seqd.CodeDisabled:             409,
	seqd.CodeExhausted:            409,
	seqd.CodeStoreFailedOver:      409,
	seqd.CodePreconditionFailed:   412,
	seqd.CodeBodyTooLarge:         413,
	seqd.CodeUnsupportedMediaType: 415,
	seqd.CodeURITooLong:           414,
	seqd.CodeHeadersTooLarge:      431,
	seqd.CodeInvalidKey:           400,
	seqd.CodeInvalidTTL:           400,
	seqd.CodeTooManyKeys:          409,
	seqd.CodeTooManyReserved:      409,
	seqd.CodeUnknownReservation:   404,
	seqd.CodeReservationExpired:   409,
	seqd.CodeReservationReleased:  409,
	seqd.CodeReservationConfirmed: 409,
	seqd.CodeNumberVoid:           409,
	seqd.CodeRateLimited:          429,
	seqd.CodeTooManyAnswers:       429,
	seqd.CodeAnswersFull:          507,
	seqd.CodeIdempotencyKeyReused: 422,
	seqd.CodePluginPanic:          500,
	seqd.CodeInternal:             500,
	seqd.CodeStarting:             503,
	seqd.CodeStopping:             503,
	seqd.CodeOverloaded:           503,
	seqd.CodeStoreUnavailable:     503,
	seqd.CodeRedisUnavailable:     503,
	seqd.CodeClockRollback:        503,
	seqd.CodeNoMachineID:          503,
	seqd.CodeCursorContested:      503,
	seqd.CodeTimeout:              503,
	seqd.CodeCanceled:             503,
}

// StatusOf returns the HTTP status of a code. It is 500 and above if the service failed and not the
// request, in other protocols too. A code that is not known comes from foreign code and is an
// internal error.
func StatusOf(code seqd.Code) (number int, known bool) {
	if number, known = status[code]; !known {
		number = 500
	}
	return number, known
}

// ReasonOf returns what callers may see of why a biz type cannot issue or is degraded. It leaves
// out the cause. A code that is not known becomes [seqd.CodeInternal].
func ReasonOf(bizType string, why *seqd.Error) admin.Reason {
	code := why.Code
	if _, known := StatusOf(code); !known {
		code = seqd.CodeInternal
	}
	return admin.Reason{BizType: bizType, Code: code, Detail: why.Detail}
}
