package console

import (
	"strconv"
	"testing"
	"time"
)

// Very many callers make a limiter remember no more.
func TestLimitersRememberLittle(t *testing.T) {
	l := newLimiter(time.Now, 5, 60)
	l.first = true
	for i := range 1000 {
		if _, err := l.take(strconv.Itoa(i)); err != nil {
			t.Fatalf("the first attempt of caller %d: %v", i, err)
		}
	}
	if len(l.attempts) != 60 {
		t.Errorf("%d attempts are remembered", len(l.attempts))
	}
	if _, err := l.take("999"); err == nil {
		t.Error("a second attempt was let in")
	}

	l = newLimiter(time.Now, 5, 60)
	l.first, l.most = true, 100
	for i := range 1000 {
		if _, err := l.take(strconv.Itoa(i)); (err == nil) != (i < 100) {
			t.Fatalf("the first attempt of caller %d: %v", i, err)
		}
	}
	if len(l.attempts) != 100 {
		t.Errorf("%d attempts are remembered", len(l.attempts))
	}
}
