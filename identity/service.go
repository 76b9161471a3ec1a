package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/identity/password"
	"github.com/ostiary/ostiary/identity/token"
	"github.com/ostiary/ostiary/internal/turns"
	"github.com/ostiary/ostiary/storage"
)

// Options are the settings of a [Service]. The zero value is useful.
type Options struct {
	// Clock returns the current time. The default is [time.Now].
	Clock func() time.Time
	// TokenLife is the life of a token. The default is one hour.
	TokenLife time.Duration
	// ExpiredWindow is how long an expired token is valid for a service that asks for
	// it. Revocations are kept for as long. The default is [ExpiredWindowDefault];
	// negative means not at all.
	ExpiredWindow time.Duration
	// Methods are the methods of authentication that are switched on, in the order
	// that tokens need: all servers that share keys have the same list. Nil means
	// [token.DefaultMethods].
	Methods token.Methods
	// Rounds are the rounds of new bcrypt hashes. The default is
	// password.RoundsDefault.
	Rounds int
	// Limits is the model of limits. The default is [FlatLimits].
	Limits LimitModel
	// Compliance are the rules for passwords and logins. The default has none.
	Compliance Compliance
	// Pool computes the hashes of passwords. Services of one process should share
	// one. The default is a pool with the defaults of [password.PoolOptions].
	Pool *password.Pool
	// PasswordCache is how long a verified password is accepted again without
	// computing its hash, which makes further logins as quick as other requests. In
	// return, a reader of the memory of the process can guess the passwords in
	// the cache quickly. A changed password is never accepted. The default is 0: no
	// cache.
	PasswordCache time.Duration
}

// Service is one deployment: the records, grants and passwords of one store. Its
// methods may be called concurrently. It starts no goroutine.
//
// Reads use a directory in memory, which a read brings up to date if the store
// has changed since. Writes of one Service are decided one after another; if
// another process writes in between, a write is decided again. Concurrent writes
// that need only records to be decided become durable together.
type Service struct {
	store   *ostiary.Store
	options Options
	current atomic.Pointer[directory]
	// following serializes bringing the directory up to date.
	following sync.Mutex
	// writing is locked by writes that are made alone, from their validation until
	// they are durable, and locked for reading by those that are made together.
	writing sync.RWMutex
	ahead   ahead
	// nonces are those of signed requests.
	nonces *nonces
	// guesses bounds wrong one-time passwords.
	guesses guesses
	decoyState
	pool       *password.Pool
	verified   *verified // nil without a cache
	activities activities
}

// Open returns the service of a store. It installs the schema of assignments if
// the store has none, and reads all records. It fails if a project is deeper below
// its domain than o.Limits allows.
func Open(ctx context.Context, store *ostiary.Store, o Options) (*Service, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.TokenLife <= 0 {
		o.TokenLife = time.Hour
	}
	if o.ExpiredWindow == 0 {
		o.ExpiredWindow = ExpiredWindowDefault
	}
	o.ExpiredWindow = max(o.ExpiredWindow, 0)
	if o.Methods == nil {
		o.Methods = token.DefaultMethods()
	}
	if err := o.prepare(); err != nil {
		return nil, err
	}
	if o.Limits == "" {
		o.Limits = FlatLimits
	}
	if o.Pool == nil {
		o.Pool = password.NewPool(password.PoolOptions{})
	}
	s := &Service{store: store, options: o, pool: o.Pool, verified: newVerified(o.PasswordCache), nonces: newNonces(o.Clock())}
	if err := s.installSchema(ctx); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return s, s.current.Load().checkDepth()
}

// ExpiredWindowDefault is the default of [Options.ExpiredWindow].
const ExpiredWindowDefault = 48 * time.Hour

// ExpiredWindow returns how long an expired token is valid for a service that asks
// for it.
func (s *Service) ExpiredWindow() time.Duration { return s.options.ExpiredWindow }

// Methods returns the methods of authentication that are switched on.
func (s *Service) Methods() token.Methods { return slices.Clone(s.options.Methods) }

// Offers returns whether a method of authentication is switched on.
func (s *Service) Offers(method string) bool { return slices.Contains(s.options.Methods, method) }

// installSchema writes the schema of assignments unless the store has it.
func (s *Service) installSchema(ctx context.Context) error {
	_, err := s.store.CurrentSchema(ctx, "")
	if errors.Is(err, ostiary.ErrNoSchema) {
		_, _, err = s.store.WriteSchema(ostiary.WithBootstrap(ctx), ostiary.SchemaSource{Model: Model(), Dialect: "identity"})
	}
	return err
}

