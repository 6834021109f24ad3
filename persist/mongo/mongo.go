// Package mongo is the store that many nodes share: one document per biz type, every range taken by one atomic findAndModify with
// majority and journal. It uses nothing that a stand-alone server does not have.
package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/seqd/seqd/persist"
)

// Options say which server and how long to wait for it.
type Options struct {
	// URI is the connection string, with credentials and TLS where needed. It may not weaken the write concern nor read from
	// secondaries.
	URI string
	// Database is the name of the database.
	Database string
	// Timeout bounds every operation; more than 0.
	Timeout time.Duration
	// Now is the clock of the timestamps.
	Now func() time.Time
	// Configure, when not nil, changes the options of the client last. It is meant for tests.
	Configure func(*options.ClientOptions)
}

// CheckURI returns an error when the URI cannot be read or asks for less than seqd needs. It connects to nothing.
func CheckURI(uri string) error {
	_, err := clientOptions(uri)
	return err
}

// clientOptions reads the URI and sets what is not up to it.
func clientOptions(uri string) (*options.ClientOptions, error) {
	o := options.Client().ApplyURI(uri)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if w := o.WriteConcern; w != nil && (w.W != nil && w.W != writeconcern.WCMajority || w.Journal != nil && !*w.Journal) {
		return nil, errors.New("it sets w or journal to less than w=majority and journal=true; leave them out")
	}
	if r := o.ReadPreference; r != nil && r.Mode() != readpref.PrimaryMode {
		return nil, errors.New("it sets readPreference to another than primary; leave it out")
	}
	journal := true
	return o.SetAppName("seqd").
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}).
		SetReadPreference(readpref.Primary()).
		// A write whose outcome is unknown is never repeated: its range is abandoned.
		SetRetryWrites(false), nil
}

// Store is a [persist.Store] in one MongoDB database, safe for concurrent use and for many processes.
type Store struct {
	client   *mongo.Client
	describe string
	counters counters
	shapes   repository[persist.Shape, shape]
}

var _ persist.Store = (*Store)(nil)

// Open connects and asks the server for a sign of life. An error that wraps persist.ErrUnavailable can pass; any other needs a human. No
// error holds the URI, which may hold a password.
func Open(ctx context.Context, opts Options) (*Store, error) {
	o, err := clientOptions(opts.URI)
	if err != nil {
		return nil, fmt.Errorf("store.mongo.uri: %w", err)
	}
	o.SetTimeout(opts.Timeout).SetServerSelectionTimeout(opts.Timeout).SetConnectTimeout(opts.Timeout)
	if opts.Configure != nil {
		opts.Configure(o)
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("store.mongo.uri: %w", err)
	}
	if err := client.Ping(ctx, nil); err != nil {
		err = errors.Join(translate(err), client.Disconnect(context.WithoutCancel(ctx)))
		return nil, fmt.Errorf("store.mongo.uri: reach MongoDB at %v: %w", o.Hosts, err)
	}
	db := client.Database(opts.Database)
	s := &Store{client: client, describe: fmt.Sprintf("mongo: numbers are unique over all nodes that share the database %s at %v", opts.Database, o.Hosts)}
	s.counters = counters{repository[persist.Counter, counter]{db.Collection("counters"), newCounter}, opts.Now}
	s.shapes = repository[persist.Shape, shape]{db.Collection("shapes"), newShape}
	return s, nil
}

// Counters returns the counters.
func (s *Store) Counters() persist.Counters { return &s.counters }

// Shapes returns the shapes.
func (s *Store) Shapes() persist.Repository[persist.Shape] { return &s.shapes }

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

// translate gives errors of the driver the meaning the rest of seqd knows.
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
	}
	return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
}

// counter is how a counter is stored.
type counter struct {
	ID        string `bson:"_id"`
	Version   int    `bson:"v"`
	BizTag    string `bson:"bizTag"`
	Max       int64  `bson:"max"`
	Step      int64  `bson:"step"`
	Timestamp int64  `bson:"timestamp"`
}

func newCounter(c persist.Counter) counter {
	return counter{c.BizTag, persist.FormatVersion, c.BizTag, c.Max, c.Step, c.Timestamp}
}

func (c counter) model() (persist.Counter, error) {
	m := persist.Counter{BizTag: c.BizTag, Max: c.Max, Step: c.Step, Timestamp: c.Timestamp}
	return m, checkDocument(c.ID, c.Version, m)
}

// shape is how a shape is stored.
type shape struct {
	ID        string `bson:"_id"`
	Version   int    `bson:"v"`
	BizTag    string `bson:"bizTag"`
	Shape     string `bson:"shape"`
	Timestamp int64  `bson:"timestamp"`
}

func newShape(s persist.Shape) shape {
	return shape{s.BizTag, persist.FormatVersion, s.BizTag, s.Shape, s.Timestamp}
}

func (s shape) model() (persist.Shape, error) {
	m := persist.Shape{BizTag: s.BizTag, Shape: s.Shape, Timestamp: s.Timestamp}
	return m, checkDocument(s.ID, s.Version, m)
}

// checkDocument refuses what another version wrote and what makes no sense.
func checkDocument(id string, version int, m persist.Record) error {
	switch {
	case version > persist.FormatVersion:
		return fmt.Errorf("%q: %w: document format %d, this build knows %d", id, persist.ErrNewer, version, persist.FormatVersion)
	case version < 1 || m.PersistID() != id:
		return fmt.Errorf("%q: %w: the document is damaged", id, persist.ErrInvalid)
	}
	return m.Validate()
}

// byID selects one document.
func byID(id string) bson.D { return bson.D{{Key: "_id", Value: id}} }
