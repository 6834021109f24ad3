package definitions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// The history of a deleted biz type is kept for its retention and no longer, also by a node that
// starts after the delete; unless the name is in use again.
func TestHistoryOfDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty(true)
		c := newNode(t, store)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.catalogue.Purge(ctx)
		records := func(name string) int {
			list := must.Get(store.History().List(t.Context(), persist.HistoryQuery{BizType: name, Limit: 10}))(t)
			return len(list)
		}
		wrong := newNodeOf(t, store, configuredWith(t, "{bizTypesFrom: store}"), func(o *Options) {
			o.Clock, o.Env.Now = time.Now, func() time.Time { return time.Now().Add(-time.Hour) }
		})
		issueAndDelete := func(name, retention string) {
			t.Helper()
			c.mustPut(t, name, fmt.Sprintf(`{"plugins":[{"name":"history","retention":"%s"}]}`, retention), always)
			c.mustIssue(t, name)
			time.Sleep(time.Second)                              // longer than flushInterval
			must.Get(wrong.Delete(t.Context(), name, always))(t) // its own clock is behind
			must.Do(t, c.feed.Poll(t.Context()))
		}
		issueAndDelete("gone", "1m")
		issueAndDelete("kept", "0s")
		issueAndDelete("again", "1m")
		c.mustPut(t, "again", `{}`, always)
		time.Sleep(45 * time.Second)
		must.Equal(t, records("gone"), 1, "the records before the end of the retention")
		time.Sleep(45 * time.Second)
		if gone, kept, again := records("gone"), records("kept"), records("again"); gone != 0 || kept != 1 || again != 1 {
			t.Errorf("records: %d, %d kept for ever, %d of a name in use", gone, kept, again)
		}
		issueAndDelete("late", "2m")
		stop()
		other := newNode(t, store)
		go other.catalogue.Purge(t.Context())
		time.Sleep(3 * time.Minute)
		must.Equal(t, records("late"), 0, "the records after another node has started")
		synctest.Wait()
		if left := other.catalogue.tombstones.dueAt(time.Now().Add(time.Hour)); len(left) > 0 {
			t.Errorf("still looked at: %q", left)
		}
	})
}

// A file of history may have got records of other biz types since one was deleted. They stay for as
// long as those say, also while no node holds them.
func TestHistoryOfDeletedInTheFileOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, folder := newFaulty(true), t.TempDir()
		issue := func(c *node, name, file, retention string) {
			t.Helper()
			c.mustPut(t, name, fmt.Sprintf(`{"plugins":[{"name":"history","to":"file","file":{"path":%q},"retention":%q}]}`, filepath.Join(folder, file), retention), always)
			c.mustIssue(t, name)
			time.Sleep(time.Second) // longer than flushInterval
		}
		c := newNode(t, store)
		for _, name := range []string{"gone", "gone-too", "before"} {
			issue(c, name, map[string]string{"before": "shared"}[name]+"h", "1m")
			must.Get(c.Delete(t.Context(), name, always))(t)
		}
		issue(c, "kept", "sharedh", "0s")
		must.Do(t, c.issuer.Close(t.Context()))
		other := newNode(t, store) // does not hold kept until it is asked for
		go other.catalogue.Purge(t.Context())
		time.Sleep(3 * time.Minute)
		left := ""
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		for _, file := range files {
			text, failed := os.ReadFile(file)
			if failed != nil {
				err = failed
			}
			left += string(text)
		}
		if err != nil || strings.Contains(left, "gone") || !strings.Contains(left, `"bizType":"kept"`) {
			t.Errorf("%v; left of the history: %s", err, left)
		}
	})
}