// buckets is the number of secondary keys that a kind's documents share, so that
// a bucket of a million records is far below the bound of a page.
const buckets = 1024

// bucket returns the secondary key of a document.
func bucket(key string) string {
	h := sha256.Sum256([]byte(key))
	return bucketName((int(h[0])<<8 | int(h[1])) % buckets)
}

func bucketName(i int) string { return fmt.Sprintf("bucket%04d", i) }

// load reads all records. The directory gets the token from before the read,
// so follow applies changes that other processes make during the read.
func (s *Service) load(ctx context.Context) error {
	head, err := s.store.Head(ctx)
	if err != nil {
		return err
	}
	d := (&directory{tables: map[Kind]table{}, limits: s.options.Limits}).edit()
	d.token = head
	for _, kind := range append([]Kind{revocationKind, activityKind}, kinds...) {
		for i := range buckets {
			documents, err := s.store.DocumentsBy(ctx, documentPrefix+string(kind), bucketName(i))
			if err != nil {
				return err
			}
			for _, doc := range documents {
				if err := d.put(storage.Document{Kind: doc.Kind, Key: doc.Key, Body: doc.Body}); err != nil {
					return err
				}
			}
		}
	}
	s.current.Store(d)
	return nil
}

// at returns a directory that contains every write that was acknowledged before
// the call.
func (s *Service) at(ctx context.Context) (*directory, error) {
	if d, _, err := s.newest(ctx); d != nil || err != nil {
		return d, err
	}
	return s.follow(ctx)
}

// newest returns the directory if it is that of the newest revision, otherwise nil.
// head is the token of that revision.
func (s *Service) newest(ctx context.Context) (d *directory, head ostiary.Token, err error) {
	if head, err = s.store.Head(ctx); err != nil {
		return nil, "", err
	}
	if d = s.current.Load(); d.token != head {
		return nil, head, nil
	}
	return d, head, nil
}

// follow applies the entries of the log that the directory lacks.
func (s *Service) follow(ctx context.Context) (*directory, error) {
	turns.Pause(ctx) // the owner of the lock may wait for a turn
	s.following.Lock()
	defer s.following.Unlock()
	if d, err := s.adopt(ctx); d != nil || err != nil {
		return d, err
	}
	d := s.current.Load().edit()
	for {
		page, err := s.store.Changes(ctx, ostiary.ChangesRequest{After: d.token, Limit: followLimit})
		if errors.Is(err, ostiary.ErrTooOld) { // the log was trimmed
			err = s.load(ctx)
			return s.current.Load(), err
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if err := d.apply(e.Changes); err != nil {
				return nil, err
			}
		}
		// An entry that changes secrets only is not in the page.
		d.token = page.Next
		if !page.More {
			s.current.Store(d)
			r, err := d.token.Revision()
			s.ahead.forget(r)
			return d, err
		}
	}
}

// followLimit is the number of log entries that are read at once.
const followLimit = 1000

// attemptsMax is the largest number of times that one write is validated. It is
// validated again if another process has written in between.
const attemptsMax = 100

// write validates and makes one change, while no other write of the service is
// made. It fails with Unauthorized if the proof of the request does not hold. prepare validates on the directory, and returns the change; it is called
// again if the store has changed meanwhile. write returns the directory with the
// change. Writes that need nothing but the directory use together.
func (s *Service) write(ctx context.Context, prepare func(*directory) (ostiary.WriteRequest, error)) (*directory, error) {
	turns.Pause(ctx)
	s.writing.Lock()
	defer s.writing.Unlock()
	for range attemptsMax {
		d, err := s.at(ctx)
		if err != nil {
			return nil, err
		}
		r, err := s.decide(ctx, d, prepare)
		if err != nil {
			return nil, err
		}
		r.After = d.token
		if _, err = s.store.Write(ctx, r); err == nil {
			return s.follow(ctx)
		}
		if d.token == "" || !errors.Is(err, ostiary.ErrPrecondition) {
			return nil, err
		}
	}
	return nil, failf(Conflict, "other processes changed the store %d times in a row", attemptsMax)
}

// now returns the current time in UTC.
func (s *Service) now() time.Time { return s.options.Clock().UTC() }

// document returns the document of a record.
func (r *Record) document() ostiary.Document {
	return ostiary.Document{Kind: documentPrefix + string(r.Kind), Key: r.ID, Secondary: []string{bucket(r.ID)}, Body: r.body()}
}

func (r *Record) key() ostiary.DocumentKey {
	return ostiary.DocumentKey{Kind: documentPrefix + string(r.Kind), Key: r.ID}
}
