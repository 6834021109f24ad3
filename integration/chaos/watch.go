package chaos

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

const serverEvery = 100 * time.Millisecond

// watchServer asks a Redis for its role until ctx ends, and records it when it changes and at least
// twice a second.
func (l *laboratory) watchServer(ctx context.Context, s *redisServer) {
	var last record.Server
	load.Every(ctx, serverEvery, func() {
		now := record.Server{Name: s.host.name}
		now.Role, now.Replid = s.role(ctx)
		if now.Role == record.Primary || now.Role == record.Replica {
			now.Scripts = s.scripts(ctx)
		}
		now.At = l.Journal.Now()
		if now.Role != last.Role || now.Replid != last.Replid || now.Scripts != last.Scripts || now.At-last.At >= int64(400*time.Millisecond) {
			l.Journal.Write(record.Entry{Server: &now})
			last = now
		}
	})
}

// role returns the state of a Redis.
func (s *redisServer) role(ctx context.Context) (role, replid string) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	text, err := s.client.Info(ctx, "replication").Result()
	switch {
	case err != nil && s.alive():
		return record.Silent, ""
	case err != nil:
		return record.Gone, ""
	}
	role = record.Replica
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); {
		case name == "role" && value == "master":
			role = record.Primary
		case name == "master_replid":
			replid = value
		}
	}
	return role, replid
}

// watchWall records how far the wall clock deviates from the run's clock, because something adjusts
// it, until ctx ends.
func (l *laboratory) watchWall(ctx context.Context) {
	var last time.Duration
	load.Every(ctx, serverEvery, func() {
		now := time.Now()
		off := now.Round(0).Sub(l.Journal.Began.Round(0)) - now.Sub(l.Journal.Began)
		if off-last < time.Millisecond && last-off < time.Millisecond {
			return
		}
		last = off
		l.Journal.Write(record.Entry{Offset: &record.Offset{At: l.Journal.Now(), Nanoseconds: int64(off)}})
	})
}

// scripts returns how many scripts a Redis has run for clients.
func (s *redisServer) scripts(ctx context.Context) (calls int64) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	text, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return -1
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		count, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if n, err := strconv.ParseInt(count, 10, 64); err == nil {
			calls += n
		}
	}
	return calls
}
