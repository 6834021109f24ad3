package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/bench/openloop"
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

// segmentRoute is a peer that sends the statements that Tinyid's server sends.
const segmentRoute = "gin route with Tinyid's statements on MariaDB"

// segments adds the route of the peer. If others change the row in between, it reads the row again,
// three times at most; then the request fails.
func (j peerJob) segments(ctx context.Context, engine *gin.Engine) error {
	pool, err := openMariaDB(ctx, j.MariaDB)
	if err != nil {
		return err
	}
	if err := createTinyid(ctx, pool); err != nil {
		return err
	}
	engine.POST(peerPath, func(c *gin.Context) {
		last, err := nextSegment(c.Request.Context(), pool, c.Query("bizType"))
		if err != nil {
			c.Status(http.StatusServiceUnavailable)
			return
		}
		c.Data(http.StatusOK, "text/plain", fmt.Appendf(nil, "%d,%d,%d,1,0", last-tinyidStep, last-tinyidStep*4/5, last))
	})
	return nil
}

// createTinyid creates the tables of Tinyid's server.
func createTinyid(ctx context.Context, pool *sql.DB) error {
	for _, statement := range tinyidTables {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// nextSegment returns the last number of a new segment.
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
	return 0, errors.New("others were faster three times")
}

// startTinyid starts Tinyid's server. It belongs to an older Java and needs to reach into it.
func (s *servers) startTinyid(ctx context.Context, jar string) (c *child, url string, err error) {
	pool, err := openMariaDB(ctx, s.dsn("tinyid"))
	if err != nil {
		return nil, "", err
	}
	if err := errors.Join(createTinyid(ctx, pool), pool.Close()); err != nil {
		return nil, "", err
	}
	path, err := filepath.Abs(jar)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.folder() // for its logs
	if err != nil {
		return nil, "", err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	_, port, _ := net.SplitHostPort(addr)
	source := "--datasource.tinyid.primary."
	c, err = startChild(ctx, dir, nil, "java", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-jar", path, "--server.port="+port,
		source+"url=jdbc:mysql://"+s.mariaDBAddr+"/tinyid?useSSL=false", source+"username=seqd", source+"password=seqd", "--logging.level.root=WARN")
	if err != nil {
		return nil, "", err
	}
	// Java answers SIGTERM with 143, which is no success.
	s.cleanUps = append(s.cleanUps, func() error { c.end(); <-c.exited; return nil })
	url = "http://" + addr + tinyidRoute + tinyidQuery
	if err := c.await(ctx, addr); err != nil {
		return nil, "", err
	}
	// It reads the tokens some time after it has started.
	for ctx.Err() == nil {
		if body, err := get(url); err == nil && len(body) > 0 {
			// Java is slow until it has compiled what runs often.
			_, err := runLoad(ctx, tinyidJob(options{duration: 10 * time.Second}, url))
			return c, url, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, "", ctx.Err()
}

// tinyidJob asks for segments over the connections of a load.
func tinyidJob(o options, url string) openloop.Job {
	job := o.closed(url)
	job.Method = "POST"
	return job
}

// benchTinyidSegments compares how many segments of 100,000 numbers each server gives a second.
func benchTinyidSegments(ctx context.Context, o options) ([]result, error) {
	const onBolt, tinyid = "on bolt", "Tinyid's server on MariaDB"
	return with(func(s *servers) ([]result, error) {
		if err := s.startMariaDB(ctx, "peer", "tinyid", "seqd"); err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		peer, url, err := s.startPeer(ctx, peerJob{MariaDB: s.dsn("peer")})
		if err != nil {
			return nil, err
		}
		c.add(segmentRoute, loadingJob(ctx, peer, tinyidJob(o, url+tinyidQuery)))
		if o.tinyid != "" {
			server, url, err := s.startTinyid(ctx, o.tinyid)
			if err != nil {
				return nil, err
			}
			c.add(tinyid, loadingJob(ctx, server, tinyidJob(o, url)))
		}
		types := bizTypes(definition{"name": "order", "start": firstNumber, "step": tinyidStep})
		for name, env := range map[string][]string{onBolt: nil, newBinary: {"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + s.dsn("seqd")}} {
			n, err := s.startNode(ctx, o.binary, append(env, "SEQD_COMPAT_TINYID=true", types)...)
			if err != nil {
				return nil, err
			}
			c.add(name, loadingJob(ctx, n.child, tinyidJob(o, n.url+tinyidRoute+tinyidQuery)))
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "segments for Tinyid's clients"
		results := []result{
			got.against(segmentRoute, what+", MariaDB", rateOf, fewPerSecond).atLeast(1),
			got.pair(segmentRoute, onBolt, rateOf).report(what+", bolt", segmentRoute, fewPerSecond).atLeast(1),
		}
		if o.tinyid != "" {
			results = append(results, got.against(tinyid, what+", MariaDB", rateOf, fewPerSecond).atLeast(1))
		}
		return results, nil
	})
}
