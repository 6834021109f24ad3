package definitions

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// What is repeated after the reset of a gapless biz type was changed is not shown as a number of a
// present period, which may be somebody else's. It is shown again if the reset is changed back.
func TestRepeatedUnderAnotherReset(t *testing.T) {
	const template = `,"plugins":[{"name":"format","template":"{date:`
	shapes := map[seqd.Reset]string{
		seqd.ResetNever: `{"strategy":"gapless"}`, seqd.ResetDaily: `{"strategy":"gapless","reset":"daily"` + template + `20060102}-{seq}"}]}`,
		seqd.ResetMonthly: `{"strategy":"gapless","reset":"monthly"` + template + `200601}-{seq}"}]}`,
		seqd.ResetYearly:  `{"strategy":"gapless","reset":"yearly"` + template + `2006}-{seq}"}]}`,
		"segment":         `{"strategy":"segment"}`, "snowflake": `{"strategy":"snowflake"}`,
	}
	for before, shape := range shapes {
		for after := range shapes {
			if before == after || !before.Valid() || before == seqd.ResetNever && !after.Valid() {
				continue
			}
			t.Run(string(before+" "+after), func(t *testing.T) {
				onFakeClock(t, func(t *testing.T) { repeatUnder(t, shape, shapes[after], after.Valid()) })
			})
		}
	}
}

func repeatUnder(t *testing.T, before, after string, gapless bool) {
	c := newNode(t, newFaulty(false))
	put := func(definition string) {
		t.Helper()
		must.Get(c.Enable(t.Context(), "order", false, always))(t)
		c.mustPut(t, "order", definition, forced())
		must.Get(c.Enable(t.Context(), "order", true, always))(t)
	}
	ask := func(want seqd.Want, once string) (*seqd.Call, error) {
		return ask(t, c, &seqd.Call{BizType: "order", Count: 1, Want: want, Once: once, AnswerKept: true, TTL: time.Hour})
	}
	c.mustPut(t, "order", before, always)
	issued := must.Get(ask(seqd.AnyNumbers, "issue"))(t).Sequence.IDs()[0]
	reservation := must.Get(ask(seqd.ReservedNumbers, "reserve"))(t).Reservation.ID
	put(after)
	c.mustIssue(t, "order")
	_, err := ask(seqd.AnyNumbers, "issue")
	must.Code(t, err, seqd.CodeConflict)
	if gapless {
		_, err = ask(seqd.ReservedNumbers, "reserve")
		must.Code(t, err, seqd.CodeConflict)
		call := &seqd.Call{BizType: "order"}
		must.Do(t, c.issuer.Confirm(t.Context(), call, reservation, false))
		if ids := call.Sequence.IDs(); len(ids) > 0 || call.Reservation.State != seqd.Confirmed {
			t.Errorf("confirmed %q, %s", ids, call.Reservation.State)
		}
	}
	put(before)
	must.Equal(t, must.Get(ask(seqd.AnyNumbers, "issue"))(t).Sequence.IDs()[0], issued, "the ID when the request is repeated")
}

// A key has one place, whatever the strategy of its biz type was when it got its first number.
func TestPlacesAfterAnotherStrategy(t *testing.T) {
	for _, change := range [][2]string{{"segment", "gapless"}, {"gapless", "segment"}} {
		onFakeClock(t, func(t *testing.T) {
			c := newNode(t, newFaulty(false))
			put := func(strategy string) {
				t.Helper()
				c.mustPut(t, "ticket", `{"strategy":"`+strategy+`","keyed":true,"maxKeys":2}`, forced())
			}
			put(change[0])
			for _, strategy := range []string{change[1], change[0], change[1]} {
				c.ids(t, "a", 1)
				c.ids(t, "b", 1)
				put(strategy)
				c.ids(t, "b", 1)
				for range 2 {
					_, err := ask(t, c, &seqd.Call{BizType: "ticket", Count: 1, Key: "c"})
					must.Code(t, err, seqd.CodeTooManyKeys, "%s", strategy)
					time.Sleep(5 * time.Minute) // until the keys were counted
				}
			}
		})
	}
}

func ask(t *testing.T, c *node, call *seqd.Call) (*seqd.Call, error) {
	t.Helper()
	err := c.issuer.Issue(t.Context(), call)
	return call, err
}
