package persist

import (
	"strconv"
	"strings"
)

// The kinds of the documents about the periods of biz types whose numbers reset.
const (
	// PeriodKind says that the counter of a period was created, so that one that is missing was
	// lost. The key is the name of the counter; the body is the strategy.
	PeriodKind = "period"
	// PurgedKind says which periods of a biz type were removed, and must never be created again.
	// The key is the biz type; the body is the highest of these periods, in decimal.
	PurgedKind = "purged"
)

// PurgedDocument says that the periods of a biz type up to period were removed.
func PurgedDocument(bizType string, period, revision, at int64) Document {
	return Document{Kind: PurgedKind, Key: bizType, Revision: revision, Body: strconv.FormatInt(period, 10), Timestamp: at}
}

// PurgedPeriod returns the period that a document of PurgedKind names, or ErrInvalid.
func PurgedPeriod(d Document) (int64, error) {
	period, err := strconv.ParseInt(d.Body, 10, 64)
	if err != nil || period < 0 {
		return 0, invalid("%s names no period: %.50q", d.PersistID(), d.Body)
	}
	return period, nil
}

// The first layout of stores had no documents for clusters, shapes and periods. A shape was a
// record of its own; that of a period's counter, which has an @ in its name, said that the counter
// was created. A counter whose name ended in @ said in its max which periods were removed. The
// functions below are for drivers that open such a store.

// FormerShape returns the document for a shape, or for what said that a period's counter was
// created.
func FormerShape(bizTag, shape string, at int64) (Document, error) {
	s := Shape{BizType: bizTag, Shape: shape, Timestamp: at, Revision: 1}
	d := s.Document()
	if strings.Contains(bizTag, "@") {
		d.Kind = PeriodKind
	}
	return d, s.Validate()
}

// FormerShapeID returns the name that a document had as a shape, or false if it was none.
func FormerShapeID(kind, key string) (bizTag string, ok bool) {
	return key, kind == ShapeKind || kind == PeriodKind
}

// FormerPurged returns the document for a counter, or false if it is one that ranges are allocated
// from.
func FormerPurged(c Counter) (d Document, ok bool) {
	bizType, ok := strings.CutSuffix(c.BizTag, "@")
	return PurgedDocument(bizType, c.Max, 1, c.Timestamp), ok
}

// FormerPurgedID returns the name of the counter that said which periods of a biz type were
// removed.
func FormerPurgedID(bizType string) string { return bizType + "@" }
