package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seqd/seqd/persist"
)

// reach uses the database for the first time.
func (l *link) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	err := l.prepare(ctx)
	if l.opts.ReadOnly && errors.Is(err, persist.ErrNotFound) {
		return nil // there is nothing to look at yet
	}
	return err
}

// prepare checks the version of the schema, and creates or upgrades the schema if it may. Any
// number of processes may do so at once.
func (l *link) prepare(ctx context.Context) error {
	version, err := l.version(ctx, l.db)
	if err != nil {
		return err
	}
	known := len(l.dialect.Steps)
	switch {
	case version > known:
		return fmt.Errorf("%w: the tables have schema version %d, this build knows %d", persist.ErrNewer, version, known)
	case version == 0 && (l.opts.ReadOnly || l.opts.Unreached):
		return fmt.Errorf("the tables of seqd: %w", persist.ErrNotFound)
	case version < known && l.opts.ReadOnly:
		return Refusef("the tables have schema version %d, this build needs %d: start seqd on them first", version, known)
	case version < known:
		if err := l.db.Alone(ctx, "upgrade schema", func(c Conn) error { return l.upgrade(ctx, c) }); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
	}
	l.checked.Store(true)
	return nil
}

// version returns the version of the schema; 0 if there is none, or if a step was not finished.
func (l *link) version(ctx context.Context, c Conn) (int, error) {
	var version int64
	found, err := l.dialect.HasTables(ctx, c)
	if err == nil && found {
		err = c.Query(ctx, "read schema version", "SELECT version FROM seqd_schema", func(scan Scan) error { return scan(&version) })
	}
	return int(version), err
}

// upgrade runs the steps that are missing. Another process may have run them meanwhile.
func (l *link) upgrade(ctx context.Context, c Conn) error {
	version, err := l.version(ctx, c)
	made := version == 0
	for ; err == nil && version < len(l.dialect.Steps); version++ {
		_, err = c.Exec(ctx, "upgrade schema", l.dialect.Steps[version])
	}
	if err == nil && made && l.opts.Lossless && !l.opts.Beside { // the next answer may come from another server
		_, err = c.Exec(ctx, "begin lossless",
			"UPDATE seqd_schema SET fence = CONCAT('"+LosslessMark+"', fence) WHERE LEFT(fence, 1) <> '"+LosslessMark+"'")
	}
	return err
}

// LosslessMark begins the text in seqd_schema while nodes are told that no failover loses anything.
// The word after it is the fence of the server that answered when they were first told so. For them
// that is [Dialect.Fence], whatever server answers: it stands for the time since when nothing is
// lost. Each counter and ledger has the fence under which it was written last, so those are noticed
// that nobody has used since a failover of before. If the last of those was not confirmed, a space
// and the fence that was confirmed follow.
//
// A node that is told that failovers lose something has no fence while there is the mark, so it
// writes nothing that others rely on. If a failover lost that, they would not notice. What it wrote
// before the mark is on the standby that has the mark. Only an operator removes the mark, by
// [Store.ConfirmFence].
//
// A node sets the mark, and no command that looks or repairs beside nodes: those may be told
// something else. Until it is set, a node that is told that nothing is lost has the fence of the
// server that answers, as others have.
const LosslessMark = "+"

// marked returns the text for nodes that are first told now that no failover loses anything.
func marked(current, confirmed string) string {
	if current == confirmed {
		return LosslessMark + current
	}
	return LosslessMark + current + " " + confirmed
}

// Fence implements [persist.Fenced].
func (s *Store) Fence(ctx context.Context) (f persist.Fence, err error) {
	err = s.query(ctx, "read fence", "SELECT COALESCE("+s.dialect.SchemaFence+", ''), fence FROM seqd_schema", func(scan Scan) error {
		err := scan(&f.Current, &f.Confirmed)
		if err == nil && f.Current == "" {
			err = ErrStandby
		}
		return err
	})
	switch known, is := strings.CutPrefix(f.Confirmed, LosslessMark); {
	case is && s.opts.Lossless:
		f.Confirmed = known[strings.IndexByte(known, ' ')+1:]
	case is: // it has to be confirmed
		f.Confirmed = Lossless + " " + known
	case err == nil && s.opts.Lossless && !s.opts.Beside && !s.opts.ReadOnly:
		_, err = s.exec(ctx, "begin lossless", "UPDATE seqd_schema SET fence = ? WHERE fence = ? AND "+s.dialect.SchemaFence+" = ?",
			marked(f.Current, known), known, f.Current) // not if another server has taken over since
	}
	return f, err
}

// ConfirmFence implements [persist.Fenced].
func (s *Store) ConfirmFence(ctx context.Context, current string) error {
	confirmed, unmarked := current, current
	if s.opts.Lossless {
		confirmed = marked(current, current)
	}
	if !s.opts.Beside { // a command keeps the mark, and sets none
		unmarked = confirmed
	}
	err := one(s.exec(ctx, "confirm fence", "UPDATE seqd_schema SET fence = CASE WHEN LEFT(fence, 1) = '"+LosslessMark+"' THEN ? ELSE ? END WHERE "+
		s.dialect.SchemaFence+" = ?", confirmed, unmarked, current))
	if errors.Is(err, persist.ErrNotFound) {
		return fmt.Errorf("%w: another server took over", persist.ErrConflict)
	}
	return err
}
