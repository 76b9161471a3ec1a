package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/internal/tool/canonical"
	"github.com/ostiary/ostiary/rel"
)

// The versions of the canonical bytes of an entry, which are their first byte. A
// different layout must have a different number. The hash covers the number. An
// entry without an origin has version 1, every other one has version 2, so that an
// entry has only one canonical form.
const (
	entryVersion       = 1
	entryVersionOrigin = 2
)

// entryHeaderBytes is the length of the fields before the number of changes:
// version, incarnation, revision, previous hash, writer, sequence and time.
const entryHeaderBytes = 1 + 16 + 8 + 32 + 16 + 8 + 8

// stringBytesMax is the maximum length of a string in an entry. The limit of the
// entry is stricter.
const stringBytesMax = EntryBytesMax

// changesSampled is the number of changes after which AppendEntry estimates the
// length of the remaining changes.
const changesSampled = 64

// AppendEntry appends the canonical bytes of e to dst. They contain the fields
// that the kinds of the changes use, in the order that docs/format.md describes.
// Equal entries have equal bytes, and different entries have different bytes.
// AppendEntry does not check limits; [Chain] does.
func AppendEntry(dst []byte, e *Entry) []byte {
	flags := e.Origin.flags()
	if flags == 0 {
		dst = append(dst, entryVersion)
	} else {
		dst = append(dst, entryVersionOrigin)
	}
	dst = append(dst, e.Incarnation[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Revision))
	dst = append(dst, e.Previous[:]...)
	dst = append(dst, e.Writer[:]...)
	dst = binary.BigEndian.AppendUint64(dst, e.Sequence)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Time))
	if flags != 0 {
		dst = e.Origin.append(dst, flags)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.Changes)))
	from := len(dst)
	for i := range e.Changes {
		if i == changesSampled { // assume that all have the same average length, and allocate once
			if rest := (len(dst) - from) / changesSampled * (len(e.Changes) - i); rest > cap(dst)-len(dst) {
				dst = slices.Grow(dst, min(rest*9/8, EntryBytesMax))
			}
		}
		dst = appendChange(dst, &e.Changes[i])
	}
	return dst
}

func appendChange(dst []byte, c *Change) []byte {
	dst = append(dst, byte(c.Kind))
	switch c.Kind {
	case TupleAdd:
		dst = appendKey(dst, &c.Tuple)
		dst = appendString(dst, c.Tuple.Condition)
		dst = appendString(dst, c.Tuple.Context)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Tuple.Expires))
	case TupleRemove:
		dst = appendKey(dst, &c.Tuple)
	case AttributeSet:
		dst = appendAttributeKey(dst, &c.Attribute)
		dst = appendString(dst, c.Attribute.Value)
	case AttributeRemove:
		dst = appendAttributeKey(dst, &c.Attribute)
	case DocumentPut:
		dst = appendDocumentHead(dst, &c.Document)
		dst = binary.AppendUvarint(dst, uint64(len(c.Document.Body)))
		dst = append(dst, c.Document.Body...)
	case SecretPut:
		dst = appendDocumentHead(dst, &c.Document)
		digest := secretDigest(&c.Document)
		dst = append(dst, digest[:]...)
	case DocumentRemove, SecretRemove:
		dst = appendString(dst, c.Document.Kind)
		dst = appendString(dst, c.Document.Key)
	case RemoveByFilter:
		dst = appendFilter(dst, &c.Filter)
	}
	return dst
}

// secretDigest returns the hash of a secret's ciphertext. The log contains the
// hash instead of the ciphertext, so that its own hashes stay valid after the
// ciphertext is deleted.
func secretDigest(d *Document) Hash {
	if len(d.Body) == 0 && d.Digest != (Hash{}) {
		return d.Digest
	}
	return sha256.Sum256(d.Body)
}

func appendKey(dst []byte, t *rel.Tuple) []byte {
	dst = appendString(dst, t.Object.Type)
	dst = appendString(dst, t.Object.ID)
	dst = appendString(dst, t.Relation)
	dst = appendString(dst, t.Subject.Type)
	dst = appendString(dst, t.Subject.ID)
	return appendString(dst, t.Subject.Relation)
}

