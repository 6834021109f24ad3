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
		if open, shut := strings.CutPrefix(f.Confirmed, ShutMark); shut && err == nil {
			if f.Confirmed = open; !s.opts.ReadOnly && !s.opts.PastShut {
				return persist.ErrShut
			}
		}
		if err == nil && f.Current == "" {
			err = ErrStandby
		}
		return err
	})
	if err != nil {
		return f, err
	}
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
		isOpen+" AND "+s.dialect.SchemaFence+" = ?", confirmed, unmarked, current))
	if errors.Is(err, persist.ErrNotFound) {
		return fmt.Errorf("%w: another server took over", persist.ErrConflict)
	}
	return err
}

// ShutMark begins the text in seqd_schema, before the [LosslessMark], while the store is shut: see
// [persist.Shutter]. Then no server has a fence, so no statement that compares it or writes it changes
// anything. Only a store that is opened for reading or PastShut has one.
const ShutMark = "-"

// isOpen is the condition on the row of seqd_schema that there is no [ShutMark].
const isOpen = "LEFT(fence, 1) <> '" + ShutMark + "'"

// Unshut is an expression for the text in seqd_schema without the [ShutMark]. fence is its column.
func Unshut(fence string) string { return "TRIM(LEADING '" + ShutMark + "' FROM " + fence + ")" }

// Shut implements [persist.Shutter].
func (s *Store) Shut(ctx context.Context) error {
	return s.exclusively(ctx, "shut", "UPDATE seqd_schema SET fence = CONCAT('"+ShutMark+"', fence) WHERE "+isOpen)
}

// Unshut implements [persist.Shutter].
func (s *Store) Unshut(ctx context.Context) error {
	return s.exclusively(ctx, "unshut", "UPDATE seqd_schema SET fence = "+Unshut("fence")+" WHERE NOT ("+isOpen+")")
}

// exclusively sends a statement when no statement or transaction on the tables is under way, and lets
// those that come meanwhile begin afterwards.
func (s *Store) exclusively(ctx context.Context, name, statement string) error {
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return s.db.Exclusively(ctx, name, func(c Conn) error {
		_, err := c.Exec(ctx, name, statement)
		return err
	})
}
