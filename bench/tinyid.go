package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
)

// The figure of this file is about Tinyid's clients, which fetch segments. The peers give them on
// MariaDB: a gin route that sends the statements of Tinyid's server, and that server itself if
// -tinyid names its jar.

const (
	tinyidStep  = 100_000
	tinyidRoute = "/tinyid/id/nextSegmentIdSimple"
	tinyidQuery = "?bizType=order&token=bench"
)

// tinyidTables are those of Tinyid's server, with one biz type.
var tinyidTables = []string{
	`CREATE TABLE tiny_id_info (id bigint PRIMARY KEY AUTO_INCREMENT, biz_type varchar(63) NOT NULL UNIQUE, begin_id bigint NOT NULL,
	max_id bigint NOT NULL, step int NOT NULL, delta int NOT NULL DEFAULT 1, remainder int NOT NULL DEFAULT 0,
	create_time timestamp NOT NULL DEFAULT now(), update_time timestamp NOT NULL DEFAULT now(), version bigint NOT NULL DEFAULT 0) ENGINE=InnoDB`,
	`CREATE TABLE tiny_id_token (id int PRIMARY KEY AUTO_INCREMENT, token varchar(255) NOT NULL, biz_type varchar(63) NOT NULL,
	remark varchar(255) NOT NULL DEFAULT '', create_time timestamp NOT NULL DEFAULT now(), update_time timestamp NOT NULL DEFAULT now()) ENGINE=InnoDB`,
	fmt.Sprintf("INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step) VALUES ('order', %d, %d, %d)", firstNumber, firstNumber, tinyidStep),
	"INSERT INTO tiny_id_token (token, biz_type) VALUES ('bench', 'order')",
}

// startSegmentRoute serves segments for comparison: each request sends the statements that Tinyid's
// server sends. If others change the row in between, it reads the row again, three times at most;
// then the answer is empty.
func (b *backends) startSegmentRoute(ctx context.Context) (url string, err error) {
	pool, err := b.openMariaDB(ctx, "route", 64)
	if err != nil {
		return "", err
	}
	for _, statement := range tinyidTables {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return "", err
		}
	}
	engine := newEngine()
	engine.POST(tinyidRoute, func(c *gin.Context) {
		last, err := nextSegment(c.Request.Context(), pool, c.Query("bizType"))
		if err != nil {
			c.Status(http.StatusServiceUnavailable)
			return
		}
		var body []byte
		if last > 0 {
			body = fmt.Appendf(nil, "%d,%d,%d,1,0", last-tinyidStep, last-tinyidStep*4/5, last)
		}
		c.Data(http.StatusOK, "text/plain", body)
	})
	url, stop, err := serve(engine)
	if err == nil {
		b.cleanUps = append(b.cleanUps, stop)
	}
	return url, err
}

// nextSegment returns the last number of a new segment, 0 if others were faster three times.
func nextSegment(ctx context.Context, pool *sql.DB, bizType string) (last int64, err error) {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // it was committed, or err says what failed
	for range 3 {
		var id, now, step, version int64
		row := tx.QueryRowContext(ctx, "SELECT id, max_id, step, version FROM tiny_id_info WHERE biz_type = ?", bizType)
		if err := row.Scan(&id, &now, &step, &version); err != nil {
			return 0, err
		}
		const update = "UPDATE tiny_id_info SET max_id = ?, update_time = now(), version = version + 1 WHERE id = ? AND max_id = ? AND version = ?"
		result, err := tx.ExecContext(ctx, update, now+step, id, now, version)
		if err != nil {
			return 0, err
		}
		if changed, _ := result.RowsAffected(); changed == 1 { // this driver returns no error
			return now + step, tx.Commit()
		}
	}
	return 0, nil
}

