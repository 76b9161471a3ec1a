package graph

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

// Options are the settings of a lineage.
type Options struct {
	// NodesMax bounds the nodes of the lineage, live or not; 0 is NodeMax, which
	// no setting can pass. A write beyond it fails with ErrFull.
	NodesMax int
}

// Graph is a lineage: the names, kinds and nodes that its views share, and the
// newest view. Reading is through views and takes no lock. Writing is through
// batches and a Loader.
type Graph struct {
	opts   Options
	newest atomic.Pointer[View]
	seed   maphash.Seed

	kindIndex      table
	attributeIndex table
	nameIndex      [nameShards]table

	// mu guards what follows: everything that gives new numbers.
	mu      sync.Mutex
	symbols symbols // its directories are those of names and nodes
	names   arena
	nodes   arena
	types   map[string]uint32
	// asked are kinds that writers asked for last.
	recent    recentKinds
	open      []openBlock // by kind: where its next node goes
	nameCount int         // names
	nodeCount int         // nodes
	// arriving is nil but while a Loader fills the lineage.
	loading *loadedNames

	details detailCache

	orders orders // of names, for who lists a type's objects

	editorPool  sync.Pool // of *editor
	pendingPool sync.Pool // of *pending, empty
}

// nameShards is how many tables hold the names: many, so that growing one moves
// little at a time, but few enough for small stores.
const (
	shardBits  = 6
	nameShards = 1 << shardBits
)

// spine is what a view captures of its lineage. All of it only grows.
type symbols struct {
	names      [][]uint32 // name records, see intern.go
	nodes      [][]uint32 // node records
	blocks     []Kind     // the kind of each block of 64 nodes
	kinds      []kindInfo // by Kind; [0] is no kind
	attributes []string   // names of attributes; [0] is none
}

type kindInfo struct {
	name  KindName
	typ   uint32 // dense number of the type
	plain Kind   // the kind of the type's plain objects
}

// fill is a kind's newest block and the nodes given in it.
type openBlock struct {
	block uint32
	used  uint32
}

// Bounds of a lineage.
const (
	// KindMax bounds the kinds of a lineage.
	KindMax = 1<<21 - 1
	// AttributeNamesMax bounds the different names of attributes.
	AttributeNamesMax = 1 << 24
)

// The kinds of errors that writing returns, to be found with errors.Is.
var (
	// ErrFull says that a bound of the lineage is reached: NodesMax, KindMax,
	// AttributeNamesMax, or 16 GiB of names. Compact may make room.
	ErrFull = errors.New("graph is full")
	// ErrStale says that a batch was begun on a view that is no longer the newest.
	ErrStale = errors.New("batch is not on the newest view")
	// ErrDuplicate says that a Loader was given a key twice.
	ErrDuplicate = errors.New("tuple given twice")
	// ErrContext says that a tuple's context is not a JSON object.
	ErrContext = errors.New("context is not a JSON object")
)

// New returns an empty lineage. Its newest view is empty.
func New(opts Options) *Graph {
	if opts.NodesMax <= 0 || opts.NodesMax > NodeMax {
		opts.NodesMax = NodeMax
	}
	g := &Graph{opts: opts, seed: maphash.MakeSeed(), types: map[string]uint32{}}
	g.symbols.kinds = make([]kindInfo, 1, 8)
	g.symbols.attributes = make([]string, 1)
	g.symbols.blocks = make([]Kind, 1, 8) // block 0 would hold node 0, which is none
	g.open = make([]openBlock, 1, 8)
	g.nodes.alloc(2 * blockSize)
	g.names.alloc(1) // offset 0 is no name
	g.symbols.names, g.symbols.nodes = g.names.chunks, g.nodes.chunks
	g.newest.Store(&View{g: g, symbols: g.symbols})
	return g
}

// View returns the newest published view.
func (g *Graph) View() *View { return g.newest.Load() }

// Intern returns the number of a kind, a new one if the lineage does not know
// it. It is safe for concurrent use. A view sees kinds interned before it was
// made. The only error is ErrFull.
func (g *Graph) Intern(k KindName) (Kind, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.intern(k)
}

