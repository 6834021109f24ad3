package workers

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// The text of a lease is what the caller gives back to renew or release it. It has the worker ID,
// the bounds of the interval, when it was granted, and the token that is on record, under an HMAC
// (RFC 2104) with a key that is drawn once in the life of the store. So no caller can claim an
// interval that was not granted, such as one that ends in a year, and a lease needs no record
// except its slot.

const (
	// keyKind is the kind of the one document with the key, and keyName its name.
	keyKind = "leasekey"
	keyName = "workers"
	// keyBytes is the length of the key, and macBytes how much of the HMAC a text has.
	keyBytes = 32
	macBytes = 16
	// tokenBytes is the length of a token.
	tokenBytes = 16
	// textFormat is the first byte of a text.
	textFormat = 1
	plainBytes = 1 + 2 + 8 + 8 + 8 + tokenBytes
)

var errText = seqd.Errorf(seqd.CodeLeaseLost, "this is not a lease of this pool: use what the answer that leased or renewed the worker ID said")

// grant is a lease, and when it was granted or renewed, by the clock of the registry.
type grant struct {
	machineid.Lease
	at int64
}

// seal returns the text of a lease.
func (w *Workers) seal(ctx context.Context, pool string, l grant) (string, error) {
	key, err := w.sealKey(ctx)
	if err != nil {
		return "", err
	}
	plain := append(make([]byte, 0, plainBytes+macBytes), textFormat)
	plain = binary.BigEndian.AppendUint16(plain, uint16(l.ID))
	plain = binary.BigEndian.AppendUint64(plain, uint64(l.Lower))
	plain = binary.BigEndian.AppendUint64(plain, uint64(l.Until))
	plain = binary.BigEndian.AppendUint64(plain, uint64(l.at))
	if plain, err = hex.AppendDecode(plain, []byte(l.Token)); err != nil || len(plain) != plainBytes {
		return "", errors.New("a token is not 16 bytes in hexadecimal digits")
	}
	return base64.RawURLEncoding.EncodeToString(append(plain, mac(key, pool, plain)...)), nil
}

// open is the inverse of seal. It returns errText for a text that no node has written for the pool.
func (w *Workers) open(ctx context.Context, pool, text string) (l grant, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) != plainBytes+macBytes || sealed[0] != textFormat || strings.ContainsAny(text, "\r\n") {
		return l, errText
	}
	key, err := w.sealKey(ctx)
	if err != nil {
		return l, err
	}
	plain := sealed[:plainBytes]
	if !hmac.Equal(mac(key, pool, plain), sealed[plainBytes:]) && !sabotage.Off(sabotage.LeaseSealed) {
		return l, errText
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(plain[at:])) }
	l.ID, l.Lower, l.Until, l.at = int64(binary.BigEndian.Uint16(plain[1:])), number(3), number(11), number(19)
	l.Reserved, l.Token = l.Until, hex.EncodeToString(plain[27:])
	return l, nil
}

// mac returns the HMAC of the text of a lease.
func mac(key []byte, pool string, plain []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte("seqd worker lease\x00" + pool + "\x00")) // it never fails
	_, _ = h.Write(plain)
	return h.Sum(nil)[:macBytes]
}

// sealKey returns the key, which the first node that needs one draws. If the store failed over, or
// was restored, it may have another key than before. All nodes read that key within fresh.
func (w *Workers) sealKey(ctx context.Context) ([]byte, error) {
	w.mu.Lock()
	key, at := w.key, w.keyAt
	w.mu.Unlock()
	if key != nil && time.Since(at) < fresh {
		return key, nil
	}
	for {
		doc, err := w.opts.Documents.Read(ctx, keyKind, keyName)
		if errors.Is(err, persist.ErrNotFound) {
			drawn := make([]byte, keyBytes)
			_, _ = rand.Read(drawn) // it never fails
			doc = persist.Document{Kind: keyKind, Key: keyName, Revision: 1, Body: hex.EncodeToString(drawn), Timestamp: w.opts.Now().UnixMilli()}
			err = w.opts.Documents.Create(ctx, doc)
			if errors.Is(err, persist.ErrExists) {
				continue
			}
		}
		if err != nil {
			return nil, failure(err)
		}
		if key, err = hex.DecodeString(doc.Body); err != nil || len(key) != keyBytes {
			return nil, &seqd.Error{Code: seqd.CodeConflict, Detail: "the document " + doc.PersistID() + " is damaged: delete it; then all leases of worker IDs end", RetryAfter: time.Second}
		}
		w.mu.Lock()
		w.key, w.keyAt = key, time.Now()
		w.mu.Unlock()
		return key, nil
	}
}
