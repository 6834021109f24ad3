package compat

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/httpapi"
)

// machines answers as CosId's proxy server does, for machine IDs. A namespace is a pool of worker IDs.
//
// Its client gets a machine ID when it starts, waits until its clock has come to lastTimeStamp, and
// throws if that takes longer than 500 ms. From then on it makes numbers, whatever happens: every
// minute it guards its machine ID, and an error of that is a line in its log and in its health. It
// knows its instance and nothing of a lease.
//
// When Spring stops it, it first reverts its machine ID, and goes on making numbers while the last
// requests are answered. It does not say which times it has used. So a revert changes nothing: the
// machine ID is free when its lease has ended.
type machines struct{ *guests }

func (s machines) routes() []httpapi.Extra {
	return []httpapi.Extra{{
		Methods: []string{http.MethodPost, http.MethodPatch, http.MethodDelete}, Path: "/machines/:namespace", Guests: true, Serve: s.serve, Fail: failMachine,
	}}
}

// serve answers
//
//	POST   /machines/{namespace}?instanceId=&stable=&safeGuardDuration=&machineBit=
//	PATCH  /machines/{namespace}?instanceId=&stable=&safeGuardDuration=
//	DELETE /machines/{namespace}?instanceId=&stable=
func (s machines) serve(v *httpapi.Visit) error {
	pool, method := v.Param("namespace"), v.Request().Method
	if err := s.admit(v, access.ScopeLease, pool, ""); err != nil {
		return err
	}
	values, err := v.Parameters()
	if err != nil {
		return err
	}
	instance, err := instanceOf(values)
	if err != nil {
		return err
	}
	if method == http.MethodDelete {
		v.Answer(http.StatusOK, nil, nil)
		return nil
	}
	reach, err := safeGuard(values)
	if err != nil {
		return err
	}
	r, err := s.gate.Running()
	if err != nil {
		return err
	}
	if method == http.MethodPatch {
		if err := r.Workers.Guard(v.Context(), pool, instance, reach); err != nil {
			return err
		}
		v.Answer(http.StatusOK, nil, nil)
		return nil
	}
	bits, err := whole(values, "machineBit", 1, 31)
	if err != nil {
		return err
	}
	id, begin, err := r.Workers.Distribute(v.Context(), pool, int(bits), instance, reach)
	if err != nil {
		return err
	}
	answerJSON(v, http.StatusOK, jsonType, map[string]int64{"machineId": id, "lastTimeStamp": begin.UnixMilli()})
	return nil
}

// failMachine answers with an error object. The two failures that clients know have codes of CosId.
func failMachine(v *httpapi.Visit, err *seqd.Error) {
	switch {
	case errors.Is(err, admin.ErrAllHeld):
		answerFailure(v, http.StatusBadRequest, "M-01", err)
	case err.Code == seqd.CodeLeaseLost:
		answerFailure(v, http.StatusBadRequest, "M-03", err)
	default:
		failCosID(v, err)
	}
}

// instanceOf returns the instance of a request. Whether it is stable changes nothing: every instance
// gets the machine ID that it had, if that is free.
func instanceOf(values url.Values) (string, error) {
	stable, err := one(values, "stable")
	if _, ok := literal.Bool(stable); err == nil && !ok {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "stable is %.40q and must be true or false", stable)
	}
	if err != nil {
		return "", err
	}
	return one(values, "instanceId")
}

// isoDuration is how Java writes a duration that is not negative.
var isoDuration = regexp.MustCompile(`^PT(\d+H)?(\d+M)?(\d+(\.\d+)?S)?$`)

// safeGuard returns how long a machine ID stays leased if nobody guards it.
func safeGuard(values url.Values) (time.Duration, error) {
	text, err := one(values, "safeGuardDuration")
	if err != nil {
		return 0, err
	}
	d, wrong := time.ParseDuration(strings.ToLower(strings.TrimPrefix(text, "PT")))
	if !isoDuration.MatchString(text) || wrong != nil || d < time.Second || d > time.Hour {
		return 0, seqd.Errorf(seqd.CodeInvalidRequest, "safeGuardDuration is %.40q and must be PT1S to PT1H, such as PT5M: "+
			"set cosid.machine.guarder.safe-guard-duration, and leave cosid.machine.guarder.enabled true", text)
	}
	return d, nil
}