func (g *Graph) intern(k KindName) (Kind, error) {
	if n, ok := g.findKind(k); ok {
		return n, nil
	}
	if len(g.symbols.kinds) > KindMax {
		return 0, fmt.Errorf("%w: it has %d kinds", ErrFull, KindMax)
	}
	typ, ok := g.types[k.Type]
	if !ok {
		typ = uint32(len(g.types))
		g.types[strings.Clone(k.Type)] = typ
	}
	plain := Kind(0)
	if k.Relation != "" || k.Wildcard {
		p, err := g.intern(KindName{Type: k.Type})
		if err != nil {
			return 0, err
		}
		if plain = p; len(g.symbols.kinds) > KindMax {
			return 0, fmt.Errorf("%w: it has %d kinds", ErrFull, KindMax)
		}
	}
	// The caller's strings may be parts of something large.
	k.Type, k.Relation = strings.Clone(k.Type), strings.Clone(k.Relation)
	n := Kind(len(g.symbols.kinds))
	if plain == 0 {
		plain = n
	}
	g.symbols.kinds = append(g.symbols.kinds, kindInfo{k, typ, plain})
	g.open = append(g.open, openBlock{})
	g.kindIndex.add(g.kindTag(k), uint32(n))
	return n, nil
}

func (g *Graph) kindTag(k KindName) uint32 {
	h := maphash.String(g.seed, k.Type) ^ maphash.String(g.seed, k.Relation)*oddA
	if k.Wildcard {
		h++
	}
	return uint32(h * oddB >> 32)
}

// kind finds a kind by name, among those that s knows.
func (s *symbols) findKind(index *table, tag uint32, k KindName) (Kind, bool) {
	p := index.find(tag)
	for ref := p.next(); ref != 0; ref = p.next() {
		if int(ref) < len(s.kinds) && s.kinds[ref].name == k {
			return Kind(ref), true
		}
	}
	return 0, false
}

// kindsAsked remembers kinds by a hash of their names: the tuples of one writer
// are mostly of the same few.
type recentKinds [8]Kind

// known finds a kind by name among all that the lineage has by now; g.mu is
// held.
func (g *Graph) findKind(k KindName) (Kind, bool) {
	place := &g.recent[kindHash(&k)%len(g.recent)]
	if n := *place; n != 0 && g.symbols.kinds[n].name == k {
		return n, true
	}
	n, ok := g.symbols.findKind(&g.kindIndex, g.kindTag(k), k)
	if ok {
		*place = n
	}
	return n, ok
}

// kindPlace tells names apart in little time.
func kindHash(k *KindName) int {
	at := len(k.Type) + len(k.Relation)<<2
	if k.Relation != "" {
		at ^= int(k.Relation[0]) << 1
	}
	return at
}

// attr returns the number of an attribute's name, a new one if need be.
func (g *Graph) internAttribute(name string) (uint32, error) {
	if n, ok := g.symbols.findAttribute(g, name); ok {
		return n, nil
	}
	n := len(g.symbols.attributes)
	if n >= AttributeNamesMax {
		return 0, fmt.Errorf("%w: it has %d names of attributes", ErrFull, n)
	}
	g.symbols.attributes = append(g.symbols.attributes, strings.Clone(name))
	g.attributeIndex.add(g.attributeTag(name), uint32(n))
	return uint32(n), nil
}

func (g *Graph) attributeTag(name string) uint32 { return uint32(maphash.String(g.seed, name) >> 32) }

func (s *symbols) findAttribute(g *Graph, name string) (uint32, bool) {
	p := g.attributeIndex.find(g.attributeTag(name))
	for ref := p.next(); ref != 0; ref = p.next() {
		if int(ref) < len(s.attributes) && s.attributes[ref] == name {
			return ref, true
		}
	}
	return 0, false
}

// SubjectKind is the kind of the node that stands for s.
func SubjectKind(s rel.Subject) KindName {
	return KindName{Type: s.Type, Relation: s.Relation, Wildcard: s.IsWildcard()}
}

// ObjectKind is the kind of the node that stands for a relation of o.
func ObjectKind(o rel.Object, relation string) KindName {
	return KindName{Type: o.Type, Relation: relation}
}
