package persist

import "strconv"

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
