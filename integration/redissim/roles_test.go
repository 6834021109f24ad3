package redissim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
)

// TestRoles compares what INFO says of replication when servers follow each other, are promoted and
// restarted, with and without data.
func TestRoles(t *testing.T) {
	t.Parallel()
	first := testenv.StartRedis(t)
	real := []*testenv.Redis{first, testenv.StartReplica(t, first)}
	d := redissim.New(redissim.Options{Servers: 2})
	t.Cleanup(d.Close)
	simulated := d.Servers()
	var snapshot testenv.RedisSnapshot
	seen := [2][]string{}
	for _, step := range []struct {
		name      string
		real, sim func()
	}{
		{"begin", func() {}, func() {}},
		{"save", func() { snapshot = real[0].SaveSnapshot() }, simulated[0].Save},
		{"promote", real[1].Promote, simulated[1].Promote},
		{"follow", func() { real[0].Follow(real[1]) }, func() { simulated[0].Follow(simulated[1]); simulated[0].Sync() }},
		{"promote again", real[0].Promote, simulated[0].Promote},
		{"restart without data", real[0].RestartEmpty, func() { simulated[0].Start(redissim.Nothing) }},
		{"restart with a snapshot", func() { real[0].RestartFrom(snapshot) }, func() { simulated[0].Start(redissim.Snapshot) }},
		{"follow again", func() { real[1].Follow(real[0]) }, func() { simulated[1].Follow(simulated[0]); simulated[1].Sync() }},
		{"kill the replica", real[1].Kill, simulated[1].Kill},
	} {
		step.real()
		step.sim()
		want := state(&seen[1], info(t, simulated[0]), info(t, simulated[1]))
		var got string
		end := time.Now().Add(await.Patience) // a primary notices late that a replica has left
		for before := slices.Clone(seen[0]); got != want && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			seen[0] = slices.Clone(before)
			replica := ""
			if simulated[1].Up() {
				replica = infoOf(t, real[1])
			}
			got = state(&seen[0], infoOf(t, real[0]), replica)
		}
		if got != want {
			t.Errorf("%s:\nreal      %s\nsimulated %s", step.name, got, want)
		}
	}
}

// info returns what a server says of replication, "" if it is down.
func info(t *testing.T, s *redissim.Server) string {
	if !s.Up() {
		return ""
	}
	text := must.Get(s.Do("INFO", "replication"))(t)
	return text.(string)
}

func infoOf(t *testing.T, r *testenv.Redis) string {
	return must.Get(r.Client().Info(t.Context(), "replication").Result())(t)
}

// state returns what two servers say, with replication IDs in the order in which they were seen.
func state(seen *[]string, infos ...string) string {
	var words []string
	for i, text := range infos {
		words = append(words, "server "+string(rune('0'+i)))
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch name {
			case "role", "connected_slaves", "master_link_status":
				words = append(words, name+":"+value)
			case "master_replid", "master_replid2":
				if name == "master_replid2" && strings.Contains(text, "role:slave") {
					continue // it depends on what was synchronized, and nobody reads it
				}
				n := slices.Index(*seen, value)
				if n < 0 {
					n = len(*seen)
					*seen = append(*seen, value)
				}
				words = append(words, name+":"+string(rune('A'+n)))
			}
		}
	}
	return strings.Join(words, " ")
}
