package sharedlog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/internal/tool/canonical"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Limits of segments.
const (
	// SegmentBytesMax is the maximum size of a segment in bytes, 32 MiB. The largest
	// entry fits, with its header.
	SegmentBytesMax = 32 << 20
	// PartBytesMax is the maximum size of a part in bytes, 1 MiB. A log stores segments
	// and snapshots in parts, because databases handle rows of some MiB badly.
	PartBytesMax = 1 << 20
)

// segmentHeaderBytes is the length of version, number, sequence, previous hash, epoch,
// writer and kind.
const segmentHeaderBytes = 1 + 4 + 8 + 32 + 8 + 16 + 1

// number is the number of the log in the bytes of a segment. There is one log, the shard 0.
const number = "\x00\x00\x00\x00"

// Segment is one step of a log. It has entries, or one change of the catalog, or
// trims, or nothing: an empty segment is a barrier, see [Commit].
type Segment struct {
	// Version is that of the bytes, from SegmentVersionMin to SegmentVersion; 0 means
	// SegmentVersionMin, which every node reads. A writer uses the one of its cluster.
	Version uint8

	Sequence uint64         // one more than the predecessor's
	Previous storage.Hash   // hash of the predecessor
	Epoch    uint64         // epoch of the writer's lease; never lower than the predecessor's
	Writer   storage.NodeID // the node that wrote the segment

	Stores  []StoreEntries // entries, in ascending order of the stores, each store once
	Catalog *CatalogChange // a change of the catalog
	Trims   []StoreTrim    // trims, in ascending order of the stores, each store once
}

// StoreEntries are entries of one store, one or more.
type StoreEntries struct {
	Store       storage.StoreID     // the store
	Incarnation storage.Incarnation // incarnation of the store
	Entries     [][]byte            // canonical bytes of the entries, see storage.AppendEntry
}

// StoreTrim is a call of the method Trim of a driver.
type StoreTrim struct {
	Store       storage.StoreID     // the store
	Incarnation storage.Incarnation // incarnation of the store
	Log, Rows   storage.Revision    // the arguments
}

// CatalogOp is what a [CatalogChange] does. Segments contain the numbers.
type CatalogOp uint8

// The operations on the catalog.
const (
	CreateStore CatalogOp = iota + 1 // create a store
	UpdateStore                      // replace the name and the aliases of a store
	DeleteStore                      // delete a store
)

// CatalogChange is a change of the stores and their aliases.
type CatalogChange struct {
	// Expected is the number of catalog changes before this one.
	Expected uint64
	// Op is what the change does.
	Op CatalogOp
	// Store has the ID and the Incarnation of the store, and with CreateStore and
	// UpdateStore also the other fields. UpdateStore ignores Created.
	Store storage.StoreInfo
}

// The kinds of segments, which are on disk.
const (
	kindBarrier = iota
	kindEntries
	kindCatalog
	kindTrims
)

// Append appends the canonical bytes of s to dst. Equal segments have equal bytes,
// and different segments have different bytes.
func (s *Segment) Append(dst []byte) []byte {
	dst = append(dst, max(s.Version, SegmentVersionMin))
	dst = append(dst, number...)
	dst = binary.BigEndian.AppendUint64(dst, s.Sequence)
	dst = append(dst, s.Previous[:]...)
	dst = binary.BigEndian.AppendUint64(dst, s.Epoch)
	dst = append(dst, s.Writer[:]...)
	switch {
	case len(s.Stores) > 0:
		dst = append(dst, kindEntries)
		dst = binary.AppendUvarint(dst, uint64(len(s.Stores)))
		for i := range s.Stores {
			dst = s.Stores[i].append(dst)
		}
	case s.Catalog != nil:
		dst = s.Catalog.append(append(dst, kindCatalog))
	case len(s.Trims) > 0:
		dst = append(dst, kindTrims)
		dst = binary.AppendUvarint(dst, uint64(len(s.Trims)))
		for i := range s.Trims {
			dst = s.Trims[i].append(dst)
		}
	default:
		dst = append(dst, kindBarrier)
	}
	return dst
}

