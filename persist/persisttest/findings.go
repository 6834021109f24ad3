package persisttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/persist/driver"
)

// Findings has a line for each finding of an examination, such as
// "warn store.x.uri: it is slow → put it nearer".
type Findings []string

func (f *Findings) add(level driver.Level, subject, change, found string, args ...any) {
	*f = append(*f, level.String()+" "+subject+": "+fmt.Sprintf(found, args...)+" → "+change)
}

// Examination returns an examination of a section that reports here.
func (f *Findings) Examination(section, key string) driver.Examination {
	return driver.Examination{
		Add: f.add, Section: section, Key: section + "." + key, Clock: func(string, time.Duration, time.Duration) {},
	}
}

// Want checks that a line begins with level and subject and contains part.
func (f *Findings) Want(t *testing.T, begin, part string) {
	t.Helper()
	for _, line := range *f {
		if strings.HasPrefix(line, begin+": ") && strings.Contains(line, part) {
			return
		}
	}
	t.Errorf("no %s with %q in %q", begin, part, *f)
}

// Quiet checks that nothing is worse than info.
func (f *Findings) Quiet(t *testing.T) {
	t.Helper()
	for _, line := range *f {
		if strings.HasPrefix(line, "warn ") || strings.HasPrefix(line, "FAIL ") {
			t.Error(line)
		}
	}
}
