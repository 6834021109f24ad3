package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/await"
)

// Sentinels is a trio of Sentinels that watch one master and its replicas.
type Sentinels struct {
	Name  string   // the name of the master
	Trio  []*Redis // the Sentinels, to be killed and paused like other servers
	t     testing.TB
	nodes []*Redis // the servers that they watch
}

// StartSentinels starts three Sentinels with a quorum of two, and waits until they know each other
// and all the replicas. No master ever counts as dead by itself, because a machine that stalls
// looks like one: see [Sentinels.Failover]. Nor does a failover end because of a stall.
func StartSentinels(t testing.TB, master *Redis, replicas ...*Redis) *Sentinels {
	t.Helper()
	const never = 3_600_000 // ms
	s := &Sentinels{Name: Unique(), t: t, nodes: append([]*Redis{master}, replicas...)}
	for range 3 {
		sentinel := newRedis(t, "sentinel",
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", s.Name, master.port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", s.Name, never),
			fmt.Sprintf("sentinel failover-timeout %s %d", s.Name, never))
		sentinel.sentinel = true
		sentinel.start()
		ctx, cancel := within()
		// Otherwise a Sentinel does nothing for 30 s after each stall of 2 s.
		must(t, sentinel, "SENTINEL DEBUG", sentinel.client.Do(ctx, "SENTINEL", "DEBUG", "tilt-trigger", never).Err())
		cancel()
		s.Trio = append(s.Trio, sentinel)
	}
	for _, sentinel := range s.Trio {
		sentinel.await("the Sentinels know each other", func(ctx context.Context) error { return s.complete(ctx, sentinel) })
	}
	return s
}

// complete returns an error until a Sentinel knows all Sentinels and replicas.
func (s *Sentinels) complete(ctx context.Context, sentinel *Redis) error {
	// go-redis has SENTINEL commands only on a separate kind of client.
	reply := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", s.Name)
	if err := sentinel.client.Process(ctx, reply); err != nil {
		return err
	}
	known := reply.Val()
	if known["num-other-sentinels"] != "2" || known["num-slaves"] != fmt.Sprint(len(s.nodes)-1) || known["flags"] != "master" {
		return fmt.Errorf("%s knows %s Sentinels and %s replicas of a %s", sentinel.name, known["num-other-sentinels"], known["num-slaves"], known["flags"])
	}
	return nil
}

// Addrs returns the addresses of the Sentinels.
func (s *Sentinels) Addrs() []string {
	var addrs []string
	for _, sentinel := range s.Trio {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

// Client returns a client that finds the master through the Sentinels, for the preparations and
// checks of a test.
func (s *Sentinels) Client() *redis.Client {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.Name, SentinelAddrs: s.Addrs(), DisableIdentity: true, DialerRetries: 1, ReadTimeout: await.Patience,
	})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// master returns the server that all Sentinels name, or an error if it is the dead one or does not
// have the role yet.
func (s *Sentinels) master(ctx context.Context, dead *Redis) (*Redis, error) {
	var agreed *Redis
	for _, sentinel := range s.Trio {
		if !sentinel.process.answers() {
			continue
		}
		named, err := s.named(ctx, sentinel)
		if err != nil {
			return nil, err
		}
		if agreed != nil && agreed != named {
			return nil, fmt.Errorf("one names %s and another %s", agreed.name, named.name)
		}
		agreed = named
	}
	if agreed == nil {
		return nil, errors.New("no Sentinel runs")
	}
	if agreed == dead {
		return nil, fmt.Errorf("it is still %s", agreed.name)
	}
	info, err := agreed.info(ctx, "replication")
	if err == nil && info["role"] != "master" {
		err = fmt.Errorf("%s says that it is a %s", agreed.name, info["role"])
	}
	return agreed, err
}

// named returns the server that one Sentinel names as the master.
func (s *Sentinels) named(ctx context.Context, sentinel *Redis) (*Redis, error) {
	reply, err := sentinel.client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name).StringSlice()
	if err != nil || len(reply) != 2 {
		return nil, fmt.Errorf("%s named %v: %w", sentinel.name, reply, err)
	}
	addr := net.JoinHostPort(reply[0], reply[1])
	at := slices.IndexFunc(s.nodes, func(r *Redis) bool { return r.Addr() == addr })
	if at < 0 {
		return nil, fmt.Errorf("%s named %s", sentinel.name, addr)
	}
	return s.nodes[at], nil
}

// Failover makes the Sentinels promote a replica of a master that was killed, waits until all of
// them know, and returns the new master.
func (s *Sentinels) Failover(dead *Redis) (heir *Redis) {
	s.t.Helper()
	ask := again(s.forceFailover)
	eventually(s.t, "SENTINEL FAILOVER", func(ctx context.Context) (err error) {
		if heir, err = s.master(ctx, dead); err != nil {
			err = errors.Join(err, ask(ctx))
		}
		return err
	})
	return heir
}

// forceFailover fails during another failover, and while no replica is known to be good.
func (s *Sentinels) forceFailover(ctx context.Context) error {
	for _, sentinel := range s.Trio {
		if sentinel.process.answers() {
			return sentinel.client.Do(ctx, "SENTINEL", "FAILOVER", s.Name).Err()
		}
	}
	return errors.New("no Sentinel runs")
}

// Log returns the logs of the Sentinels.
func (s *Sentinels) Log() string { return logs(s.Trio) }

// logs joins the ends of several logs.
func logs(servers []*Redis) string {
	var all string
	for _, server := range servers {
		log := server.Log()
		all += fmt.Sprintf("== %s\n%s\n", server.name, log[max(0, len(log)-tail/len(servers)):])
	}
	return all
}
