package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
)

// Parse reads an ID back. It checks that the text has the form of an ID of this biz type, not that
// the ID was issued. A biz type that is disabled is read too, if its definition could be.
func (is *Issuer) Parse(bizType, id string) (seqd.Parsed, error) {
	return is.ParseOf(context.Background(), bizType, id, "")
}

// ParseOf is Parse for an ID of a keyed biz type that belongs to this key, "" if the caller does
// not say. Some IDs cannot be read without it: the error is [seqd.CodeInvalidKey], as it is for a
// key that is not the one in the ID. A store may be asked, until ctx ends.
func (is *Issuer) ParseOf(ctx context.Context, bizType, id, key string) (seqd.Parsed, error) {
	i, err := is.reader(ctx, bizType)
	if err != nil {
		return seqd.Parsed{}, err
	}
	defer i.leave()
	if key != "" {
		if err := i.checkKey(key); err != nil {
			return seqd.Parsed{}, err
		}
	}
	p, shown, err := i.read(ctx, id, key)
	if err != nil {
		return seqd.Parsed{}, err
	}
	most := seqd.MaxNumber
	if i.can.parser != nil {
		most = math.MaxInt64
	}
	number, err := strconv.ParseInt(shown, 10, 64)
	switch {
	case err != nil && errors.Is(err, strconv.ErrRange), err == nil && (number < 1 || number > most):
		return seqd.Parsed{}, seqd.Errorf(seqd.CodeInvalidID, "%s is outside 1 to %d, where all numbers of %s are", shorten(shown), most, bizType)
	case err != nil || strconv.FormatInt(number, 10) != shown:
		return seqd.Parsed{}, seqd.Errorf(seqd.CodeInvalidID, "%s is no ID of %s: an ID is a decimal number without sign or leading zeros",
			shorten(shown), bizType)
	case i.increment > 1 && number%i.increment != i.offset:
		return seqd.Parsed{}, seqd.Errorf(seqd.CodeInvalidID, "%d is no number of %s: it issues only those that are %d modulo %d", number, bizType, i.offset, i.increment)
	case i.can.parser != nil:
		valid, period, key := p.Valid, p.Period, p.Key
		p, err = i.can.parser.Parse(number)
		p.Valid, p.Period, p.Key = p.Valid && valid, period, key
		return p, err
	}
	p.Number = number
	return p, nil
}

// reader returns an instance that can read IDs of a biz type. The caller must leave it.
func (is *Issuer) reader(ctx context.Context, bizType string) (*instance, error) {
	i, err := is.find(ctx, bizType, false)
	if seqd.CodeOf(err) != seqd.CodeDisabled {
		return i, err
	}
	rest, failed := is.find(ctx, bizType, true)
	switch {
	case failed != nil:
		return nil, err
	case !rest.reads:
		rest.leave()
		return nil, err
	}
	return rest, nil
}

// read undoes what the plugins did to the display of a number, the last one first. key is the one
// that the caller named, "" for none.
func (i *instance) read(ctx context.Context, id, key string) (p seqd.Parsed, shown string, err error) {
	p.Valid, shown = true, id
	for _, plug := range slices.Backward(i.chain) {
		reader := ask[seqd.Reader](plug.Plugin)
		switch {
		case reader != nil:
			reading, err := plug.read(ctx, reader, shown, seqd.Counter{Period: p.Period, Key: cmp.Or(p.Key, key)})
			if err != nil {
				return p, "", err
			}
			shown, p.Valid = reading.Shown, p.Valid && !reading.Invalid
			p.Period, p.Key = cmp.Or(p.Period, reading.Period), cmp.Or(p.Key, reading.Key)
		case plug.Rewrites:
			return p, "", seqd.Errorf(seqd.CodeInvalidID, "IDs of %s cannot be read back: the plugin %s cannot read them", i.name, plug.Name)
		}
	}
	if key != "" && p.Key != "" && p.Key != key {
		return p, "", seqd.Errorf(seqd.CodeInvalidKey, "%s belongs to the key %s, not %s", shorten(id), p.Key, key)
	}
	p.Key = cmp.Or(p.Key, key)
	return p, shown, nil
}

func (plug *chainPlugin) read(ctx context.Context, reader seqd.Reader, shown string, of seqd.Counter) (r seqd.Reading, err error) {
	defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
	return reader.Read(ctx, shown, of)
}

// Resource returns what a plugin shows of a biz type, also if the biz type is disabled or cannot
// issue. See [seqd.Resource].
func (is *Issuer) Resource(ctx context.Context, bizType, name string, query url.Values) (shown any, err error) {
	i, err := is.find(ctx, bizType, true)
	if err != nil {
		return nil, err
	}
	defer i.leave()
	for _, plug := range i.chain {
		if r := ask[seqd.Resource](plug.Plugin); r != nil && r.ResourceName() == name {
			defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
			return r.Show(ctx, query)
		}
	}
	return nil, seqd.Errorf(seqd.CodeNotFound, "the biz type %s has no plugin that shows %s", bizType, shorten(name))
}

// Erase removes what a plugin keeps of a biz type. See [seqd.Erasable].
func (is *Issuer) Erase(ctx context.Context, bizType, name string, query url.Values) (shown any, err error) {
	i, err := is.find(ctx, bizType, true)
	if err != nil {
		return nil, err
	}
	defer i.leave()
	for _, plug := range i.chain {
		if r := ask[seqd.Erasable](plug.Plugin); r != nil && r.ResourceName() == name {
			defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
			return r.Erase(ctx, query)
		}
	}
	return nil, seqd.Errorf(seqd.CodeNotFound, "the biz type %s has no plugin that keeps %s", bizType, shorten(name))
}

// Display returns the text that changes with how the numbers of a biz type are shown, see
// [Definition], and whether each of its numbers is accounted for. It returns why a call could not
// be for this key.
func (is *Issuer) Display(ctx context.Context, bizType, key string) (display string, ledger bool, err error) {
	err = is.with(ctx, bizType, func(_ context.Context, i *instance) error {
		display, ledger = i.display, i.keepsAnswers()
		return i.checkKey(key)
	})
	return display, ledger, err
}

// Show shows the numbers that call.Sequence holds, with their key, period and time, as they are
// shown when they are issued. If the biz type shows numbers in another way than call.Display, it
// returns [seqd.CodeConflict]. It shows those of a biz type that is disabled too.
func (is *Issuer) Show(ctx context.Context, call *seqd.Call) error {
	i, err := is.reader(ctx, call.BizType)
	if err != nil {
		return err
	}
	defer i.leave()
	if err := i.checkDisplay(call.Display); err != nil {
		return err
	}
	call.Replayed = true
	if err := is.showAll(ctx, i, call, &waits{pluginTimeout: is.pluginTimeout}); err != nil {
		return seqd.AsError(err)
	}
	return nil
}

// checkDisplay returns why numbers that are shown in one way cannot be. The error says when to ask
// again if it is only this node that cannot, or does not know.
func (i *instance) checkDisplay(display string) error {
	switch {
	case display == i.display, sabotage.Off(sabotage.JobPinned):
		return nil
	case i.display == "":
		return &seqd.Error{
			Code: seqd.CodeConflict, RetryAfter: 5 * time.Second,
			Detail: fmt.Sprintf("this node cannot say how %s shows its numbers, which is tried again every few seconds; its log says more", i.name),
		}
	}
	return seqd.Errorf(seqd.CodeConflict, "the definition of %s was changed: it does not show numbers any more as it did", i.name)
}

// shorten quotes text of unknown length for an error message.
func shorten(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "…"
	}
	return strconv.QuoteToASCII(text)
}