// startTinyid starts Tinyid's server. It belongs to an older Java and needs to reach into it.
func (b *backends) startTinyid(ctx context.Context, jar string) (url string, err error) {
	pool, err := b.openMariaDB(ctx, "tinyid", 1)
	if err != nil {
		return "", err
	}
	for _, statement := range tinyidTables {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return "", err
		}
	}
	path, err := filepath.Abs(jar)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "seqd-bench-") // for its logs
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, func() error { return os.RemoveAll(dir) })
	addr, err := freeAddr()
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(addr)
	source := "--datasource.tinyid.primary."
	c, err := startChild(ctx, dir, nil, "java", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-jar", path, "--server.port="+port,
		source+"url=jdbc:mysql://"+b.mariaDBAddr+"/tinyid?useSSL=false", source+"username=seqd", source+"password=seqd", "--logging.level.root=WARN")
	if err != nil {
		return "", fmt.Errorf("start Tinyid: %w", err)
	}
	// Java answers SIGTERM with 143, which is no success.
	b.cleanUps = append(b.cleanUps, func() error { c.end(); <-c.exited; return nil })
	url = "http://" + addr
	if err := c.await(ctx, addr); err != nil {
		return "", err
	}
	// It reads the tokens some time after it has started.
	for ctx.Err() == nil {
		if body, err := get(url + tinyidRoute + tinyidQuery); err == nil && len(body) > 0 {
			// Java is slow until it has compiled what runs often.
			_, err := segments(ctx, options{duration: 10 * time.Second}, url, 64)
			return url, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", ctx.Err()
}

// startTinyidSeqd starts the real binary as Tinyid's clients need it.
func (b *backends) startTinyidSeqd(ctx context.Context, o options, env ...string) (url string, err error) {
	if o.binary == "" {
		return "", errors.New("-binary is needed")
	}
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, func() error { return os.RemoveAll(dir) })
	p, err := startFirst(ctx, o.binary, dir, tinyidRoute+tinyidQuery, append(env, "SEQD_COMPAT_TINYID=true",
		fmt.Sprintf(`SEQD_BIZTYPES=[{"name":"order","start":%d,"step":%d}]`, firstNumber, tinyidStep))...)
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, p.stop)
	return p.url, nil
}

// countSegments is a script of wrk that counts the answers that are not empty: an empty one is how
// Tinyid's server says that it failed.
const countSegments = `
wrk.method = "POST"
local threads = {}
function setup(thread) table.insert(threads, thread) end
good = 0
function response(status, headers, body) if #body > 0 then good = good + 1 end end
function done(summary)
  local n = 0
  for _, thread in ipairs(threads) do n = n + thread:get("good") end
  io.write(string.format("segments %d in %d\n", n, summary.duration))
end
`

// segments loads a server and returns how many segments it gave a second.
func segments(ctx context.Context, o options, url string, connections int) (rate float64, err error) {
	script, err := os.CreateTemp("", "seqd-bench-*.lua")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(script.Name())) }()
	_, err = script.WriteString(countSegments)
	if err := errors.Join(err, script.Close()); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(connections), "-d"+o.duration.String(), "-s", script.Name(), url+tinyidRoute+tinyidQuery).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	var good, micros float64
	_, counted, _ := bytes.Cut(out, []byte("segments "))
	if _, err := fmt.Sscanf(string(counted), "%f in %f", &good, &micros); err != nil || bytes.Contains(out, []byte("Non-2xx")) {
		return 0, errors.Join(fmt.Errorf("wrk said %s", out), err)
	}
	return good / micros * 1e6, nil
}

// segmentServers starts all servers of the figure: the peers first.
func (b *backends) segmentServers(ctx context.Context, o options) (list []contender, peers int, err error) {
	if err := b.startMariaDB(ctx, "route", "tinyid", "seqd"); err != nil {
		return nil, 0, err
	}
	route, err := b.startSegmentRoute(ctx)
	if err != nil {
		return nil, 0, err
	}
	list = []contender{{"gin route with Tinyid's statements on MariaDB", route}}
	if o.tinyid != "" {
		tinyid, err := b.startTinyid(ctx, o.tinyid)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, contender{"Tinyid's server on MariaDB", tinyid})
	}
	peers = len(list)
	onMariaDB, err := b.startTinyidSeqd(ctx, o, "SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN="+b.dsn("seqd"))
	if err != nil {
		return nil, 0, err
	}
	onBolt, err := b.startTinyidSeqd(ctx, o)
	return append(list, contender{"MariaDB", onMariaDB}, contender{"bolt", onBolt}), peers, err
}

// benchTinyidSegments compares how many segments of 100,000 numbers each server gives a second.
func benchTinyidSegments(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	servers, peers, err := b.segmentServers(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, connections := range []int{1, 64} {
		var loads []func() (float64, error)
		for _, s := range servers {
			loads = append(loads, func() (float64, error) { return segments(ctx, o, s.url, connections) })
		}
		rates, err := turns(o.rounds, loads...)
		if err != nil {
			return nil, err
		}
		for i, s := range servers[peers:] {
			what := fmt.Sprintf("segments for Tinyid's clients, store %s, connections: %d", s.name, connections)
			for j, peer := range servers[:peers] {
				both := pairs{base: rates[j], value: rates[peers+i]}
				if j == 0 { // the route does less than any server of segments does
					results = append(results, both.report(what, peer.name, fewPerSecond))
					continue
				}
				results = append(results, both.result(what, peer.name, fewPerSecond, true, 1))
			}
		}
	}
	return results, nil
}
