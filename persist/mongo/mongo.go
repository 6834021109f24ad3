// Package mongo is a store in MongoDB that many nodes share. A counter is one document, and a range
// is allocated by one atomic findAndModify with majority and journal. It uses only what a
// stand-alone server has.
package mongo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/seqd/seqd/persist"
)

// Options configures a store.
type Options struct {
	// URI is the connection string, with credentials and TLS if needed. It must not weaken the
	// write concern or read from secondaries.
	URI string
	// Database is the name of the database.
	Database string
	// Timeout bounds every operation; more than 0.
	Timeout time.Duration
	// Unreached opens the store even if it cannot be reached now: its operations return
	// persist.ErrUnavailable until it can.
	Unreached bool
	// ReadOnly opens the store to look at it: no index is made.
	ReadOnly bool
	// PastShut opens a store that is shut, to move it: see [persist.Shutter].
	PastShut bool
	// Admit, unless nil, is called before every operation. If it returns an error, the operation
	// returns that error and does nothing.
	Admit func(context.Context) error
	// Now is the clock of the timestamps.
	Now func() time.Time
	// Monitor, unless nil, observes every command.
	Monitor *event.CommandMonitor
	// Configure, unless nil, changes the options of the client last. It is meant for tests.
	Configure func(*options.ClientOptions)
}

const (
	plainScheme = "mongodb://"
	srvScheme   = "mongodb+srv://"
)

// errURI replaces the errors of the client library for a URI: they may quote parts of the password.
var errURI = errors.New("it cannot be read as a connection string such as mongodb://user:password@host:port/?tls=true")

// CheckURI returns an error if the URI cannot be read or asks for less than seqd needs. It does not
// use the network: of a mongodb+srv URI only the options are checked. No error shows a part of the
// URI. If it names a file that cannot be read now, [Open] checks the rest.
func CheckURI(uri string) error {
	if rest, ok := strings.CutPrefix(uri, srvScheme); ok {
		uri = plainScheme + rest
	}
	_, err := clientOptions(uri)
	if errors.Is(err, persist.ErrUnavailable) {
		return nil
	}
	return err
}

// serverOf returns the addresses that a URI names, "" if it cannot be read. It does not use the
// network.
func serverOf(uri string) string {
	if CheckURI(uri) != nil {
		return ""
	}
	_, rest, _ := strings.Cut(uri, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	return authority[strings.LastIndex(authority, "@")+1:]
}

// The defaults of the connection pool. Many operations at once, such as those at the start with
// many biz types, open as many connections, and the client library never closes one by default.
const (
	mostConnections = 64
	idleTime        = time.Minute
)

// clientOptions reads the URI and sets the options that it may not choose.
func clientOptions(uri string) (*options.ClientOptions, error) {
	o := options.Client().ApplyURI(uri)
	if err := o.Validate(); err != nil {
		if file, ok := errors.AsType[*fs.PathError](err); ok { // which may come later
			return nil, fmt.Errorf("%w: %w", persist.ErrUnavailable, file)
		}
		return nil, errURI
	}
	if w := o.WriteConcern; w != nil && (w.W != nil && w.W != writeconcern.WCMajority || w.Journal != nil && !*w.Journal) {
		return nil, errors.New("it sets w or journal to less than w=majority and journal=true; leave them out")
	}
	if r := o.ReadPreference; r != nil && r.Mode() != readpref.PrimaryMode {
		return nil, errors.New("it sets readPreference to another than primary; leave it out")
	}
	if o.MaxPoolSize == nil {
		least := uint64(0)
		if o.MinPoolSize != nil {
			least = *o.MinPoolSize
		}
		o.SetMaxPoolSize(max(mostConnections, least))
	}
	if o.MaxConnIdleTime == nil {
		o.SetMaxConnIdleTime(idleTime)
	}
	journal := true
	return o.SetAppName("seqd").
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}).
		SetReadPreference(readpref.Primary()).
		// Nothing is read that a failover could take back.
		SetReadConcern(readconcern.Majority()).
		// A write whose outcome is unknown is never repeated: its range is abandoned.
		SetRetryWrites(false), nil
}

// Store is a [persist.Store] in one MongoDB database, safe for concurrent use and for many
// processes.
type Store struct {
	client   *mongo.Client
	describe string
	counters counters
	clock    clock
	slots    slots
	history  history

	documents documents
	pool      *pool
}

var (
	_ persist.Store         = (*Store)(nil)
	_ persist.Shutter       = (*Store)(nil)
	_ persist.CounterFiller = (*Store)(nil)
)

const documentsName = "documents"

