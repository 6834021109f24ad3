package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/seqd/seqd/client"
)

// NodeConfig says which configuration a node has read.
type NodeConfig struct {
	// Version is the same at nodes that have read the same, secrets aside, and Alike at those that work
	// with the same values of what all nodes need alike: a reload does not change it.
	Version string    `json:"version"`
	Alike   string    `json:"alike"`
	ReadAt  time.Time `json:"readAt"`
	// Restart is true if a part of it needs a restart of the node, and Failed if the last reload failed.
	Restart bool `json:"restart"`
	Failed  bool `json:"failed"`
}

// Reloaded is what a node did with a configuration that it has read again.
type Reloaded struct {
	// Node is the ID of the node, "" until it can issue.
	Node    string `json:"node,omitempty"`
	Version string `json:"version"`
	// Applied are the keys whose change counts from then on, and Restart those that need a restart.
	Applied []string `json:"applied"`
	Restart []string `json:"restart"`
}

// LogLevel is the level of the log of a node: debug, info, warn or error.
type LogLevel struct {
	Node  string `json:"node,omitempty"`
	Level string `json:"level"`
	// Configured is log.level of the configuration, which counts again from the next reload on.
	Configured string `json:"configured"`
}

// Reload lets the node that answers read its configuration again. After an error that the node answered
// nothing has changed; Problems of a [client.Error] has the keys that are wrong. It needs the scope admin.
func (a *Admin) Reload(ctx context.Context) (r Reloaded, err error) {
	_, err = a.ask(ctx, client.Request{Op: "reload", Method: http.MethodPost, Path: "/reload"}, &r)
	return r, err
}

// LogLevel returns the level of the log of the node that answers.
func (a *Admin) LogLevel(ctx context.Context) (l LogLevel, err error) {
	_, err = a.ask(ctx, client.Request{Op: "get log level", Path: "/log-level"}, &l)
	return l, err
}

// SetLogLevel sets the level of the log of the node that answers, until its next reload or restart. It
// needs the scope admin.
func (a *Admin) SetLogLevel(ctx context.Context, level string) (l LogLevel, err error) {
	body, err := json.Marshal(map[string]string{"level": level})
	if err != nil {
		return l, err
	}
	_, err = a.change(ctx, "set log level", http.MethodPut, "/log-level", body, Change{}, &l)
	return l, err
}
