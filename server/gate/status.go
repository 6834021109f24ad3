package gate

import (
	"net/http"

	"github.com/seqd/seqd"
)

// status maps every code to its HTTP status.
var status = map[seqd.Code]int{
	seqd.CodeInvalidBizType:       http.StatusBadRequest,
	seqd.CodeInvalidCount:         http.StatusBadRequest,
	seqd.CodeInvalidID:            http.StatusBadRequest,
	seqd.CodeInvalidRequest:       http.StatusBadRequest,
	seqd.CodeInvalidDefinition:    http.StatusBadRequest,
	seqd.CodeUnauthorized:         http.StatusUnauthorized,
	seqd.CodeForbidden:            http.StatusForbidden,
	seqd.CodeUnknownBizType:       http.StatusNotFound,
	seqd.CodeNotFound:             http.StatusNotFound,
	seqd.CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	seqd.CodeConflict:             http.StatusConflict,
	seqd.CodeDisabled:             http.StatusConflict,
	seqd.CodeExhausted:            http.StatusConflict,
	seqd.CodeStoreFailedOver:      http.StatusConflict,
	seqd.CodePreconditionFailed:   http.StatusPreconditionFailed,
	seqd.CodeBodyTooLarge:         http.StatusRequestEntityTooLarge,
	seqd.CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	seqd.CodeURITooLong:           http.StatusRequestURITooLong,
	seqd.CodeHeadersTooLarge:      http.StatusRequestHeaderFieldsTooLarge,
	seqd.CodeInvalidKey:           http.StatusBadRequest,
	seqd.CodeInvalidTTL:           http.StatusBadRequest,
	seqd.CodeTooManyKeys:          http.StatusConflict,
	seqd.CodeTooManyReserved:      http.StatusConflict,
	seqd.CodeUnknownReservation:   http.StatusNotFound,
	seqd.CodeReservationExpired:   http.StatusConflict,
	seqd.CodeReservationReleased:  http.StatusConflict,
	seqd.CodeReservationConfirmed: http.StatusConflict,
	seqd.CodeNumberVoid:           http.StatusConflict,
	seqd.CodeRateLimited:          http.StatusTooManyRequests,
	seqd.CodeTooManyAnswers:       http.StatusTooManyRequests,
	seqd.CodeAnswersFull:          http.StatusInsufficientStorage,
	seqd.CodeIdempotencyKeyReused: http.StatusUnprocessableEntity,
	seqd.CodePluginPanic:          http.StatusInternalServerError,
	seqd.CodeInternal:             http.StatusInternalServerError,
	seqd.CodeStarting:             http.StatusServiceUnavailable,
	seqd.CodeStopping:             http.StatusServiceUnavailable,
	seqd.CodeOverloaded:           http.StatusServiceUnavailable,
	seqd.CodeStoreUnavailable:     http.StatusServiceUnavailable,
	seqd.CodeRedisUnavailable:     http.StatusServiceUnavailable,
	seqd.CodeClockRollback:        http.StatusServiceUnavailable,
	seqd.CodeNoMachineID:          http.StatusServiceUnavailable,
	seqd.CodeCursorContested:      http.StatusServiceUnavailable,
	seqd.CodeTimeout:              http.StatusServiceUnavailable,
	seqd.CodeCanceled:             http.StatusServiceUnavailable,
}

// StatusOf returns the HTTP status of a code. It is 500 and above if the service failed and not the
// request, in other protocols too. A code that is not known comes from foreign code and is an
// internal error.
func StatusOf(code seqd.Code) (number int, known bool) {
	if number, known = status[code]; !known {
		number = http.StatusInternalServerError
	}
	return number, known
}
