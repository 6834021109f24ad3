package httpapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/gate"
)

// parsing serves /seq/{bizType}/parse/{id}?key=.
type parsing struct{ gate *gate.Gate }

// parsed is the answer of the parse route.
type parsed struct {
	BizType string `json:"bizType"`
	ID      string `json:"id"`
	Number  string `json:"number"`
	Valid   bool   `json:"valid"`
	Key     string `json:"key,omitempty"`
	// Period is the day, month or year that the number belongs to: 2026-11-20, 2026-11 or 2026.
	Period string `json:"period,omitempty"`
	// At, MachineID and Sequence are what a number of snowflake contains: when it was made, in
	// UTC to the millisecond, with which machine ID, and its position in that millisecond.
	At        string `json:"at,omitempty"`
	MachineID *int64 `json:"machineId,omitempty"`
	Sequence  *int64 `json:"sequence,omitempty"`
}

// parse answers GET /seq/{bizType}/parse/{id}.
func (p parsing) parse(c *gin.Context) error {
	issuer, err := p.gate.Issuer()
	if err != nil {
		return err
	}
	values, err := readQuery(c.Request.URL.RawQuery, "key")
	if err != nil {
		return err
	}
	key, _, err := counterIn(values)
	if err != nil {
		return err
	}
	bizType, id := c.Param("bizType"), c.Param("id")
	number, err := issuer.ParseOf(c.Request.Context(), bizType, id, key)
	if err != nil {
		return err
	}
	answer := parsed{
		BizType: bizType, ID: id, Number: strconv.FormatInt(number.Number, 10), Valid: number.Valid, Key: number.Key,
		Period: number.Period.String(), At: shownTime(number.Time), MachineID: number.MachineID, Sequence: number.Sequence,
	}
	writeJSON(c, http.StatusOK, jsonType, answer)
	return nil
}
