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

// Options are the settings of a [Graph].
type Options struct {
	// NodesMax bounds the nodes of the lineage, live or not. 0, or any value
	// above NodeMax, means NodeMax. A write beyond the bound fails with
	// [ErrFull].
	NodesMax int
}

// Graph is a lineage: the names, kinds and nodes that its views share, and the
// newest view. A [View] reads without locks; a [Batch] or a [Loader] writes.
// All methods are safe for concurrent use.
type Graph struct {
	opts   Options
	newest atomic.Pointer[View]
	seed   maphash.Seed

	kindIndex      table
	attributeIndex table
	nameIndex      [nameShards]table

	// mu guards the following fields, up to details. They assign the numbers of
	// new symbols.
	mu        sync.Mutex
	symbols   symbols           // of the newest write, published or not
	names     arena             // memory of name records
	nodes     arena             // memory of node records
	types     map[string]uint32 // numbers of types
	recent    recentKinds       // the kinds that writers looked up last
	open      []openBlock       // by kind: the block that its next node goes to
	nameCount int               // names ever added
	nodeCount int               // nodes ever added
	// loading is nil unless a Loader fills the lineage.
	loading *loadedNames

	details detailCache // details that recent writes used

	orders orders   // the objects of a type in order, for View.Ordered
	ids    idOrders // the nodes of a kind in order of their ids, for NameOrder

	editorPool  sync.Pool // of *editor
	pendingPool sync.Pool // of *pending, empty
}

// nameShards is the number of tables that hold the names. A higher number
// means that growing one table moves fewer names, but costs small stores more
// memory.
const (
	shardBits  = 6
	nameShards = 1 << shardBits
)

// symbols is the part of a lineage that views keep: the slices as they were
// when the view was made. All of them only grow. The records are described in
// intern.go.
type symbols struct {
	names      [][]uint32 // name records
	nodes      [][]uint32 // node records
	blocks     []Kind     // the kind of each block of 64 nodes
	kinds      []kindInfo // by Kind; [0] is no kind
	attributes []string   // names of attributes; [0] is none
}

type kindInfo struct {
	name  KindName
	typ   uint32 // the type's number
	plain Kind   // the kind of the type's plain objects
}

// openBlock is the newest block of a kind.
type openBlock struct {
	block uint32 // its number; 0 if the kind has no node yet
	used  uint32 // nodes in it
}

// Bounds of a lineage.
const (
	// KindMax is the largest number of kinds in a lineage.
	KindMax = 1<<21 - 1
	// AttributeNamesMax is the largest number of different attribute names in a
	// lineage.
	AttributeNamesMax = 1 << 24
)

// Errors of writes. Match them with [errors.Is].
var (
	// ErrFull is returned if the lineage has reached a bound: NodesMax,
	// KindMax, AttributeNamesMax, or 16 GiB of names. Compact may make room.
	ErrFull = errors.New("graph is full")
	// ErrStale is returned if a batch was not started on the newest view.
	ErrStale = errors.New("batch is not on the newest view")
	// ErrDuplicate is returned if a Loader was given the same tuple key or attribute twice.
	ErrDuplicate = errors.New("tuple or attribute given twice")
	// ErrContext is returned if a tuple's context is not a JSON object.
	ErrContext = errors.New("context is not a JSON object")
)

// New returns an empty lineage with an empty view.
func New(opts Options) *Graph {
	if opts.NodesMax <= 0 || opts.NodesMax > NodeMax {
		opts.NodesMax = NodeMax
	}
	g := &Graph{opts: opts, seed: maphash.MakeSeed(), types: map[string]uint32{}}
	g.symbols.kinds = make([]kindInfo, 1, 8)
	g.symbols.attributes = make([]string, 1)
	g.symbols.blocks = make([]Kind, 1, 8) // block 0 is reserved, because node 0 is no node
	g.open = make([]openBlock, 1, 8)
	g.nodes.alloc(2 * blockSize)
	g.names.alloc(1) // offset 0 is no name
	g.symbols.names, g.symbols.nodes = g.names.chunks, g.nodes.chunks
	g.newest.Store(&View{g: g, symbols: g.symbols})
	return g
}

// View returns the newest published view.
func (g *Graph) View() *View { return g.newest.Load() }

// Intern returns the number of a kind, a new one if the lineage does not have
// it yet. Views that are made later have the kind. The only error is [ErrFull].
// Intern is safe for concurrent use.
func (g *Graph) Intern(k KindName) (Kind, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.intern(k)
}

// intern is [Graph.Intern] for a caller that holds g.mu.
func (g *Graph) intern(k KindName) (Kind, error) {
	if n, ok := g.findKind(k); ok {
		return n, nil
	}
	if len(g.symbols.kinds) > KindMax {
		return 0, fmt.Errorf("%w: at most %d kinds are possible", ErrFull, KindMax)
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
			return 0, fmt.Errorf("%w: at most %d kinds are possible", ErrFull, KindMax)
		}
	}
	// The caller's strings may be parts of larger ones, which must not stay in
	// memory.
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

// findKind finds a kind by name among those in s.
func (s *symbols) findKind(index *table, tag uint32, k KindName) (Kind, bool) {
	p := index.find(tag)
	for ref := p.next(); ref != 0; ref = p.next() {
		if int(ref) < len(s.kinds) && s.kinds[ref].name == k {
			return Kind(ref), true
		}
	}
	return 0, false
}

// recentKinds caches kinds by a hash of their names. The tuples of one writer
// usually have few different kinds.
type recentKinds [8]Kind

// findKind finds a kind by name among all kinds of the lineage. The caller
// holds g.mu.
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

// kindHash is a quick hash for small caches.
func kindHash(k *KindName) int {
	at := len(k.Type) + len(k.Relation)<<2
	if k.Relation != "" {
		at ^= int(k.Relation[0]) << 1
	}
	return at
}

// internAttribute returns the number of an attribute's name, a new one if
// necessary. The caller holds g.mu.
func (g *Graph) internAttribute(name string) (uint32, error) {
	if n, ok := g.symbols.findAttribute(g, name); ok {
		return n, nil
	}
	n := len(g.symbols.attributes)
	if n >= AttributeNamesMax {
		return 0, fmt.Errorf("%w: at most %d names of attributes are possible", ErrFull, AttributeNamesMax)
	}
	g.symbols.attributes = append(g.symbols.attributes, strings.Clone(name))
	g.attributeIndex.add(g.attributeTag(name), uint32(n))
	return uint32(n), nil
}

// attributeKey returns the plain node of a's object and the number of a's name,
// new ones if necessary. The caller holds g.mu.
func (g *Graph) attributeKey(a rel.Attribute) (n Node, name uint32, err error) {
	k, err := g.intern(KindName{Type: a.Object.Type})
	if err != nil {
		return 0, 0, err
	}
	if n, err = g.node(k, a.Object.ID); err != nil {
		return 0, 0, err
	}
	name, err = g.internAttribute(a.Name)
	return n, name, err
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

// SubjectKind returns the kind of the node that represents s.
func SubjectKind(s rel.Subject) KindName {
	return KindName{Type: s.Type, Relation: s.Relation, Wildcard: s.IsWildcard()}
}

// ObjectKind returns the kind of the node that represents a relation of o.
func ObjectKind(o rel.Object, relation string) KindName {
	return KindName{Type: o.Type, Relation: relation}
}
