package ops

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/doctor"
	"github.com/seqd/seqd/server/subscriptions"
	"github.com/seqd/seqd/server/workers"
)

// A backup does not contain what the API changed after it: a token that was deleted is valid again,
// a biz type issues with its former increment. The log of the nodes says what was changed. The
// lines of the audit log in the store are no help: the store has lost the same ones.

// audited is what the log says of the last change of a token, a biz type, a pool of worker IDs or a
// subscription.
type audited struct {
	at                       time.Time
	method, path, target, by string
	version                  int64
	kind                     string    // of the document
	made                     time.Time // when a token, pool or subscription was created, zero if the log does not say
	removed                  bool      // the document is gone since
	forced                   []audited // the changes of a biz type that were forced, in the order of the logs
}

// revokedKind is the kind of what a token has made and somebody revoked: the line names the maker,
// and none of the tokens.
const revokedKind = "made"

// changesIn reads the logs of nodes, and returns the last change of each token, biz type, pool and
// subscription, and how many there were. Lines of other kinds, or in another form than log.format
// makes, are left out.
func changesIn(log io.Reader) (last map[string]audited, n int, err error) {
	last = make(map[string]audited)
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		c, ok := changeIn(lines.Text())
		if !ok {
			continue
		}
		n++
		id := c.kind + " " + c.target
		before := last[id]
		forced := slices.Concat(before.forced, c.forced)
		if c.at.Before(before.at) {
			c, before = before, c
		}
		if c.made.Before(before.made) {
			c.made = before.made
		}
		c.forced = forced
		last[id] = c
	}
	return last, n, lines.Err()
}

// changeIn returns what a line says was changed. ok is false if that is nothing.
func changeIn(line string) (c audited, ok bool) {
	if !strings.Contains(line, "audit") { // most lines of a log
		return c, false
	}
	fields := fieldsOf(line)
	status, _ := strconv.Atoi(fields["status"])
	c.version, _ = strconv.ParseInt(fields["version"], 10, 64)
	c.at, _ = time.Parse(time.RFC3339, fields["time"])
	c.method, c.path, c.target, c.by = fields["method"], fields["path"], fields["target"], fields["caller"]
	c.kind = definitions.Kind
	switch {
	case strings.HasPrefix(c.path, "/tokens"):
		c.kind, c.removed = access.Kind, c.method == "DELETE" && c.path == "/tokens/"+c.target
		if c.method == "POST" && c.path == "/tokens" {
			c.made = c.at
		}
	case strings.HasPrefix(c.path, "/worker-pools"):
		c.kind = workers.Kind
	case strings.HasPrefix(c.path, "/subscriptions"):
		c.kind = subscriptions.Kind
	}
	if c.kind == workers.Kind || c.kind == subscriptions.Kind {
		if c.removed = c.method == "DELETE"; status == 201 {
			c.made = c.at
		}
	}
	if c.path == "/tokens/"+c.target+"/made" {
		c.kind = revokedKind
	}
	query := strings.Split(fields["query"], "&")
	if dry := slices.Contains(query, "dryRun=true"); dry {
		return c, false
	}
	if c.kind == definitions.Kind && slices.Contains(query, "force=true") {
		c.forced = []audited{c}
	}
	changes := c.version > 0 || c.kind == revokedKind && c.method == "DELETE"
	return c, fields["msg"] == "audit" && status/100 == 2 && changes && c.target != "" && !c.at.IsZero()
}

// fieldsOf reads a line of a log in either of the formats, also behind what a collector of logs
// wrote before it.
func fieldsOf(line string) map[string]string {
	fields := make(map[string]string)
	if at := strings.IndexByte(line, '{'); at >= 0 {
		var object map[string]any
		decoder := json.NewDecoder(strings.NewReader(line[at:]))
		decoder.UseNumber()
		if decoder.Decode(&object) == nil {
			for key, value := range object {
				fields[key] = fmt.Sprint(value)
			}
			return fields
		}
	}
	for rest := line; rest != ""; {
		var key, value string
		key, rest, _ = strings.Cut(rest, "=")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, _ = strconv.Unquote(quoted)
			rest = strings.TrimPrefix(rest[len(quoted):], " ")
		} else {
			value, rest, _ = strings.Cut(rest, " ")
		}
		fields[key[strings.LastIndexByte(key, ' ')+1:]] = value
	}
	return fields
}

