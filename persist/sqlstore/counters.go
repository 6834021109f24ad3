package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// counters keeps each counter as one row, with the fence under which it was written last.
type counters struct {
	*link
	epochs *persist.Epochs
	// statements
	create, createLost, read, back string
}

var _ persist.Counters = (*counters)(nil)

// newCounters builds the statements.
func newCounters(l *link) counters {
	fence := l.dialect.Fence
	confirmed := "EXISTS (SELECT 1 FROM seqd_schema WHERE TRIM(LEADING '" + LosslessMark + "' FROM fence) = f.present)"
	failedOver, same := "fence <> "+fence, "fence = "+fence
	if sabotage.Off(sabotage.FenceCompared) {
		confirmed, failedOver, same = "1 = 1", "1 = 0", "1 = 1"
	}
	if sabotage.Off(sabotage.GiveBackSwap) {
		same += " OR 1 = 1"
	}
	createLost := "INSERT INTO seqd_counters (name, version, highest, step, step_at, epoch, fence) " +
		"SELECT ?, ?, ?, ?, ?, ?, f.present FROM (SELECT " + fence + " AS present) f WHERE f.present IS NOT NULL"
	c := counters{
		link:       l,
		create:     createLost + " AND " + confirmed,
		createLost: createLost,
		read: "SELECT name, version, highest, step, step_at, epoch, CASE WHEN " + failedOver + " THEN " + l.dialect.Failovers + " ELSE 0 END, " + l.standby() +
			" FROM seqd_counters ",
		back: "UPDATE seqd_counters SET highest = ? WHERE name = ? AND version = ? AND (highest = ? AND " + same + ")",
	}
	c.epochs = persist.NewEpochs(c.findEpochs)
	return c
}

// scanCounter reads a row of the statement read. The name is returned although the row is damaged.
func scanCounter(scan Scan) (m persist.Counter, err error) {
	var name []byte
	var version, standby int64
	if err := scan(&name, &version, &m.Max, &m.Step, &m.Timestamp, &m.Epoch, &m.Failovers, &standby); err != nil {
		return m, err
	}
	if standby != 0 {
		return m, ErrStandby
	}
	m.BizTag = string(name)
	if err := checkVersion(m.BizTag, version); err != nil {
		return m, err
	}
	if m.Validate() != nil {
		return m, damaged(m.BizTag)
	}
	if m.FailedOver = m.Failovers != 0; m.FailedOver {
		m.Epoch = ""
	}
	return m, nil
}

// Create implements [persist.Counters]. The condition that no failover is left unconfirmed is in
// the statement that inserts.
func (c *counters) Create(ctx context.Context, m persist.Counter) error {
	return c.insert(ctx, m, c.create)
}

// CreateLost implements [persist.Fenced].
func (s *Store) CreateLost(ctx context.Context, m persist.Counter) error {
	return s.counters.insert(ctx, m, s.counters.createLost)
}

// insert stores a new counter by one of the statements create and createLost.
func (c *counters) insert(ctx context.Context, m persist.Counter, statement string) error {
	if err := m.Validate(); err != nil {
		return err
	}
	err := one(c.exec(ctx, "create counter", statement,
		[]byte(m.BizTag), int64(persist.FormatVersion), m.Max, m.Step, m.Timestamp, m.Epoch))
	if errors.Is(err, persist.ErrNotFound) {
		return c.whyNotNew(ctx, m.BizTag)
	}
	return about(m.BizTag, err)
}

// whyNotNew finds out why a counter was not inserted.
func (c *counters) whyNotNew(ctx context.Context, bizTag string) error {
	switch _, err := c.Read(ctx, bizTag); {
	case err == nil:
		return about(bizTag, persist.ErrExists)
	case errors.Is(err, persist.ErrNotFound):
		return about(bizTag, persist.ErrFailedOver)
	default:
		return err
	}
}

// Read implements [persist.Counters].
func (c *counters) Read(ctx context.Context, bizTag string) (m persist.Counter, err error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return m, err
	}
	found, err := c.find(ctx, "read counter", "WHERE name = ?", []byte(bizTag))
	switch {
	case err != nil:
		return m, err
	case len(found) == 0:
		return m, about(bizTag, c.missing(ctx))
	}
	return found[0], nil
}

// List implements [persist.Counters].
func (c *counters) List(ctx context.Context, after string, limit int) ([]persist.Counter, error) {
	if limit <= 0 {
		return nil, nil
	}
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	return c.find(ctx, "list counters", "WHERE name > ? ORDER BY name LIMIT ?", []byte(after), int64(limit))
}

// find returns the counters that the end of a statement selects.
func (c *counters) find(ctx context.Context, name, where string, params ...any) (found []persist.Counter, err error) {
	err = c.db.Query(ctx, name, c.read+where, func(scan Scan) error {
		m, err := scanCounter(scan)
		found = append(found, m)
		return err
	}, params...)
	return found, err
}

