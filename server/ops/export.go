package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/snapshot"
)

// Export writes all that a store has to a file, and leaves the store shut, as [Move] does: it is the first
// half of one. It returns what the file has.
func Export(ctx context.Context, cfg *config.Config, path string, how Moving) (c Contents, err error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return c, err
	}
	s, err := openSource(ctx, cfg, persist.Moved{File: file}, how)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	if err := s.mayWrite(file); err != nil {
		return c, err
	}
	if err := s.alone(ctx); err != nil {
		return c, err
	}
	if err := newMoving(cfg, s.origin(ctx), how, func(string, string) {}).survey(); err != nil {
		return c, err
	}
	fresh := s.was.Move == ""
	if err := s.shut(ctx); err != nil {
		return c, err
	}
	err = snapshot.WriteFile(file, func(w io.Writer) error { return snapshot.Export(ctx, s.store, w, s.header()) })
	if err == nil {
		// Once more, so that an --undo or another export that failed meanwhile cannot pass this one.
		if err = s.say(ctx, s.now); err == nil {
			return Status(file)
		}
		return c, fmt.Errorf("%w; %s must not be imported, unless the same export is repeated and succeeds", err, file)
	}
	if _, failed := os.Stat(file); fresh && errors.Is(failed, os.ErrNotExist) { // nobody has the file
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
		defer cancel()
		if failed := s.undo(ctx); failed != nil {
			return c, fmt.Errorf("%w; and the store is still shut: seqd export --undo: %w", err, failed)
		}
		return c, fmt.Errorf("nothing was changed: %w", err)
	}
	return c, err
}

// undoing bounds how long an export that fails takes to open the store again.
const undoing = 20 * time.Second

// mayWrite returns an error if there is a file that is not of this export.
func (s *source) mayWrite(file string) error {
	if _, err := os.Stat(file + importedNote); err == nil {
		return fmt.Errorf("%w: %s says that a file of this name was imported, or must not be: give another name", ErrSnapshot, file+importedNote)
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if c, err := Status(file); err != nil || c.Move == nil || c.Move.ID != s.now.Move {
		return fmt.Errorf("%w: there is a file %s, which is not of this export: give another name", ErrSnapshot, file)
	}
	return nil
}

// importedNote ends the name of a file that says where an export was imported: a second store with the
// same numbers would issue them again.
const importedNote = ".imported"

// imported is what that file says.
type imported struct {
	Move string    `json:"move"`
	At   time.Time `json:"at"`
	Into string    `json:"store"` // "" if the export was undone
	Mark string    `json:"mark"`  // of that store: another one can have the same place
}

// Import fills the empty store of a configuration from the file of [Export]: it is the second half of a
// move. Beside the file it notes which store that is, and refuses another one.
//
// An [ErrSnapshot] says that nothing was changed. After any other error the same call goes on.
func Import(ctx context.Context, cfg *config.Config, path string, how Moving, tell func(what, done string)) (err error) {
	if cfg.Store.Forgets() {
		return fmt.Errorf("%w: store.driver: %s keeps nothing", ErrSnapshot, cfg.Store.Driver)
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	m := newMoving(cfg, inFile(file), how, tell)
	if err := m.survey(); err != nil {
		return err
	}
	if m.opened, err = mayImport(file, m.place()); err != nil {
		return err
	}
	closeAll, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	return m.run(ctx, m.note, m.fill, m.verify)
}

// note says beside an export which store it is imported into, after that has the mark, and before it has
// anything else.
func (m *moving) note(context.Context) error {
	return writeNote(m.from.name, imported{m.contents.Move.ID, time.Now().UTC(), m.place(), m.mark.Body})
}

// place is the driver and the place of the store.
func (m *moving) place() string { return m.cfg.Store.Driver + ", " + m.cfg.Store.Place() }

// mayImport returns an error if an export was imported into another store than that of a place, or undone. mark
// is that of the store that it was imported into, "" if it was not.
func mayImport(file, place string) (mark string, err error) {
	note, found, err := readNote(file)
	switch {
	case err != nil || !found:
		return "", err
	case note.Into == "":
		return "", fmt.Errorf("%w: the export was undone at %s, and its store is in use again: export again", ErrSnapshot, note.At.Format(time.RFC3339))
	case note.Into != place:
		return "", fmt.Errorf("%w: %s was imported at %s into another store: %s. Two stores would issue the same numbers: use that one", ErrSnapshot, file, note.At.Format(time.RFC3339), note.Into)
	}
	return note.Mark, nil
}

func readNote(file string) (note imported, found bool, err error) {
	text, err := os.ReadFile(file + importedNote)
	if errors.Is(err, os.ErrNotExist) {
		return note, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &note)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s cannot be read: it says where the export was imported: %w", ErrSnapshot, file+importedNote, err)
	}
	return note, true, err
}

// writeNote writes the note unless there is one. Of an import and an --undo at once only one writes it.
func writeNote(file string, note imported) error {
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file+importedNote, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		if has, _, failed := readNote(file); failed != nil || has.Move != note.Move || has.Into != note.Into || has.Mark != note.Mark {
			return errors.Join(failed, fmt.Errorf("%w: %s was written meanwhile, and says something else", ErrSnapshot, file+importedNote))
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return errors.Join(err, out.Sync(), out.Close(), folder.Sync(filepath.Dir(file)))
}

// UndoMove opens a store again that a move or an export has shut, if no other store was opened since. It
// returns what the store was moved to.
func UndoMove(ctx context.Context, cfg *config.Config) (m persist.Moved, err error) {
	if err := checkKept(ErrSnapshot, cfg.Store); err != nil {
		return m, err
	}
	store, err := backends.MovingStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, err = persist.ReadCluster(ctx, store.Documents())
	m, moved := errors.AsType[persist.Moved](err)
	switch {
	case !moved && err != nil:
		return m, err
	case !moved:
		return m, fmt.Errorf("%w: the store was neither moved nor exported: nodes can use it", ErrSnapshot)
	case m.Opened:
		return m, fmt.Errorf("%w: %w. There is no way back: numbers may have been issued there", ErrSnapshot, m)
	}
	if m.File != "" {
		note, found, err := readNote(m.File)
		if err != nil {
			return m, err
		}
		if found && (note.Into != "" || note.Move != m.Move) {
			return m, fmt.Errorf("%w: %s says that the file was imported into %s, so there is no way back", ErrSnapshot, m.File+importedNote, note.Into)
		}
		if err := writeNote(m.File, imported{Move: m.Move, At: time.Now().UTC()}); err != nil {
			return m, fmt.Errorf("%w: a note beside the file, that it must not be imported, cannot be written: %w", ErrSnapshot, err)
		}
	}
	s := &source{store: store, now: m}
	if s.doc, err = store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey); err != nil {
		return m, err
	}
	return m, s.undo(ctx)
}
