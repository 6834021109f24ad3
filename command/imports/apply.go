package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
)

// applying says how a plan is applied.
type applying struct {
	// Raise raises the start of biz types that exist and begin below that of the plan.
	Raise bool
	// DryRun lets the service check everything and changes nothing.
	DryRun bool
	// Explain makes an error of the client fit for people.
	Explain func(error) error
}

// applyAll brings the biz types of a plan to a running service, and sets Result and Detail of each.
// It creates those that are missing. One that exists keeps its definition: if its start is below
// that of the plan it is refused, or raised. Nothing is ever lowered, so a plan can be applied
// again. After an error that would meet every biz type, the rest is not tried.
func applyAll(ctx context.Context, service *admin.Admin, items []entry, how applying) {
	var broken error
	for i := range items {
		if items[i].Result == unfit {
			continue
		}
		if broken != nil {
			items[i].Result, items[i].Detail = failed, "not tried"
			continue
		}
		err := apply(ctx, service, &items[i], how)
		if err == nil {
			continue
		}
		items[i].Result, items[i].Detail = failed, how.Explain(err).Error()
		if errors.Is(err, client.ErrUnreachable) || errors.Is(err, client.ErrUnauthorized) || errors.Is(err, client.ErrForbidden) || ctx.Err() != nil {
			broken = err
		}
	}
}

func apply(ctx context.Context, service *admin.Admin, item *entry, how applying) error {
	b, err := service.BizType(ctx, item.Name)
	if errors.Is(err, client.ErrUnknownBizType) || errors.Is(err, client.ErrNotFound) {
		return create(ctx, service, item, how)
	}
	if err != nil {
		return err
	}
	return existing(ctx, service, item, b, how)
}

// definition is what a biz type needs to take over numbers. What is not here has the defaults of the
// service.
type definition struct {
	Strategy  string `json:"strategy"`
	Start     int64  `json:"start"`
	Step      int64  `json:"step,omitempty"`
	Increment int64  `json:"increment,omitempty"`
	Offset    int64  `json:"offset,omitempty"`
	Reset     string `json:"reset"`
	Keyed     bool   `json:"keyed"`
}

// create makes a biz type that does not exist. If another client makes it meanwhile, this fails.
func create(ctx context.Context, service *admin.Admin, item *entry, how applying) error {
	text, err := json.Marshal(definition{
		Strategy: "segment", Start: item.Start, Step: item.Step, Increment: item.Increment, Offset: item.Offset, Reset: "never",
	})
	if err != nil {
		return err
	}
	b, _, err := service.PutBizType(ctx, item.Name, text, admin.Change{IfNoneMatch: true, DryRun: how.DryRun})
	if err != nil {
		return err
	}
	item.Result, item.Detail = created, strings.Join(b.Warnings, "; ")
	return nil
}

// existing looks whether a biz type that exists begins above all that was issued elsewhere.
func existing(ctx context.Context, service *admin.Admin, item *entry, b admin.BizType, how applying) error {
	has := definition{Strategy: "segment", Start: 1, Increment: 1, Reset: "never"} // the defaults
	if err := json.Unmarshal(b.Definition, &has); err != nil {
		return fmt.Errorf("its definition cannot be read: %w", err)
	}
	switch {
	case has.Strategy != "segment":
		item.Result, item.Detail = unfit, "it exists with the strategy "+has.Strategy+": use another name with --rename"
		return nil
	case has.Reset != "never":
		item.Result, item.Detail = unfit, "it exists and resets "+has.Reset+": use another name with --rename"
		return nil
	case has.Keyed:
		item.Result, item.Detail = unfit, "it exists and counts for each key on its own: use another name with --rename"
		return nil
	case has.Increment != max(1, item.Increment) || has.Offset != item.Offset:
		item.Result = unfit
		item.Detail = fmt.Sprintf("it exists and issues the numbers that are %d modulo %d, and those of the table are %d modulo %d: use another name with --rename",
			has.Offset, has.Increment, item.Offset, max(1, item.Increment))
		return nil
	case has.Start >= item.Start:
		item.Result, item.Detail = unchanged, fmt.Sprintf("it exists and starts at %d", has.Start)
		return nil
	case !how.Raise:
		item.Result = unfit
		item.Detail = fmt.Sprintf("it exists and starts at %d, below what was issued elsewhere: --raise moves it up; "+
			"numbers up to %d that it has issued may exist twice", has.Start, item.Start-1)
		return nil
	}
	patch := fmt.Appendf(nil, `{"start":%d}`, item.Start)
	after, err := service.PatchBizType(ctx, item.Name, patch, admin.Change{IfMatch: b.Version, DryRun: how.DryRun})
	if err != nil {
		return err
	}
	item.Result = raised
	item.Detail = strings.Join(append([]string{fmt.Sprintf("it started at %d", has.Start)}, after.Warnings...), "; ")
	return nil
}