func (s *StoreEntries) append(dst []byte) []byte {
	dst = append(append(dst, s.Store[:]...), s.Incarnation[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(s.Entries)))
	for _, e := range s.Entries {
		dst = append(binary.AppendUvarint(dst, uint64(len(e))), e...)
	}
	return dst
}

func (t *StoreTrim) append(dst []byte) []byte {
	dst = append(append(dst, t.Store[:]...), t.Incarnation[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Log))
	return binary.BigEndian.AppendUint64(dst, uint64(t.Rows))
}

func (c *CatalogChange) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, c.Expected)
	dst = append(dst, byte(c.Op))
	dst = append(append(dst, c.Store.ID[:]...), c.Store.Incarnation[:]...)
	if c.Op == DeleteStore {
		return dst
	}
	if c.Op == CreateStore {
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Store.Created))
	}
	dst = appendString(dst, c.Store.Name)
	dst = binary.AppendUvarint(dst, uint64(len(c.Store.Aliases)))
	for _, door := range slices.Sorted(maps.Keys(c.Store.Aliases)) {
		dst = appendString(appendString(dst, door), c.Store.Aliases[door])
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Record returns the segment as a log stores it. It fails with storage.ErrTooLarge if
// the segment exceeds SegmentBytesMax, and with storage.ErrFormat if this program does not
// know its version.
func (s *Segment) Record() (Record, error) {
	if s.Version > SegmentVersion {
		return Record{}, fmt.Errorf("%w: a segment of version %d cannot be written, expected %d to %d", storage.ErrFormat, s.Version, SegmentVersionMin, SegmentVersion)
	}
	size := segmentHeaderBytes + binary.MaxVarintLen64
	for i := range s.Stores {
		size += 32 + binary.MaxVarintLen64
		for _, e := range s.Stores[i].Entries {
			size += binary.MaxVarintLen32 + len(e)
		}
	}
	if size <= SegmentBytesMax {
		b := s.Append(make([]byte, 0, size))
		if len(b) <= SegmentBytesMax {
			return Record{Position{s.Sequence, sha256.Sum256(b)}, b}, nil
		}
		size = len(b)
	}
	return Record{}, tooLarge(size)
}

// EntriesBytes returns how many bytes entries of one store add to a segment, at most.
func EntriesBytes(entries []storage.Sealed) int {
	size := 32 + binary.MaxVarintLen64
	for i := range entries {
		size += binary.MaxVarintLen32 + len(entries[i].Bytes)
	}
	return size
}

// EntriesBytesMax is the result of EntriesBytes up to which the entries fit into one
// segment.
const EntriesBytesMax = SegmentBytesMax - segmentHeaderBytes - binary.MaxVarintLen64

func tooLarge(size int) error {
	return fmt.Errorf("%w: a segment of %d bytes exceeds the limit SegmentBytesMax, which is %d", storage.ErrTooLarge, size, SegmentBytesMax)
}

// Decode reads canonical bytes, as [Segment.Append] writes them. The entries share
// the memory of b, and are not decoded. Decode fails with
//   - [storage.ErrFormat] if the version, the kind or an operation is unknown;
//   - [storage.ErrTooLarge] if b exceeds SegmentBytesMax;
//   - [storage.ErrDamaged] if b cannot be the result of Append for another reason.
func Decode(b []byte) (Segment, error) {
	if len(b) > SegmentBytesMax {
		return Segment{}, tooLarge(len(b))
	}
	if len(b) > 0 && (b[0] < SegmentVersionMin || b[0] > SegmentVersion) {
		return Segment{}, fmt.Errorf("%w: a segment has version %d, but this version reads %d to %d", storage.ErrFormat, b[0], SegmentVersionMin, SegmentVersion)
	}
	d := decoder{canonical.Reader{Text: string(b), Damage: storage.ErrDamaged, What: "segment", StringMax: SegmentBytesMax}}
	s := Segment{Version: d.Byte()}
	if of := d.Take(len(number)); d.Err == nil && of != number {
		return Segment{}, fmt.Errorf("%w: it is of shard %d", storage.ErrDamaged, binary.BigEndian.Uint32([]byte(of)))
	}
	s.Sequence = d.Fixed64()
	copy(s.Previous[:], d.Take(32))
	s.Epoch = d.Fixed64()
	copy(s.Writer[:], d.Take(16))
	switch kind := d.Byte(); {
	case d.Err != nil || kind == kindBarrier:
	case kind == kindEntries:
		d.entries(&s, b)
	case kind == kindCatalog:
		s.Catalog = d.catalog()
	case kind == kindTrims:
		d.trims(&s)
	default:
		d.unknown("kind of segment", kind)
	}
	if d.End(); d.Err != nil {
		return Segment{}, d.Err
	}
	return s, nil
}

// decoder reads the fields of a segment.
type decoder struct{ canonical.Reader }

// unknown sets the error to ErrFormat.
func (d *decoder) unknown(what string, n byte) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: %s %d", storage.ErrFormat, what, n)
	}
}