// Open connects to the server. An error that wraps persist.ErrUnavailable can pass; any other needs
// an operator. It wraps persist.ErrOlder or persist.ErrNewer if this build cannot read the format
// of the database. No error contains the URI, which may contain a password.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := CheckURI(opts.URI); err != nil {
		return nil, fmt.Errorf("store.mongo.uri: %w", err)
	}
	o, err := clientOptions(opts.URI)
	switch {
	case errors.Is(err, persist.ErrUnavailable):
		return nil, fmt.Errorf("store.mongo.uri: %w", err)
	case err != nil:
		return nil, fmt.Errorf("store.mongo.uri: %w: the name service does not know the hosts now", persist.ErrUnavailable)
	}
	if o.TLSConfig != nil && len(o.TLSConfig.Certificates) > 0 {
		o.TLSConfig.GetClientCertificate = (&certificate{opts.URI, o.TLSConfig.Certificates[0]}).get
	}
	o.SetServerSelectionTimeout(opts.Timeout).SetConnectTimeout(opts.Timeout).SetDialer(newDialer(opts.Timeout))
	if opts.PastShut {
		// Nothing changes any more. A new primary has all that a majority had, but knows that later.
		o.SetReadConcern(readconcern.Local())
	}
	if opts.Monitor != nil {
		o.SetMonitor(opts.Monitor)
	}
	connections := new(pool)
	o.SetPoolMonitor(connections.monitor())
	if opts.Configure != nil {
		opts.Configure(o)
	}
	connections.most.Store(int64(min(*o.MaxPoolSize, math.MaxInt64)))
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("store.mongo.uri: %w", err)
	}
	if err := ping(ctx, client, opts.Timeout); err != nil && !(opts.Unreached && errors.Is(err, persist.ErrUnavailable)) {
		err = errors.Join(err, client.Disconnect(ctx))
		return nil, fmt.Errorf("store.mongo.uri: reach MongoDB at %v: %w", o.Hosts, err)
	}
	db := client.Database(opts.Database)
	s := &Store{client: client, pool: connections, describe: fmt.Sprintf("mongo: numbers are unique over all nodes that share the database %s at %v", opts.Database, o.Hosts)}
	// A new primary has the guard before it knows that a majority has it.
	guarded := db.Collection("counters", options.Collection().SetReadConcern(readconcern.Local()))
	l := &link{timeout: opts.Timeout, admit: opts.Admit, guarded: guarded}
	s.counters = counters{repository: repository[persist.Counter, storedCounter]{l, db.Collection("counters")}, now: opts.Now}
	s.counters.epochs = persist.NewEpochs(s.counters.findEpochs)
	s.documents.repository = repository[persist.Document, storedDocument]{l, db.Collection(documentsName)}
	s.documents.clusters, s.documents.shapes, s.documents.readOnly = db.Collection("clusters"), db.Collection("shapes"), opts.ReadOnly
	s.history = history{l, db.Collection("history")}
	s.clock = clock{l, client.Database("admin")}
	s.slots = slots{l, db.Collection("slots"), s.clock}
	if opts.Unreached || opts.ReadOnly { // whoever reads the cluster's ID learns of the format
		return s, nil
	}
	if err := s.documents.checkFormat(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database %s at %v: %w", opts.Database, o.Hosts, err), s.Close())
	}
	return s, nil
}

// certificate is the client's certificate that a URI names. It is safe for concurrent use.
type certificate struct {
	uri   string
	first tls.Certificate
}

// get reads the certificate for each connection, because it is replaced before it expires. While it
// cannot be read, the first one is used.
func (c *certificate) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if fresh := options.Client().ApplyURI(c.uri).TLSConfig; fresh != nil && len(fresh.Certificates) > 0 {
		return &fresh.Certificates[0], nil
	}
	return &c.first, nil
}

func ping(ctx context.Context, client *mongo.Client, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return translate(client.Ping(ctx, nil))
}

// Counters returns the counters.
func (s *Store) Counters() persist.Counters { return &s.counters }

// Now returns the time of the primary.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ms, err := s.clock.now(ctx)
	return time.UnixMilli(ms), err
}

// Slots returns the registries of machine IDs.
func (s *Store) Slots() persist.SlotStore { return &s.slots }

// History returns what was issued.
func (s *Store) History() persist.HistoryStore { return &s.history }

// Documents returns the documents.
func (s *Store) Documents() persist.Documents { return &s.documents }

// Shared is true: any number of processes can use one database.
func (s *Store) Shared() bool { return true }

// Lossy is false: a majority has what it acknowledges.
func (s *Store) Lossy() bool { return false }

// Describe says what mongo promises.
func (s *Store) Describe() string { return s.describe }

// Close disconnects.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return translate(s.client.Disconnect(ctx))
}

// authenticationFailed is the server's code for wrong credentials.
const authenticationFailed = 18

// noJournal is the error of a server without a journal for a write that asks for it.
const noJournal = "does not have journaling enabled"

// translate turns errors of the client library into those of package persist.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var server mongo.ServerError
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected):
		return persist.ErrClosed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !mongo.IsTimeout(err):
		return err
	case errors.Is(err, mongo.ErrNoDocuments):
		return persist.ErrNotFound
	case mongo.IsDuplicateKeyError(err):
		return persist.ErrExists
	case errors.As(err, &server) && server.HasErrorCode(authenticationFailed):
		return err
	case errors.As(err, &server) && server.HasErrorMessage(noJournal):
		return fmt.Errorf("%w: store.mongo.uri: the MongoDB server runs without a journal and could lose numbers; set its storage.journal.enabled: %w",
			persist.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
}
