package audit

import "time"

// Of the lines that anybody can cause, mostEach of each caller are logged within sayEvery, and
// mostSaid of all callers.
const (
	sayEvery = 10 * time.Second
	mostEach = 20
	mostSaid = 200
)

// limit bounds the lines that callers can cause who have no right to, so that they can neither fill
// the log nor stay unseen: a few lines for each caller, and how many were left out before each.
// Those whose token is known have a limit of their own, which nobody else can use up.
type limit struct {
	began   time.Time
	said    map[string]int // by caller
	all     int
	leftOut int64
}

// take reports whether a line of a caller is logged, and how many were not before it. A caller is a
// token, from wherever it is shown, or an address.
func (l *limit) take(caller string, now time.Time) (leftOut int64, ok bool) {
	if passed := now.Sub(l.began); l.said == nil || passed >= sayEvery || passed < 0 {
		l.began, l.said, l.all = now, make(map[string]int), 0
	}
	if l.said[caller] >= mostEach || l.all >= mostSaid {
		l.leftOut++
		return 0, false
	}
	l.said[caller]++
	l.all++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}
