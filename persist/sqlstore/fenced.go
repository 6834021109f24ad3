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
	err := one(s.exec(ctx, "create fenced document", s.documents.insertHeld, append(row(doc), fence)...))
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
	err := one(s.exec(ctx, "update fenced document", s.documents.updateHeld, append(change(doc), fence)...))
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
