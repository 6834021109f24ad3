package tracing

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// RedisHook returns a hook that records a span for each command and each pipeline of a traced
// request. A span contains the command's name and not its arguments. The hook does not send, repeat
// or change commands.
func (t *Tracing) RedisHook() redis.Hook { return redisHook{t} }

type redisHook struct{ *Tracing }

var _ redis.Hook = redisHook{}

var systemRedis = attribute.String("db.system.name", "redis")

// DialHook implements [redis.Hook].
func (h redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, span := h.child(ctx, cmd.Name(), systemRedis, attribute.String("db.operation.name", cmd.Name()))
		err := next(ctx, cmd)
		endRedis(span, err)
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, span := h.child(ctx, "pipeline", systemRedis, attribute.Int("db.operation.batch.size", len(cmds)))
		err := next(ctx, cmds)
		endRedis(span, firstFailure(err, cmds))
		return err
	}
}

// firstFailure returns the first error of a pipeline that is a failure: err is that of its first command.
func firstFailure(err error, cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if isFailure(cmd.Err()) {
			return cmd.Err()
		}
	}
	return err
}

// endRedis ends a span, which may be nil.
func endRedis(span trace.Span, err error) {
	if span == nil {
		return
	}
	if isFailure(err) {
		fail(span, redisErrorType(err))
	}
	span.End()
}

// isFailure reports whether an error is one for the caller. An empty reply is not, nor is NOSCRIPT,
// because the script is sent then, nor a redirection, which the client follows.
func isFailure(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") &&
		!redis.HasErrorPrefix(err, "MOVED") && !redis.HasErrorPrefix(err, "ASK")
}

// redisErrorType returns the first word of a server's error, such as LOADING. The rest of the error
// may contain arguments.
func redisErrorType(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return errorType(err)
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	if word == "" || len(word) > 32 || strings.ContainsFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return "error"
	}
	return word
}

// fail marks a span as failed.
func fail(span trace.Span, kind string) {
	span.SetStatus(codes.Error, kind)
	span.SetAttributes(attribute.String("error.type", kind))
}

// errorType classifies an error that is not an answer of the server.
func errorType(err error) string {
	var late interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &late) && late.Timeout():
		return "timeout"
	}
	return "connection"
}