// lacking reads a log, which may take long, and returns what finds the changes in it that a store
// lacks.
func lacking(log io.Reader, now time.Time) func(ctx context.Context, store persist.Store) ([]doctor.Finding, error) {
	last, n, wrong := changesIn(log)
	return func(ctx context.Context, store persist.Store) (found []doctor.Finding, err error) {
		if wrong != nil {
			return nil, fmt.Errorf("the log: %w", wrong)
		}
		if n == 0 {
			return []doctor.Finding{{Level: doctor.Warn, Subject: "changes", Found: "the log has no lines of the audit log", Change: "give the logs of all nodes since the backup"}}, nil
		}
		lacks := 0
		for _, id := range slices.Sorted(maps.Keys(last)) {
			c := last[id]
			if c.kind == revokedKind {
				valid, err := c.unrevoked(ctx, store)
				if err != nil {
					return nil, err
				}
				lacks += len(valid)
				found = append(found, valid...)
				continue
			}
			doc, err := store.Documents().Read(ctx, c.kind, c.target)
			if err != nil && !errors.Is(err, persist.ErrNotFound) {
				return nil, err
			}
			if c.kind == access.Kind && access.IsGone(doc) {
				doc = persist.Document{}
			}
			if why, then := c.against(doc); why != "" {
				lacks++
				found = append(found, doctor.Finding{Level: doctor.Warn, Subject: c.subject(), Found: why, Change: then})
			}
			unforced, err := c.unforced(ctx, store, doc, now)
			if err != nil {
				return nil, err
			}
			found = append(found, unforced...)
		}
		return append(found, doctor.Finding{
			Level: doctor.OK, Subject: "changes", Found: fmt.Sprintf("%d changes of %d tokens, biz types, worker pools and subscriptions are in the log, and the store lacks some of %d", n, len(last), lacks),
		}), nil
	}
}

// unrevoked names the tokens that have a secret which was revoked with all that a token had made.
func (c *audited) unrevoked(ctx context.Context, store persist.Store) (found []doctor.Finding, err error) {
	tokens := access.New(access.Options{})
	tokens.Use(access.Backing{Documents: store.Documents()})
	made, err := tokens.Made(ctx, c.target)
	for _, m := range made {
		if m.Secret.Made.Before(c.at) {
			found = append(found, doctor.Finding{
				Level: doctor.Warn, Subject: "token " + m.Token, Change: "revoke again what " + c.target + " has made before callers reach seqd",
				Found: fmt.Sprintf("the log has %s %s at %s by %s, and the secret %s that %s had made is there", c.method, c.path, c.at.UTC().Format(time.RFC3339), cmp.Or(c.by, "somebody without a token"), m.ID(), c.target),
			})
		}
	}
	return found, err
}

func (c *audited) subject() string {
	switch c.kind {
	case access.Kind:
		return "token " + c.target
	case workers.Kind:
		return "worker pool " + c.target
	case subscriptions.Kind:
		return "subscription " + c.target
	}
	return c.target
}

// slow is how much later than its document a change may be logged.
const slow = time.Minute

// against returns how a store differs that has a document, of revision 0 if it has none; "" if it
// does not.
func (c *audited) against(doc persist.Document) (why, then string) {
	did := fmt.Sprintf("the log has %s %s at %s by %s", c.method, c.path, c.at.UTC().Format(time.RFC3339), cmp.Or(c.by, "somebody without a token"))
	switch {
	case c.removed && doc.Revision > 0:
		return did + ", and it is there", "delete it again before callers reach seqd"
	case c.removed:
		return "", ""
	case doc.Revision == 0:
		return fmt.Sprintf("%s, which made version %d, and it is not there", did, c.version), "make it again before callers reach seqd"
	case time.UnixMilli(doc.Timestamp).Before(c.made.Add(-slow)):
		return fmt.Sprintf("it was created at %s, and this is another one of that name", c.made.UTC().Format(time.RFC3339)), "delete it, and make it again before callers reach seqd"
	case doc.Revision < c.version:
		return fmt.Sprintf("%s, which made version %d, and this is version %d", did, c.version, doc.Revision), "change it again before callers reach seqd"
	}
	return "", ""
}

// unforced names the forced changes that a store lacks, which has a document of the biz type, and
// the counters that it lacks too and in which the biz type may have counted since.
func (c *audited) unforced(ctx context.Context, store persist.Store, doc persist.Document, now time.Time) ([]doctor.Finding, error) {
	var changes []string
	slices.SortFunc(c.forced, func(a, b audited) int { return cmp.Compare(a.version, b.version) }) // of several nodes
	for _, f := range c.forced {
		if f.version > doc.Revision {
			changes = append(changes, fmt.Sprintf("%s %s at %s (version %d)", f.method, f.path, f.at.UTC().Format(time.RFC3339), f.version))
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	names, err := absent(ctx, store, c.target, now)
	if err != nil {
		return nil, err
	}
	then := "before callers reach seqd, force the last one again: otherwise numbers may repeat, and a repeated Idempotency-Key may get other ones"
	if len(names) > 0 {
		then += fmt.Sprintf("; before that, raise with --yes those of %s in which it counted, and of other periods and keys since", strings.Join(names, ", "))
	}
	return []doctor.Finding{{Level: doctor.Warn, Subject: c.target, Found: "forced since the backup, in the log: " + strings.Join(changes, ", "), Change: then}}, nil
}

// absent returns the counters in which a biz type without keys would count now with each reset, and
// which a store does not have.
func absent(ctx context.Context, store persist.Store, bizType string, now time.Time) (names []string, err error) {
	for _, reset := range []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
		name := bizType
		if reset != seqd.ResetNever {
			name = reset.Of(now).Counter(bizType)
		}
		_, err := store.Counters().Read(ctx, name)
		if errors.Is(err, persist.ErrNotFound) {
			_, err = store.Documents().Read(ctx, persist.LedgerKind, name)
		}
		switch {
		case errors.Is(err, persist.ErrNotFound):
			names = append(names, name)
		case err != nil:
			return nil, err
		}
	}
	return names, nil
}
