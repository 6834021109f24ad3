package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// peerCommand makes this program a peer: a gin route without middleware that does what seqd is
// compared with. Like seqd it is a process of its own.
const peerCommand = "peer"

// peerPath is the path of a peer's route, without a number at its end.
const peerPath = "/route"

// peerJob says what a peer does for each request. One of the last four fields is set.
type peerJob struct {
	Addr string
	// Constant are bodies that are written as they are: that of "/route0" is the first.
	Constant []peerBody `json:",omitempty"`
	// Redis is a server on which a request does one INCR.
	Redis string `json:",omitempty"`
	// Postgres is a database in which a request does one UPDATE … RETURNING.
	Postgres string `json:",omitempty"`
	// MariaDB is a database in which a request does what Tinyid's server does.
	MariaDB string `json:",omitempty"`
}

type peerBody struct{ Type, Body string }

// startPeer starts a peer and returns its URL.
func (s *servers) startPeer(ctx context.Context, job peerJob) (c *child, url string, err error) {
	if job.Addr, err = freeAddr(); err != nil {
		return nil, "", err
	}
	dir, err := s.folder()
	if err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "peer.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	c, err = s.start(ctx, job.Addr, self, peerCommand, file)
	return c, "http://" + job.Addr + peerPath, err
}

// startConstant starts a peer that writes the answers of seqd to other URLs.
func (s *servers) startConstant(ctx context.Context, urls ...string) (*child, string, error) {
	var bodies []peerBody
	for _, url := range urls {
		body, err := get(url)
		if err != nil {
			return nil, "", err
		}
		kind := "application/json"
		if body[0] != '{' {
			kind = "text/plain; charset=utf-8"
		}
		bodies = append(bodies, peerBody{kind, string(body)})
	}
	return s.startPeer(ctx, peerJob{Constant: bodies})
}

// servePeer is the process of a peer. It ends with ctx.
func servePeer(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var job peerJob
	if err := json.Unmarshal(text, &job); err != nil {
		return err
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	if err := job.routes(ctx, engine); err != nil {
		return err
	}
	s := &http.Server{Addr: job.Addr, Handler: engine, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// routes adds the routes of a job.
func (j peerJob) routes(ctx context.Context, engine *gin.Engine) error {
	switch {
	case j.Redis != "":
		client := redis.NewClient(&redis.Options{Addr: j.Redis, PoolSize: connections})
		number(engine, func(ctx context.Context) (int64, error) { return client.Incr(ctx, "peer").Result() })
		return client.Set(ctx, "peer", firstNumber, 0).Err()
	case j.Postgres != "":
		pool, err := openPeerTable(ctx, j.Postgres)
		if err != nil {
			return err
		}
		number(engine, func(ctx context.Context) (n int64, err error) {
			err = pool.QueryRow(ctx, updatePeer, 1).Scan(&n)
			return n, err
		})
		return nil
	case j.MariaDB != "":
		return j.segments(ctx, engine)
	}
	for i, b := range j.Constant {
		body := []byte(b.Body)
		engine.Any(fmt.Sprint(peerPath, i), func(c *gin.Context) { c.Data(http.StatusOK, b.Type, body) })
	}
	return nil
}

// number adds a route that answers as seqd does, with a number from next.
func number(engine *gin.Engine, next func(context.Context) (int64, error)) {
	engine.Any(peerPath, func(c *gin.Context) {
		n, err := next(c.Request.Context())
		if err != nil {
			c.Status(http.StatusServiceUnavailable)
			return
		}
		body := strconv.AppendInt([]byte(`{"bizType":"order","id":"`), n, 10)
		c.Data(http.StatusOK, "application/json", append(body, "\"}\n"...))
	})
}

// The peer on PostgreSQL is what a team would write first: a table with one row for each sequence.
const (
	createPeer = "CREATE TABLE IF NOT EXISTS peer (name text PRIMARY KEY, max bigint NOT NULL)"
	insertPeer = "INSERT INTO peer VALUES ('order', $1) ON CONFLICT DO NOTHING"
	updatePeer = "UPDATE peer SET max = max + $1 WHERE name = 'order' RETURNING max"
)

// openPeerTable returns a pool with the default settings of the library, and creates the table.
func openPeerTable(ctx context.Context, url string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, createPeer); err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, insertPeer, firstNumber)
	return pool, err
}
