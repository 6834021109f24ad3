package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"
	mongooptions "go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
)

// mongoEnv is the environment variable with the URI of a MongoDB server to use instead of the
// stand-in.
const mongoEnv = "SEQD_TEST_MONGO_URI"

// backends are the servers of one figure: Redis without persistence, and MongoDB or its stand-in.
type backends struct {
	redisAddr string
	redis     *redis.Client // to inspect the server
	mongoURI  string
	// postgresURL is that of the PostgreSQL server, without a database; it ends in a slash.
	postgresURL string
	mariaDBAddr string
	databases   []string // used on the MongoDB server
	cleanUps    []func() error
}

// startBackends starts both servers. If ownStore is set, the store is always the stand-in.
func startBackends(ctx context.Context, o options, ownStore bool) (b *backends, err error) {
	b = &backends{mongoURI: os.Getenv(mongoEnv)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if err := b.startRedis(ctx); err != nil {
		return b, err
	}
	if b.mongoURI == "" || ownStore {
		return b, b.startStandIn(ctx, o)
	}
	client, err := mongo.Connect(mongooptions.Client().ApplyURI(b.mongoURI))
	if err != nil {
		return b, err
	}
	b.cleanUps = append(b.cleanUps, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var failed []error
		for _, name := range b.databases {
			failed = append(failed, client.Database(name).Drop(ctx))
		}
		return errors.Join(errors.Join(failed...), client.Disconnect(ctx))
	})
	return b, client.Ping(ctx, nil)
}

func (b *backends) startRedis(ctx context.Context) (err error) {
	if b.redisAddr, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(b.redisAddr)
	err = b.start(ctx, b.redisAddr, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err != nil {
		return err
	}
	b.redis = redis.NewClient(&redis.Options{Addr: b.redisAddr})
	b.cleanUps = append(b.cleanUps, b.redis.Close)
	return b.redis.Ping(ctx).Err()
}

func (b *backends) startStandIn(ctx context.Context, o options) error {
	if o.standIn == "" {
		return errors.New("-standin is needed")
	}
	data, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return err
	}
	b.cleanUps = append(b.cleanUps, func() error { return os.RemoveAll(data) })
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	b.mongoURI = "mongodb://" + addr
	// The speed of the disk is not measured here.
	return b.start(ctx, addr, nil, o.standIn, "-listen", addr, "-dir", data, "-synchronous", "off")
}

// start starts a child process that lives until stop, and waits until it listens on addr.
func (b *backends) start(ctx context.Context, addr string, env []string, path string, args ...string) error {
	c, err := startChild(ctx, "", env, path, args...)
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	b.cleanUps = append(b.cleanUps, c.stop)
	return c.await(ctx, addr)
}

// stop stops everything in reverse order.
func (b *backends) stop() error {
	var failed []error
	for _, f := range slices.Backward(b.cleanUps) {
		failed = append(failed, f())
	}
	b.cleanUps = nil
	return errors.Join(failed...)
}

// config returns the configuration of a seqd on these servers. Nodes with the same name share their
// counters.
func (b *backends) config(name string, bizTypes []seqd.BizType) *config.Config {
	cfg := config.Default()
	cfg.Store.Driver = "mongo"
	cfg.Store.Mongo.URI, cfg.Store.Mongo.Database = b.mongoURI, b.databaseFor(name)
	cfg.Redis.Addrs, cfg.Redis.KeyPrefix = []string{b.redisAddr}, name+":"
	cfg.BizTypes = bizTypes
	return &cfg
}

// databaseFor returns the name of a database of this run. If the server outlives the run, the
// database is dropped at the end.
func (b *backends) databaseFor(name string) string {
	database := fmt.Sprintf("seqdbench%d%s", os.Getpid(), name)
	b.databases = append(b.databases, database)
	return database
}

// seqd runs seqd in this process on these servers until stop is called.
func (b *backends) seqd(ctx context.Context, cfg *config.Config, opts ...server.Option) (url string, err error) {
	url, stop, err := runSeqd(ctx, cfg, opts...)
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, stop)
	return url, nil
}

// work is what a Redis server has done since its start.
type work struct {
	scripts float64 // calls of EVALSHA, one for each take and each install
	trips   float64 // reads from connections: a batch of commands is one, if it is not large
	cpu     float64 // seconds
}

// work asks the server what it has done.
func (b *backends) work(ctx context.Context) (w work, err error) {
	commands, err := b.redis.Info(ctx, "commandstats").Result()
	if err != nil {
		return w, err
	}
	cpu, err := b.redis.Info(ctx, "cpu").Result()
	if err != nil {
		return w, err
	}
	stats, err := b.redis.Info(ctx, "stats").Result()
	if err != nil {
		return w, err
	}
	for line := range strings.Lines(commands + cpu + stats) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var n float64
		switch name {
		case "cmdstat_evalsha":
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			w.scripts, err = strconv.ParseFloat(value, 64)
		case "total_reads_processed":
			w.trips, err = strconv.ParseFloat(value, 64)
		case "used_cpu_user", "used_cpu_sys":
			n, err = strconv.ParseFloat(value, 64)
			w.cpu += n
		}
		if err != nil {
			return w, fmt.Errorf("INFO says %q: %w", line, err)
		}
	}
	return w, nil
}

// during returns what the server did per ID during a load of one ID per request.
func (b *backends) during(ctx context.Context, run func() (load, error)) (l load, perID work, err error) {
	before, err := b.work(ctx)
	if err != nil {
		return l, perID, err
	}
	if l, err = run(); err != nil {
		return l, perID, err
	}
	after, err := b.work(ctx)
	return l, work{
		scripts: (after.scripts - before.scripts) / l.requests,
		trips:   (after.trips - before.trips) / l.requests,
		cpu:     (after.cpu - before.cpu) / l.requests,
	}, err
}

// child is a process that ends with this one, if not before.
type child struct {
	cmd    *exec.Cmd
	end    context.CancelFunc
	out    bytes.Buffer  // read only after the process has ended
	exited chan struct{} // closed after the process has ended and err is set
	err    error
}

func startChild(ctx context.Context, dir string, env []string, path string, args ...string) (*child, error) {
	return startChildAs(ctx, nil, dir, env, path, args...)
}

// startChildAs is startChild for another user, unless who is nil.
func startChildAs(ctx context.Context, who *syscall.Credential, dir string, env []string, path string, args ...string) (*child, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &child{cmd: exec.CommandContext(ctx, path, args...), end: cancel, exited: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = dir, append(environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 10 * time.Minute
	// The kernel ends the child with the thread that started it, so that thread is kept.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: who}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, err
	}
	return c, nil
}

// await waits until the process listens on addr.
func (c *child) await(ctx context.Context, addr string) error {
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s: %w: %s", c.cmd.Path, c.err, c.out.Bytes())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop asks the process to end and waits for it.
func (c *child) stop() error {
	c.end()
	<-c.exited
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %w: %s", c.cmd.Path, c.err, c.out.Bytes())
	}
	return nil
}

// environ returns the environment without the settings of seqd.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SEQD_") })
}

// freeAddr returns an unused address.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
