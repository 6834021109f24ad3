package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
)

// Statements returns a function that is called before each statement to an SQL server is sent, with
// its short name, and returns one that is called when the statement is done. A statement of a
// traced request gets a span with that name, and nothing else of the statement. system is what
// OpenTelemetry calls the kind of server, such as postgresql. An error that is answered is a result
// and no failure, such as that there is no such row.
func (t *Tracing) Statements(system string, answered func(error) bool) func(ctx context.Context, statement string) func(error) {
	kind := attribute.String("db.system.name", system)
	return func(ctx context.Context, statement string) func(error) {
		_, span := t.child(ctx, statement, kind, attribute.String("db.operation.name", statement))
		if span == nil {
			return func(error) {}
		}
		return func(err error) {
			if err != nil && !answered(err) {
				fail(span, statementErrorType(err))
			}
			span.End()
		}
	}
}

// statementErrorType classifies an error of a driver. Its text may contain what was written.
func statementErrorType(err error) string {
	if kind := errorType(err); kind != "connection" {
		return kind
	}
	return "error"
}