// store reads the ids of a store, which must be above those of the one before it.
func (d *decoder) store(before *storage.StoreID, id *storage.StoreID, incarnation *storage.Incarnation) {
	copy(id[:], d.Take(16))
	copy(incarnation[:], d.Take(16))
	if before != nil && d.Err == nil && slices.Compare(before[:], id[:]) >= 0 {
		d.Fail("store %s does not follow store %s", id, before)
	}
}

// count reads a number of elements, which is not 0.
func (d *decoder) count(what string, least int) int {
	n := d.Count(what, least)
	if n == 0 {
		d.Fail("no %s, expected one or more", what)
	}
	return n
}

func (d *decoder) entries(s *Segment, b []byte) {
	s.Stores = make([]StoreEntries, d.count("stores", 34))
	var before *storage.StoreID
	for i := range s.Stores {
		of := &s.Stores[i]
		d.store(before, &of.Store, &of.Incarnation)
		before = &of.Store
		of.Entries = make([][]byte, d.count("entries", 1))
		for j := range of.Entries {
			n := len(d.String())
			of.Entries[j] = b[d.At-n : d.At : d.At]
		}
		if d.Err != nil {
			return
		}
	}
}

func (d *decoder) trims(s *Segment) {
	s.Trims = make([]StoreTrim, d.count("trims", 48))
	var before *storage.StoreID
	for i := range s.Trims {
		t := &s.Trims[i]
		d.store(before, &t.Store, &t.Incarnation)
		before = &t.Store
		t.Log, t.Rows = storage.Revision(d.Fixed64()), storage.Revision(d.Fixed64())
	}
}

func (d *decoder) catalog() *CatalogChange {
	c := &CatalogChange{Expected: d.Fixed64(), Op: CatalogOp(d.Byte())}
	if c.Op < CreateStore || c.Op > DeleteStore {
		d.unknown("operation on the catalog", byte(c.Op))
		return nil
	}
	d.store(nil, &c.Store.ID, &c.Store.Incarnation)
	if c.Op == DeleteStore {
		return c
	}
	if c.Op == CreateStore {
		c.Store.Created = rel.Time(d.Fixed64())
	}
	c.Store.Name = d.String()
	n := d.Count("aliases", 2)
	if n > 0 {
		c.Store.Aliases = make(map[string]string, n)
	}
	before := ""
	for i := range n {
		door := d.String()
		if i > 0 && door <= before && d.Err == nil {
			d.Fail("alias of door %q after that of door %q", door, before)
		}
		before = door
		c.Store.Aliases[door] = d.String()
	}
	return c
}

// Parts cuts bytes into parts of at most PartBytesMax bytes, at least one.
func Parts(b []byte) [][]byte {
	parts := make([][]byte, 0, len(b)/PartBytesMax+1)
	for len(b) > PartBytesMax {
		parts = append(parts, b[:PartBytesMax:PartBytesMax])
		b = b[PartBytesMax:]
	}
	return append(parts, b)
}

// JoinParts returns the bytes of which Parts returned the parts. It fails with
// storage.ErrDamaged if a part other than the last one has not PartBytesMax bytes,
// because a part is then missing. The hash of the segment proves that none is missing
// at the end.
func JoinParts(parts [][]byte) ([]byte, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	for i, p := range parts {
		if i < len(parts)-1 && len(p) != PartBytesMax {
			return nil, fmt.Errorf("%w: part %d of a segment has %d bytes, expected %d", storage.ErrDamaged, i, len(p), PartBytesMax)
		}
	}
	return slices.Concat(parts...), nil
}