func appendAttributeKey(dst []byte, a *rel.Attribute) []byte {
	dst = appendString(dst, a.Object.Type)
	dst = appendString(dst, a.Object.ID)
	return appendString(dst, a.Name)
}

func appendDocumentHead(dst []byte, d *Document) []byte {
	dst = appendString(dst, d.Kind)
	dst = appendString(dst, d.Key)
	dst = binary.AppendUvarint(dst, uint64(len(d.Secondary)))
	for _, s := range d.Secondary {
		dst = appendString(dst, s)
	}
	return dst
}

// appendFilter appends only the fields that the target uses, so that unused
// fields do not change the bytes.
func appendFilter(dst []byte, f *Filter) []byte {
	dst = append(dst, byte(f.Target))
	switch f.Target {
	case FilterTuples:
		t := &f.Tuple
		for _, s := range [...]string{t.ObjectType, t.ObjectID, t.Relation, t.SubjectType, t.SubjectID, t.SubjectRelation} {
			dst = appendString(dst, s)
		}
		plain := byte(0)
		if t.SubjectPlain {
			plain = 1
		}
		dst = append(dst, plain)
	case FilterAttributes:
		dst = appendString(dst, f.ObjectType)
		dst = appendString(dst, f.ObjectID)
		dst = appendString(dst, f.Name)
	case FilterDocuments:
		dst = appendString(dst, f.DocumentKind)
		dst = appendString(dst, f.DocumentKeyPrefix)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	if len(s) < 0x80 {
		return append(append(dst, byte(len(s))), s...)
	}
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Hash returns the SHA-256 of the canonical bytes of e.
func (e *Entry) Hash() Hash { return sha256.Sum256(AppendEntry(nil, e)) }

// DecodeEntry reads canonical bytes, as [AppendEntry] writes them. The strings of
// the entry share one copy of b. DecodeEntry fails with
//   - [ErrFormat] if the version, a kind of change or a filter target is unknown;
//   - [ErrTooLarge] if b exceeds EntryBytesMax, ChangesMax, CallerBytesMax or
//     ReasonBytesMax;
//   - [ErrDamaged] if b cannot be the result of AppendEntry for another reason.
func DecodeEntry(b []byte) (Entry, error) {
	if len(b) > EntryBytesMax {
		return Entry{}, tooLarge("EntryBytesMax", EntryBytesMax, len(b))
	}
	var e Entry
	d, err := decodeHead(b, &e)
	if err != nil {
		return Entry{}, err
	}
	n := d.Uvarint()
	if d.Err == nil && n > ChangesMax {
		return Entry{}, tooLarge("ChangesMax", ChangesMax, n)
	}
	// A change has at least three bytes. A larger count is damage, and must not
	// cause a large allocation.
	if d.Err == nil && n > uint64(d.Rest())/3 {
		d.Fail("%d changes in %d bytes", n, d.Rest())
	}
	if d.Err == nil && n > 0 {
		e.Changes = make([]Change, n)
	}
	for i := range e.Changes {
		if d.change(&e.Changes[i]); d.Err != nil {
			break
		}
	}
	if d.End(); d.Err != nil {
		return Entry{}, d.Err
	}
	return e, nil
}

// DecodeEntryHead reads the fields before the changes from canonical bytes. It
// neither reads nor copies the changes, which may be large. It fails as
// [DecodeEntry] does if those fields are damaged.
func DecodeEntryHead(b []byte) (Entry, error) {
	var e Entry
	d, err := decodeHead(b[:min(len(b), entryHeaderBytes+originBytesMax)], &e)
	if err == nil {
		err = d.Err
	}
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// decodeHead reads the fields before the number of changes, and returns a decoder of
// the rest, which may have failed already.
func decodeHead(b []byte, e *Entry) (decoder, error) {
	if len(b) < entryHeaderBytes {
		return decoder{}, fmt.Errorf("%w: an entry has %d bytes, expected at least %d", ErrDamaged, len(b), entryHeaderBytes)
	}
	if b[0] != entryVersion && b[0] != entryVersionOrigin {
		return decoder{}, fmt.Errorf("%w: an entry has version %d, expected %d or %d", ErrFormat, b[0], entryVersion, entryVersionOrigin)
	}
	d := decoder{canonical.Reader{Text: string(b), At: 1, Damage: ErrDamaged, What: "entry", StringMax: stringBytesMax}}
	copy(e.Incarnation[:], d.Take(16))
	e.Revision = Revision(d.Fixed64())
	copy(e.Previous[:], d.Take(32))
	copy(e.Writer[:], d.Take(16))
	e.Sequence = d.Fixed64()
	e.Time = rel.Time(d.Fixed64())
	if b[0] == entryVersionOrigin {
		d.origin(&e.Origin)
	}
	return d, nil
}

// decoder reads the fields of an entry.
type decoder struct{ canonical.Reader }

// unknown sets the error to ErrFormat.
func (d *decoder) unknown(what string, n byte) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: %s %d", ErrFormat, what, n)
	}
}

func (d *decoder) change(c *Change) {
	c.Kind = ChangeKind(d.Byte())
	switch c.Kind {
	case TupleAdd:
		d.key(&c.Tuple)
		c.Tuple.Condition = d.String()
		c.Tuple.Context = d.String()
		c.Tuple.Expires = rel.Time(d.Fixed64())
	case TupleRemove:
		d.key(&c.Tuple)
	case AttributeSet:
		d.attributeKey(&c.Attribute)
		c.Attribute.Value = d.String()
	case AttributeRemove:
		d.attributeKey(&c.Attribute)
	case DocumentPut:
		d.documentHead(&c.Document)
		if body := d.String(); body != "" {
			c.Document.Body = []byte(body)
		}
	case SecretPut:
		d.documentHead(&c.Document)
		copy(c.Document.Digest[:], d.Take(32))
	case DocumentRemove, SecretRemove:
		c.Document.Kind = d.String()
		c.Document.Key = d.String()
	case RemoveByFilter:
		d.filter(&c.Filter)
	default:
		d.unknown("kind of change", byte(c.Kind))
	}
}

func (d *decoder) key(t *rel.Tuple) {
	t.Object.Type = d.String()
	t.Object.ID = d.String()
	t.Relation = d.String()
	t.Subject.Type = d.String()
	t.Subject.ID = d.String()
	t.Subject.Relation = d.String()
}

func (d *decoder) attributeKey(a *rel.Attribute) {
	a.Object.Type = d.String()
	a.Object.ID = d.String()
	a.Name = d.String()
}

func (d *decoder) documentHead(doc *Document) {
	doc.Kind = d.String()
	doc.Key = d.String()
	n := d.Uvarint()
	if n > uint64(d.Rest()) {
		d.Fail("%d secondary keys in %d bytes", n, d.Rest())
		return
	}
	for range n {
		if d.Err != nil {
			return
		}
		doc.Secondary = append(doc.Secondary, d.String())
	}
}

func (d *decoder) filter(f *Filter) {
	f.Target = FilterTarget(d.Byte())
	switch f.Target {
	case FilterTuples:
		t := &f.Tuple
		for _, s := range [...]*string{&t.ObjectType, &t.ObjectID, &t.Relation, &t.SubjectType, &t.SubjectID, &t.SubjectRelation} {
			*s = d.String()
		}
		plain := d.Byte()
		if plain > 1 {
			d.Fail("a flag is %d, expected 0 or 1", plain)
		}
		t.SubjectPlain = plain == 1
	case FilterAttributes:
		f.ObjectType = d.String()
		f.ObjectID = d.String()
		f.Name = d.String()
	case FilterDocuments:
		f.DocumentKind = d.String()
		f.DocumentKeyPrefix = d.String()
	default:
		if d.Err == nil {
			d.unknown("filter target", byte(f.Target))
		}
	}
}

// tooLarge returns an error for n, which exceeds the named limit.
func tooLarge[N int | uint64](bound string, maximum int, n N) error {
	return fmt.Errorf("%w: %d exceeds the limit %s, which is %d", ErrTooLarge, n, bound, maximum)
}
