package snapshot

import (
	"container/list"
	"sync"
	"weak"
)

// othersBytesMax is how much memory in bytes the schemas of all stores that are bound and
// not current may use; see schema.Schema.Bytes.
const othersBytesMax = 16 << 20

// otherSchemas bounds the memory of the bound schemas that are not current, over the sets
// of all stores. A set finds its own without this lock. Sets are held weakly: what an
// unloaded store or an earlier view had is counted until there is no room for more.
type otherSchemas struct {
	bytesMax int
	mu       sync.Mutex
	bytes    int64     // of all sets
	order    list.List // of *otherSet, the set that got a schema last first
	at       map[weak.Pointer[schemaSet]]*list.Element
}

// otherSet is a set and the memory of its schemas that are bound and not current.
type otherSet struct {
	set   weak.Pointer[schemaSet]
	bytes int
}

// keep keeps r, a bound schema that is not current in its set. If there is no room for it,
// the sets that have not got a schema for longest drop theirs.
func (o *otherSchemas) keep(set *schemaSet, r *BoundSchema) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := weak.Make(set)
	e := o.at[of]
	if e == nil {
		if o.at == nil {
			o.at = map[weak.Pointer[schemaSet]]*list.Element{}
		}
		e = o.order.PushFront(&otherSet{set: of})
		o.at[of] = e
	}
	o.order.MoveToFront(e)
	s := e.Value.(*otherSet)
	bytes := set.keep(r, o.bytesMax)
	o.bytes += int64(bytes - s.bytes)
	if s.bytes = bytes; bytes == 0 { // r is larger than the bound
		o.order.Remove(e)
		delete(o.at, of)
	}
	for o.bytes > int64(o.bytesMax) {
		old := o.order.Remove(o.order.Back()).(*otherSet) // not s, which has bytesMax at most
		delete(o.at, old.set)
		o.bytes -= int64(old.bytes)
		if set := old.set.Value(); set != nil {
			set.dropOthers()
		}
	}
}

// size returns the estimated memory of what is kept.
func (o *otherSchemas) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