// Delete implements [persist.Counters].
func (c *counters) Delete(ctx context.Context, bizTag string) error {
	err := one(c.exec(ctx, "delete counter", "DELETE FROM seqd_counters WHERE name = ? AND version = ?",
		[]byte(bizTag), int64(persist.FormatVersion)))
	return c.whyNot(ctx, bizTag, err)
}

// whyNot finds out why a statement found no row: reading it says whether it is damaged or of
// another format.
func (c *counters) whyNot(ctx context.Context, bizTag string, err error) error {
	if !errors.Is(err, persist.ErrNotFound) {
		return about(bizTag, err)
	}
	if _, readErr := c.Read(ctx, bizTag); readErr != nil {
		return readErr
	}
	return about(bizTag, err)
}

// rounds is how often an operation tries again that other nodes interfere with.
const rounds = 10

// Allocate implements [persist.Counters] by one atomic, durable statement (invariant U1), which
// compares epoch, fence and bounds and computes the maximum. It is sent again only if it changed no
// row, and a read shows that it could have.
func (c *counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if err := req.Validate(); err != nil {
		return persist.Range{}, err
	}
	if sabotage.Off(sabotage.RangeOnce) {
		return c.readThenWrite(ctx, req)
	}
	for range rounds {
		r, err := c.take(ctx, req)
		if !errors.Is(err, persist.ErrNotFound) {
			return r, about(req.BizTag, err)
		}
		stored, err := c.Read(ctx, req.BizTag)
		if err != nil {
			return persist.Range{}, err
		}
		if _, _, err := stored.Allocated(req, 0); err != nil {
			return persist.Range{}, err
		}
	}
	return persist.Range{}, fmt.Errorf("%q: %w: the counter changes too often", req.BizTag, persist.ErrUnavailable)
}

func (c *counters) take(ctx context.Context, req persist.Request) (persist.Range, error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return persist.Range{}, err
	}
	highest, err := c.db.Allocate(ctx, req, c.opts.Now().UnixMilli())
	if err != nil {
		return persist.Range{}, err
	}
	r := persist.Range{First: highest - req.Size + 1, Last: highest}
	if req.Size == 0 {
		return r, nil
	}
	return r, r.Validate()
}

// readThenWrite allocates in two steps, between which another node may do the same. Allocate must
// never do that: only a sabotaged build for tests calls it.
func (c *counters) readThenWrite(ctx context.Context, req persist.Request) (persist.Range, error) {
	stored, err := c.Read(ctx, req.BizTag)
	if err != nil {
		return persist.Range{}, err
	}
	next, r, err := stored.Allocated(req, c.opts.Now().UnixMilli())
	if err != nil {
		return persist.Range{}, err
	}
	time.Sleep(50 * time.Millisecond)
	_, err = c.db.Exec(ctx, "write counter",
		"UPDATE seqd_counters SET highest = ?, step = ?, step_at = ?, epoch = ?, fence = "+c.dialect.Fence+" WHERE name = ?",
		next.Max, next.Step, next.Timestamp, next.Epoch, []byte(req.BizTag))
	return r, err
}

// GiveBack implements [persist.Counters].
func (c *counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	err := one(c.exec(ctx, "give back", c.back, r.First-1, []byte(bizTag), int64(persist.FormatVersion), r.Last))
	if errors.Is(err, persist.ErrNotFound) {
		// a counter that is missing or of another format is an error
		_, err := c.Read(ctx, bizTag)
		return false, err
	}
	return err == nil, about(bizTag, err)
}

// Epoch implements [persist.Counters].
func (c *counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	return c.epochs.Read(ctx, bizTag)
}

// findEpochs reads the epochs of some counters in one query. One damaged row does not fail it for
// the others.
func (c *counters) findEpochs(ctx context.Context, bizTags []string) (map[string]persist.FoundEpoch, error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	names := make([]any, len(bizTags))
	for i, name := range bizTags {
		names[i] = []byte(name)
	}
	found := make(map[string]persist.FoundEpoch, len(bizTags))
	err = c.db.Query(ctx, "read epochs", c.read+"WHERE name IN "+list(len(names)), func(scan Scan) error {
		m, err := scanCounter(scan)
		if m.BizTag == "" {
			return err
		}
		found[m.BizTag] = persist.FoundEpoch{Epoch: m.Epoch, Err: err}
		return nil
	}, names...)
	if err == nil && len(found) < len(names) {
		if err = c.missing(ctx); errors.Is(err, persist.ErrNotFound) {
			err = nil // each caller is told that about its own counter
		}
	}
	return found, err
}
