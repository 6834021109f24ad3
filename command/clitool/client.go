package clitool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/seqd/seqd/client"
)

// Client returns a client for the service that the flags and the environment name. It asks each
// node once at most and does not wait, because a person does; change may say otherwise. An error
// wraps [ErrUsage].
func (e *Env) Client(change ...func(*client.Config)) (*client.Client, error) {
	conn, err := e.Connection()
	if err != nil {
		return nil, err
	}
	cfg := client.Config{Addrs: conn.Addrs, Token: conn.Token, Timeout: conn.Timeout, Wait: -1}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, Usage("%s", strings.TrimPrefix(err.Error(), "seqd: "))
	}
	return c, nil
}

// Explain returns an error of the client as a person at a terminal reads it: the code, what is
// wrong, and what to do. Other errors stay as they are.
func (e *Env) Explain(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || errors.Is(err, context.Canceled) {
		return err // nil too
	}
	var b strings.Builder
	if before, _, wrapped := strings.Cut(err.Error(), refused.Error()); wrapped {
		b.WriteString(before) // such as "after 20000 of 50000 numbers: "
	}
	if refused.Code == client.ErrUnreachable {
		b.WriteString(unreachable(refused))
	} else {
		b.WriteString(Escape(string(refused.Code)))
		if refused.Detail != "" && len(refused.Problems) == 0 {
			b.WriteString(": " + Escape(refused.Detail))
		}
	}
	if advice := e.advice(refused); advice != "" {
		b.WriteString("; " + advice)
	}
	if refused.Unknown && refused.Code != client.ErrUnreachable && refused.Status < 400 {
		b.WriteString("; it may have been done all the same")
	}
	if len(refused.Problems) > 0 {
		b.WriteByte(':')
	}
	for _, p := range refused.Problems {
		b.WriteString("\n  " + Escape(strings.TrimPrefix(p.Key+": "+p.Text, ": ")))
	}
	return explained{b.String(), err}
}

// explained is an error with another text.
type explained struct {
	text string
	err  error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

// unreachable says which node gave no answer, and why.
func unreachable(err *client.Error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s cannot be reached: connection refused", err.Addr)
	case err.Addr == "":
		return "the service cannot be reached: " + err.Detail
	}
	return fmt.Sprintf("%s cannot be reached: %s", err.Addr, err.Detail)
}

// advice says what to do about a refusal, "" if its detail says it.
func (e *Env) advice(err *client.Error) string {
	switch err.Code {
	case client.ErrUnreachable:
		return "is seqd running? --addr or " + envAddr + " names another address"
	case client.ErrBadAnswer:
		return "is " + err.Addr + " the address of seqd? --addr or " + envAddr + " names another"
	case client.ErrUnauthorized:
		if conn, wrong := e.Connection(); wrong == nil && conn.Token == "" {
			return "set " + envToken + " to a token of the service"
		}
		return "the token of --token or " + envToken + " is wrong, expired or disabled"
	case client.ErrUnknownBizType:
		return "seqd biz-types list shows what there is"
	case client.ErrUnknownPool:
		return "seqd worker-pools list shows what there is"
	case client.ErrUnknownSubscription:
		return "seqd subscriptions list shows what there is"
	case client.ErrDisabled:
		return "seqd biz-types enable lets it issue again"
	case client.ErrPreconditionFailed:
		return "somebody else changed it first: look at it again, and repeat the change"
	case client.ErrStarting, client.ErrStopping, client.ErrOverloaded, client.ErrRateLimited:
		return "try again in a moment"
	}
	return ""
}
