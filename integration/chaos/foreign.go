package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A MongoDB server can be used instead of the stand-in, as in package testenv. The laboratory's
// network is isolated, so the process outside forwards connections from a socket in the file
// system. Then faults break only the connection to the server and not the server.
const (
	// set by the user: one server, or the primary of a replica set
	mongoEnv    = "SEQD_TEST_MONGO_URI"
	socketEnv   = "CHAOS_MONGO_SOCKET"
	databaseEnv = "CHAOS_MONGO_DATABASE"
)

// Foreign reports whether the store is a server outside the laboratory.
func Foreign() bool { return os.Getenv(mongoEnv) != "" }

// forwardOut lets the laboratory reach the server. It returns the variables for the laboratory, and
// a function that ends the forwarding and drops the database.
func forwardOut() (env []string, end func() error, err error) {
	uri, err := url.Parse(os.Getenv(mongoEnv))
	if err != nil || uri.Scheme != "mongodb" || strings.Contains(uri.Host, ",") {
		// the URI may contain a password
		return nil, nil, fmt.Errorf("%s must be mongodb:// with one host", mongoEnv)
	}
	addr := uri.Host
	if uri.Port() == "" {
		addr = net.JoinHostPort(uri.Hostname(), fmt.Sprint(mongoPort))
	}
	dir, err := os.MkdirTemp("", "seqd-chaos-socket-")
	if err != nil {
		return nil, nil, err
	}
	socket, database := filepath.Join(dir, "mongo"), "seqd_chaos_"+strings.ToLower(rand.Text())
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	go forward(listener, "tcp", addr)
	end = func() error { return errors.Join(listener.Close(), os.RemoveAll(dir), dropDatabase(database)) }
	return []string{socketEnv + "=" + socket, databaseEnv + "=" + database}, end, nil
}

// forwardIn gives the server an address inside the laboratory.
func forwardIn() (addr string, err error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", gateway, mongoPort))
	if err != nil {
		return "", err
	}
	go forward(listener, "unix", os.Getenv(socketEnv))
	return listener.Addr().String(), nil
}

// forward connects clients with an address until the listener is closed.
func forward(listener net.Listener, network, addr string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = from.Close() }()
			to, err := net.DialTimeout(network, addr, 2*time.Second)
			if err != nil {
				return
			}
			defer func() { _ = to.Close() }()
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			_, _ = io.Copy(from, to)
		}()
	}
}

// storeURI returns the connection string for the store, or a link to it, at an address.
func storeURI(addr string) string {
	uri := &url.URL{Scheme: "mongodb", Path: "/"}
	if Foreign() {
		uri, _ = url.Parse(os.Getenv(mongoEnv)) // forwardOut has parsed it
		query := uri.Query()
		query.Set("directConnection", "true") // otherwise the driver would bypass the link
		query.Del("replicaSet")
		uri.RawQuery = query.Encode()
		if uri.Path == "" {
			uri.Path = "/" // needed before a query
		}
	}
	uri.Host = addr
	return uri.String()
}

// storeDatabase returns the name of the database.
func storeDatabase() string {
	if Foreign() {
		return os.Getenv(databaseEnv)
	}
	return "seqd"
}

func dropDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv(mongoEnv)))
	if err != nil {
		return err
	}
	return named("drop the database "+name, errors.Join(client.Database(name).Drop(ctx), client.Disconnect(ctx)))
}
