package retry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/internal/testing/must"
)

var errAway = errors.New("away")

// record returns an attempt that returns the errors in turn, the last one repeatedly, and the
// time of each call since now.
func record(errs ...error) (attempt func(context.Context) error, times *[]time.Duration) {
	times = new([]time.Duration)
	start := time.Now()
	return func(context.Context) error {
		*times = append(*times, time.Since(start))
		return errs[min(len(*times), len(errs))-1]
	}, times
}

func ms(n ...int) (d []time.Duration) {
	for _, n := range n {
		d = append(d, time.Duration(n)*time.Millisecond)
	}
	return d
}

func TestPausesDoubleUpToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempt, times := record(errAway, errAway, errAway, errAway, errAway, nil)
		err := retry.Do(t.Context(), retry.Policy{First: 10 * time.Millisecond, Last: 50 * time.Millisecond}, attempt)
		if want := ms(0, 10, 30, 70, 120, 170); err != nil || !slices.Equal(*times, want) {
			t.Errorf("attempts at %v, error %v; want %v", *times, err, want)
		}
	})
}

func TestPausesStayTheSameWithoutALast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempt, times := record(errAway, errAway, errAway, nil)
		err := retry.Do(t.Context(), retry.Policy{First: time.Second}, attempt)
		if want := ms(0, 1000, 2000, 3000); err != nil || !slices.Equal(*times, want) {
			t.Errorf("attempts at %v, error %v; want %v", *times, err, want)
		}
	})
}

// TestNoTimeLimit repeats for longer than the library does by default.
func TestNoTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		attempt, times := record(errAway)
		err := retry.Do(ctx, retry.Policy{First: time.Second, Last: time.Minute}, attempt)
		if !errors.Is(err, context.DeadlineExceeded) || len(*times) < 24*60 {
			t.Errorf("%d attempts, error %v", len(*times), err)
		}
	})
}

func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempt, times := record(errAway)
		err := retry.Do(t.Context(), retry.Policy{First: time.Second, Attempts: 3}, attempt)
		if !errors.Is(err, errAway) || len(*times) != 3 {
			t.Errorf("%d attempts, error %v", len(*times), err)
		}
	})
}

func TestPermanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempt, times := record(errors.New("passes"), retry.Permanent(errAway))
		err := retry.Do(t.Context(), retry.Policy{First: time.Second}, attempt)
		if err != errAway || len(*times) != 2 { //nolint:errorlint // it is the error itself
			t.Errorf("%d attempts, error %v", len(*times), err)
		}
	})
	must.Equal(t, retry.Permanent(nil), nil, "Permanent(nil)")
}

func TestContextEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the program stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(stop) })
		start := time.Now()
		attempt, times := record(errAway)
		failed := 0
		err := retry.Do(ctx, retry.Policy{First: time.Second, Failed: func(error) { failed++ }}, attempt)
		if !errors.Is(err, stop) || len(*times) != 2 || failed != 2 || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%d attempts, %d notes, error %v after %v", len(*times), failed, err, time.Since(start))
		}
	})
}

// TestContextEndsAnAttempt checks that an attempt that fails because ctx ended is not reported.
func TestContextEndsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := func(err error) { t.Errorf("reported: %v", err) }
		err := retry.Do(ctx, retry.Policy{First: time.Second, Failed: failed}, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		must.Is(t, err, context.DeadlineExceeded)
	})
}

func TestJitterIsUpToHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		attempt, times := record(errAway)
		_ = retry.Do(ctx, retry.Policy{First: time.Second, Last: 8 * time.Second, Jitter: true}, attempt)
		grown, lengths := time.Second, map[time.Duration]bool{}
		for i := range len(*times) - 1 {
			pause := (*times)[i+1] - (*times)[i]
			if pause < grown/2-1 || pause > grown+1 {
				t.Errorf("pause %d is %v of %v", i, pause, grown)
			}
			lengths[pause] = true
			grown = min(2*grown, 8*time.Second)
		}
		if len(lengths) < 100 {
			t.Errorf("only %d different pauses", len(lengths))
		}
	})
}

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// the first asks for more than the pause, the second for less
		attempt, times := record(retry.After(5*time.Second, errAway), retry.After(time.Second, errAway), errAway, nil)
		failed := func(err error) {
			if !errors.Is(err, errAway) || err.Error() != errAway.Error() {
				t.Errorf("reported %v", err)
			}
		}
		err := retry.Do(t.Context(), retry.Policy{First: time.Second, Last: time.Minute, Failed: failed}, attempt)
		if want := ms(0, 5000, 7000, 11000); err != nil || !slices.Equal(*times, want) {
			t.Errorf("attempts at %v, error %v; want %v", *times, err, want)
		}
	})
}

func TestOnChange(t *testing.T) {
	var seen []string
	note := retry.OnChange(func(err error) { seen = append(seen, err.Error()) })
	for _, text := range []string{"", "", "a", "a", "b", "a"} {
		note(errors.New(text))
	}
	if want := []string{"", "a", "b", "a"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}
