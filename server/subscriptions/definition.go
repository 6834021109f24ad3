package subscriptions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/outbound"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/events"
)

// format is the version of the format of each kind of document.
const format = 1

const (
	mostBizTypes = 100
	// mostOrders is how many replays may wait.
	mostOrders = 20
	longestURL = 2000
	// secretBegins is what the text of a secret begins with; a secret has 24 to 64 bytes.
	secretBegins              = "whsec_"
	leastSecret, mostSecret   = 24, 64
	drawnSecret               = 32
	mostSecrets               = 4
	secretLasts               = 24 * time.Hour // once there is another one
	fromNow, fromOldest       = "now", "oldest"
	whySecret                 = `secret: it is neither "new" nor whsec_ and the base64 of 24 to 64 bytes`
	whyGone                   = "the receiver answered 410 Gone; enable the subscription to send again"
	statePending, stateIsDead = "pending", "dead"
)

// types are all types of events.
var types = []string{persist.EventExpired, persist.EventVoid, persist.EventIssued, persist.EventExhausting, persist.EventDefinition, persist.EventJob}

// definition is the body of the document of a subscription. Only requests change it, and the node
// that finds the receiver gone.
type definition struct {
	Version int `json:"version"`
	// Made is random: it differs if a subscription that was deleted is made again under its name.
	Made     string   `json:"made"`
	URL      string   `json:"url"`
	BizTypes []string `json:"bizTypes"`
	Types    []string `json:"types,omitempty"`
	// Begin is, by biz type, the position behind which it began, or [events.Oldest].
	Begin   map[string]int64 `json:"begin"`
	Enabled bool             `json:"enabled"`
	Reason  string           `json:"reason,omitempty"`
	// Secrets are those that are valid, and maybe some that were, the newest first.
	Secrets []secret `json:"secrets"`
	// Orders are replays that may not be done yet, and Ordered is how many there were.
	Orders  []order `json:"orders,omitempty"`
	Ordered int64   `json:"ordered,omitempty"`

	name     string
	revision int64
	updated  int64
}

// secret signs what is sent until a time, in ms since the Unix epoch; 0 for ever.
type secret struct {
	Text  string `json:"text"`
	Until int64  `json:"until,omitempty"`
}

// order is a replay that a request asked for: of a biz type from a position on, or of what is dead if
// BizType is "".
type order struct {
	Number  int64  `json:"number"`
	BizType string `json:"bizType,omitempty"`
	From    int64  `json:"from,omitempty"`
}

// decode reads the body of a document of this package.
func decode(doc persist.Document, to any, has *int) error {
	if err := json.Unmarshal([]byte(doc.Body), to); err != nil {
		return fmt.Errorf("%w: %s: %w", persist.ErrInvalid, doc.PersistID(), err)
	}
	if *has > format {
		return fmt.Errorf("%w: %s has format %d, this build knows %d", persist.ErrNewer, doc.PersistID(), *has, format)
	}
	if *has < 1 {
		return fmt.Errorf("%w: %s is damaged", persist.ErrInvalid, doc.PersistID())
	}
	return nil
}

// text returns a body as a document has it.
func text(body any) string {
	all, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is texts, numbers and the JSON of an event
	}
	return string(all)
}

func definitionIn(doc persist.Document) (*definition, error) {
	d := &definition{name: doc.Key, revision: doc.Revision, updated: doc.Timestamp}
	if err := decode(doc, d, &d.Version); err != nil {
		return nil, err
	}
	if len(d.Secrets) == 0 {
		return nil, fmt.Errorf("%w: %s is damaged", persist.ErrInvalid, doc.PersistID())
	}
	return d, nil
}

func (d *definition) document(now time.Time) persist.Document {
	d.Version, d.revision, d.updated = format, d.revision+1, now.UnixMilli()
	return persist.Document{Kind: Kind, Key: d.name, Revision: d.revision, Body: text(d), Timestamp: d.updated}
}

func (d *definition) shown() admin.Subscription {
	return admin.Subscription{
		Name: d.name, URL: d.URL, BizTypes: d.BizTypes, Types: d.Types, Enabled: d.Enabled, Reason: d.Reason,
		Version: d.revision, UpdatedAt: admin.Time(d.updated),
	}
}

// check returns what is wrong with a request.
func check(name string, want *admin.SubscriptionRequest) error {
	invalid := func(format string, args ...any) error {
		return seqd.Errorf(seqd.CodeInvalidRequest, format, args...)
	}
	u, err := outbound.ParseURL(want.URL)
	switch {
	case seqd.CheckName(name) != nil:
		return invalid("%.70q is no name of a subscription: it begins with a letter and continues with letters, digits, '.', '_' or '-', 64 in all", name)
	case err != nil:
		return invalid("url: %v", err)
	case u.User != nil:
		return invalid("url: it has a user or password; a receiver checks the signature instead")
	case len(want.URL) > longestURL:
		return invalid("url: it has more than %d bytes", longestURL)
	case len(want.BizTypes) == 0 || len(want.BizTypes) > mostBizTypes:
		return invalid("bizTypes: name 1 to %d biz types", mostBizTypes)
	case want.From != "" && want.From != fromNow && want.From != fromOldest:
		return invalid("from: %.20q is neither now nor oldest", want.From)
	}
	for _, t := range want.Types {
		if !slices.Contains(types, t) {
			return invalid("types: %.40q is no type of events; there is %s", t, strings.Join(types, ", "))
		}
	}
	for _, b := range want.BizTypes {
		if err := seqd.CheckName(b); err != nil {
			return err
		}
	}
	return nil
}

