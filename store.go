package ostiary

import (
	"context"
	"maps"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/compare"
	"github.com/ostiary/ostiary/internal/engine/document"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/storage"
)

// Store is one isolated set of tuples, attributes, schemas and documents. It is
// a handle: its data is loaded when it is first used, and dropped when it is
// idle. All methods are safe for concurrent use.
type Store struct {
	timeline  *snapshot.Timeline
	answerer  *query.Answerer
	queue     *commit.Queue
	documents document.Reader
	comparer  *compare.Comparer
	guard     guard
}

func newStore(e *Engine, info storage.StoreInfo) *Store {
	t := snapshot.NewTimeline(e.runtime, info)
	return &Store{timeline: t, answerer: query.NewAnswerer(e.queries, t), queue: commit.NewQueue(e.commits, t),
		documents: document.Reader{Timeline: t, Sealer: e.sealer}, comparer: compare.New(t), guard: e.guard}
}

// ID returns the id of the store.
func (s *Store) ID() storage.StoreID { return s.timeline.ID }

// Info returns the description of the store, as it was when [Engine.Store] or a
// request read it last. It does not load the store.
func (s *Store) Info() storage.StoreInfo {
	info := s.timeline.Info()
	info.Aliases = maps.Clone(info.Aliases)
	return info
}

// Head returns the token of the newest revision in memory. It loads the store if
// necessary.
func (s *Store) Head(ctx context.Context) (authz.Token, error) {
	v, err := s.timeline.Newest(ctx)
	if err != nil {
		return "", errs.Wrap("head", s.ID(), err)
	}
	t, err := s.timeline.TokenAt(ctx, v.Head.Revision)
	return t, errs.Wrap("head", s.ID(), err)
}

// Load loads the store and waits until it is loaded. It does nothing if the store
// is loaded already. If ctx ends first, it fails with [authz.ErrLoading], and the load
// continues. Unlike requests, it does not observe Bounds.LoadWait.
func (s *Store) Load(ctx context.Context) error {
	_, err := s.timeline.Load(ctx)
	return errs.Wrap("load", s.ID(), err)
}

// Keep makes the store stay in memory until the engine is closed, once it is
// loaded: [Engine.DropIdle] and a reached [Options].MemoryMax do not drop it.
func (s *Store) Keep() { s.timeline.Keep() }

// Resolve returns the token of the revision that a request with c reads. It
// waits for that revision and fails as the request would, for example with
// [authz.ErrToken] for a token of another store.
func (s *Store) Resolve(ctx context.Context, c authz.Consistency) (authz.Token, error) {
	v, err := s.timeline.At(ctx, c)
	if err != nil {
		return "", errs.Wrap("resolve", s.ID(), err)
	}
	return s.timeline.Token(v.Head), nil
}

// Hold returns a Consistency that reads the view that c chooses now, at the time
// of this call, so that several questions are answered at one revision and one
// time. It keeps the view in memory as long as it is referenced. A question to
// another store fails with [authz.ErrInvalidRequest].
func (s *Store) Hold(ctx context.Context, c authz.Consistency) (authz.Consistency, error) {
	held, err := s.timeline.Hold(ctx, c)
	return held, errs.Wrap("hold", s.ID(), err)
}

// TokenAt returns the token of a revision that the store has, for example that
// of a [authz.CheckResult].
func (s *Store) TokenAt(ctx context.Context, r storage.Revision) (authz.Token, error) {
	t, err := s.timeline.TokenAt(ctx, r)
	return t, errs.Wrap("token", s.ID(), err)
}

// Stats are counts of the newest view of a store.
type Stats struct {
	// Revision is that of the view.
	Revision storage.Revision
	// Graph are the counts of tuples and names.
	Graph GraphStats
	// Bytes is the estimated memory of the view.
	Bytes int64
	// Schemas is the number of schemas.
	Schemas int
	// Time is the time of the revision; zero for a store without an entry.
	Time time.Time
}

// GraphStats are the counts of what a view has in memory.
type GraphStats struct {
	// Tuples is the number of tuples, with expired ones.
	Tuples int
	// Detailed is the number of tuples with a condition or an expiry.
	Detailed int
	// Attributes is the number of attributes.
	Attributes int
	// Kinds is the number of types, and of types with a relation, that had names when
	// the view was made.
	Kinds int
	// Nodes and Names are the numbers of objects with a kind, and of names, that were in
	// memory when the view was made, used or not. LiveNodes and LiveNames count those
	// that are part of a tuple or have an attribute.
	Nodes, LiveNodes int
	// Names is described at Nodes.
	Names, LiveNames int
}

// Stats returns counts of the newest view. It loads the store if necessary.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	v, err := s.timeline.Newest(ctx)
	if err != nil {
		return Stats{}, errs.Wrap("stats", s.ID(), err)
	}
	return statsOf(v), nil
}

func statsOf(v *snapshot.View) Stats {
	stats := Stats{Revision: v.Head.Revision, Graph: GraphStats(v.Graph.Stats()), Bytes: v.Graph.Bytes(), Schemas: len(v.Schemas())}
	if v.Head.Revision > 0 {
		stats.Time = v.Head.Time.Time()
	}
	return stats
}

// StatsLoaded returns counts of the newest view of a store that is in memory, and false for a store
// that is not. It loads nothing, reads nothing of the driver, and does not count as a use of the
// store. It is meant for a store that [Engine.Stores] has yielded: it checks no right.
func (e *Engine) StatsLoaded(info storage.StoreInfo) (Stats, bool) {
	t := e.timeline(info.ID)
	if t == nil || t.Incarnation != info.Incarnation {
		return Stats{}, false
	}
	v := t.Loaded()
	if v == nil {
		return Stats{}, false
	}
	return statsOf(v), true
}

// CollectResult is what [Store.Collect] did.
type CollectResult struct {
	// Expired is the number of expired tuples that were removed.
	Expired int
	// Log is the oldest log entry that is left, as storage.Driver.Oldest defines it.
	Log storage.Revision
	// Rows is the oldest revision that is readable, by the same definition.
	Rows storage.Revision
	// Compacted is true if the memory of unused names was freed.
	Compacted bool
}

// Collect removes expired tuples, drops log entries and past revisions that the
// windows no longer keep, and compacts the memory if many names are unused. It
// changes no answer, except that revisions before the window fail with
// [authz.ErrTooOld]. [Options].Background calls it. On a node that does not lead, see
// [storage.Copy], it only compacts the memory.
func (s *Store) Collect(ctx context.Context) (c CollectResult, err error) {
	if !s.timeline.Runtime.Leads() {
		c.Compacted, err = s.timeline.CompactIfNeeded(ctx)
		return c, errs.Wrap("collect", s.ID(), err)
	}
	if c.Expired, err = s.queue.RemoveExpired(ctx); err == nil {
		if c.Log, c.Rows, err = s.timeline.TrimWindows(ctx); err == nil {
			c.Compacted, err = s.timeline.CompactIfNeeded(ctx)
		}
	}
	return c, errs.Wrap("collect", s.ID(), err)
}

// Compact frees the memory of names that no tuple uses any more.
func (s *Store) Compact(ctx context.Context) error {
	_, err := s.timeline.Compact(ctx)
	return errs.Wrap("compact", s.ID(), err)
}

// Trim drops the past before the revision rows and the log entries before the
// revision log, whatever the windows are. It drops no log entries that past
// revisions need, so log is cut to rows.
func (s *Store) Trim(ctx context.Context, log, rows storage.Revision) error {
	return errs.Wrap("trim", s.ID(), s.timeline.Trim(ctx, log, rows))
}
