package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/seqd/seqd/persist"
)

// CreateFenced implements [persist.Fenced].
func (s *Store) CreateFenced(ctx context.Context, doc persist.Document, fence string) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	err := s.documents.held(ctx, "create fenced document", s.documents.insertHeld, row(doc), fence)
	if !errors.Is(err, persist.ErrNotFound) {
		return about(doc.PersistID(), err)
	}
	switch _, err := s.documents.Read(ctx, doc.Kind, doc.Key); {
	case err == nil:
		return about(doc.PersistID(), persist.ErrExists)
	case errors.Is(err, persist.ErrNotFound):
		return about(doc.PersistID(), s.whyNotHeld(ctx, fence))
	default:
		return err
	}
}

// UpdateFenced implements [persist.Fenced].
func (s *Store) UpdateFenced(ctx context.Context, doc persist.Document, fence string) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	err := s.documents.held(ctx, "update fenced document", s.documents.updateHeld, change(doc), fence)
	if !errors.Is(err, persist.ErrNotFound) {
		return about(doc.PersistID(), err)
	}
	known, err := s.documents.Read(ctx, doc.Kind, doc.Key)
	if err != nil {
		return err
	}
	if err := known.CheckUpdate(doc); err != nil {
		return err
	}
	return about(doc.PersistID(), s.whyNotHeld(ctx, fence))
}

// held sends a statement that ends with the condition [Dialect.Holds]. It returns ErrNotFound if
// the statement changed nothing.
func (d *documents) held(ctx context.Context, name, statement string, params []any, fence string) error {
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return one(d.db.Exec(ctx, name, statement, append(params, fence)...))
}

// whyNotHeld finds out why a statement changed nothing although the document is as it should be.
func (s *Store) whyNotHeld(ctx context.Context, fence string) error {
	now, err := s.Fence(ctx)
	switch {
	case err != nil:
		return err
	case now.Current != fence:
		return persist.ErrFailedOver
	}
	return fmt.Errorf("%w: the server changes, or commits wait for no standby now", persist.ErrUnavailable)
}