// put makes the definition what is wanted. begin is the position behind which each biz type that is
// new in it begins. made is the secret, if there is another one now.
func (d *definition) put(want admin.SubscriptionRequest, begin map[string]int64, now time.Time) (made string, err error) {
	if d.revision == 0 {
		d.Made = rand.Text()
	}
	if want.Enabled {
		d.Reason = ""
	}
	d.URL, d.Enabled = want.URL, want.Enabled
	d.BizTypes, d.Types = slices.Compact(slices.Sorted(slices.Values(want.BizTypes))), slices.Compact(slices.Sorted(slices.Values(want.Types)))
	had := d.Begin
	d.Begin = make(map[string]int64, len(d.BizTypes))
	for _, b := range d.BizTypes {
		if at, known := had[b]; known {
			d.Begin[b] = at
		} else {
			d.Begin[b] = begin[b]
		}
	}
	d.Orders = slices.DeleteFunc(d.Orders, func(o order) bool { _, has := d.Begin[o.BizType]; return o.BizType != "" && !has })
	switch {
	case want.Secret == "" && len(d.Secrets) > 0:
		return "", nil
	case want.Secret == "" || want.Secret == "new":
		b := make([]byte, drawnSecret)
		_, _ = rand.Read(b) // it never fails
		made = secretBegins + base64.StdEncoding.EncodeToString(b)
	default:
		if made = want.Secret; keyOf(made) == nil {
			return "", seqd.Errorf(seqd.CodeInvalidRequest, whySecret)
		}
	}
	if len(d.Secrets) > 0 && d.Secrets[0].Text == made {
		return made, nil
	}
	// not only the one before: a request for another one may have been repeated
	old := slices.DeleteFunc(slices.Clone(d.Secrets), func(s secret) bool { return s.Text == made || s.Until != 0 && s.Until <= now.UnixMilli() })
	if len(old) > 0 && old[0].Until == 0 {
		old[0].Until = now.Add(secretLasts).UnixMilli()
	}
	d.Secrets = append([]secret{{Text: made}}, old[:min(mostSecrets-1, len(old))]...)
	return made, nil
}

// order adds a replay. done is how many of them are done.
func (d *definition) order(o order, done int64) error {
	d.Orders = slices.DeleteFunc(slices.Clone(d.Orders), func(o order) bool { return o.Number <= done })
	if len(d.Orders) >= mostOrders {
		return seqd.Errorf(seqd.CodeConflict, "%d replays of %s are not done yet: wait for them", len(d.Orders), d.name)
	}
	d.Ordered = max(d.Ordered, done) + 1
	o.Number = d.Ordered
	d.Orders = append(d.Orders, o)
	return nil
}

// keyOf returns the key in the text of a secret, nil if it has none.
func keyOf(text string) []byte {
	after, ok := strings.CutPrefix(text, secretBegins)
	key, err := base64.StdEncoding.DecodeString(after)
	if !ok || err != nil || len(key) < leastSecret || len(key) > mostSecret {
		return nil
	}
	return key
}

// sign returns the header webhook-signature, with a signature of each secret: receivers change from
// the old one to the new one when they like.
func (d *definition) sign(id string, at time.Time, body []byte) string {
	var all []string
	for _, s := range d.Secrets {
		if s.Until != 0 && s.Until <= at.UnixMilli() {
			continue
		}
		mac := hmac.New(sha256.New, keyOf(s.Text))
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// sends reports whether an event is one of the subscription's.
func (d *definition) sends(e *events.Event) bool {
	return len(d.Types) == 0 || slices.Contains(d.Types, e.Type)
}

// state is the state of the work that sends: see package terms.
type state struct {
	Version int `json:"version"`
	// Made is that of the definition whose state this is.
	Made string `json:"made"`
	// At are positions, by biz type: each event up to there was delivered or has a document.
	At map[string]int64 `json:"at"`
	// Done is how many orders are done.
	Done   int64 `json:"done,omitempty"`
	Missed int64 `json:"missed,omitempty"`
}

// of returns the state for a definition: that of another one counts for nothing.
func (s state) of(d *definition) state {
	next := state{Version: format, Made: d.Made, At: maps.Clone(d.Begin)}
	if s.Made != d.Made {
		return next
	}
	for b := range next.At {
		if at, has := s.At[b]; has {
			next.At[b] = at
		}
	}
	next.Done, next.Missed = s.Done, s.Missed
	return next
}

// order does an order: the positions go back.
func (s *state) order(o order) {
	if at, has := s.At[o.BizType]; has {
		s.At[o.BizType] = min(at, o.From-1)
	}
	s.Done = o.Number
}

// moves returns which works a session takes, and which it releases. works is what the manifest says.
// A work that the manifest does not name stays where it is. has reports whether the session has a
// work.
func moves(works map[string][]string, session string, has func(work string) bool) (take, release []string) {
	for other, names := range works {
		for _, name := range names {
			switch {
			case other == session && !has(name):
				take = append(take, name)
			case other != session && has(name):
				release = append(release, name)
			}
		}
	}
	return take, release
}
