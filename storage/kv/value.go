package kv

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// checksumBytes is the length of the CRC-32C at the end of every value. It covers
// the key after the prefix and the value, so it also detects a value that was
// written under another key.
const checksumBytes = 4

// sum returns the checksum of a key and its value.
func (d *Driver) sum(key, value []byte) uint32 {
	return crc32.Update(crc32.Update(0, d.castagnoli, key[len(d.prefix):]), d.castagnoli, value)
}

// seal appends the checksum to value.
func (d *Driver) seal(key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, d.sum(key, value))
}

// verify returns value without its checksum. It fails with ErrDamaged if the
// checksum is wrong.
func (d *Driver) verify(key, value []byte) ([]byte, error) {
	n := len(value) - checksumBytes
	if n < 0 || binary.LittleEndian.Uint32(value[n:]) != d.sum(key, value[:n]) {
		return nil, fmt.Errorf("%w: the value of key %x has a wrong checksum", storage.ErrDamaged, key)
	}
	return value[:n], nil
}

// put adds value with its checksum to b. It may write into the memory between the
// length and the capacity of value.
func (d *Driver) put(b Batch, key, value []byte) error {
	return b.Set(key, d.seal(key, value))
}

// get returns the value of key, without its checksum, in new memory.
func (d *Driver) get(r Reader, key []byte) (value []byte, found bool, err error) {
	v, found, err := r.Get(key, nil)
	if err != nil || !found {
		return nil, false, err
	}
	v, err = d.verify(key, v)
	return v, err == nil, err
}

// appendRowHead appends the beginning of a row: the revision that created it
// (uvarint) and the commit time of that revision (8 bytes).
func appendRowHead(dst []byte, created storage.Revision, at rel.Time) []byte {
	dst = binary.AppendUvarint(dst, uint64(created))
	return binary.BigEndian.AppendUint64(dst, uint64(at))
}

// splitRowHead returns the fields of appendRowHead and the rest of the row.
func splitRowHead(v []byte) (created storage.Revision, at rel.Time, rest []byte, err error) {
	n, size := binary.Uvarint(v)
	if size <= 0 || len(v) < size+8 {
		return 0, 0, nil, errRow()
	}
	return storage.Revision(n), rel.Time(binary.BigEndian.Uint64(v[size:])), v[size+8:], nil
}

func errRow() error { return fmt.Errorf("%w: the value of a row is malformed", storage.ErrDamaged) }

// Flags of the row of a tuple: which fields follow.
const (
	hasCondition = 1 << iota
	hasContext
	hasExpiry
	flagsAll = hasCondition | hasContext | hasExpiry
)

// appendTupleValue appends the row of a tuple after its head.
func appendTupleValue(dst []byte, t *rel.Tuple) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if t.Condition != "" {
		dst[at] |= hasCondition
		dst = appendText(dst, t.Condition)
	}
	if t.Context != "" {
		dst[at] |= hasContext
		dst = appendText(dst, t.Context)
	}
	if t.Expires != 0 {
		dst[at] |= hasExpiry
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.Expires))
	}
	return dst
}

// tupleValue is the row of a tuple after its head. It shares the memory of the
// bytes that it was read from.
type tupleValue struct {
	condition, context []byte
	expires            rel.Time
}

func parseTupleValue(v []byte) (t tupleValue, err error) {
	if len(v) == 0 || v[0]&^flagsAll != 0 {
		return t, errRow()
	}
	flags, v, ok := v[0], v[1:], true
	if flags&hasCondition != 0 {
		if t.condition, v, ok = splitText(v); !ok {
			return t, errRow()
		}
	}
	if flags&hasContext != 0 {
		if t.context, v, ok = splitText(v); !ok {
			return t, errRow()
		}
	}
	if flags&hasExpiry != 0 {
		if len(v) < 8 {
			return t, errRow()
		}
		t.expires, v = rel.Time(binary.BigEndian.Uint64(v)), v[8:]
	}
	if len(v) != 0 {
		return t, errRow()
	}
	return t, nil
}

// appendDocumentValue appends the row of a document after its head: the secondary
// keys and the length of the body.
func appendDocumentValue(dst []byte, doc *storage.Document) []byte {
	dst = appendTexts(dst, doc.Secondary)
	return binary.AppendUvarint(dst, uint64(len(doc.Body)))
}

func parseDocumentValue(v []byte) (secondary []string, bodyBytes int, err error) {
	secondary, v, ok := splitTexts(v)
	if !ok {
		return nil, 0, errRow()
	}
	n, size := binary.Uvarint(v)
	if size <= 0 || size != len(v) || n > storage.EntryBytesMax {
		return nil, 0, errRow()
	}
	return secondary, int(n), nil
}

// appendBodyValue appends the value of a document in the table of bodies or of
// secrets.
func appendBodyValue(dst []byte, doc *storage.Document) []byte {
	return append(appendTexts(dst, doc.Secondary), doc.Body...)
}

// parseBodyValue reads the value of a document in the table of bodies or of
// secrets. The body shares the memory of v.
func parseBodyValue(kind, key string, v []byte) (storage.Document, error) {
	secondary, body, ok := splitTexts(v)
	if !ok {
		return storage.Document{}, errRow()
	}
	return storage.Document{Kind: kind, Key: key, Secondary: secondary, Body: body}, nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func splitText(v []byte) (text, rest []byte, ok bool) {
	n, size := binary.Uvarint(v)
	if size <= 0 || n > uint64(len(v)-size) {
		return nil, nil, false
	}
	return v[size : size+int(n)], v[size+int(n):], true
}

func appendTexts(dst []byte, texts []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, s := range texts {
		dst = appendText(dst, s)
	}
	return dst
}

func splitTexts(v []byte) (texts []string, rest []byte, ok bool) {
	n, size := binary.Uvarint(v)
	if size <= 0 || n > uint64(len(v)-size) {
		return nil, nil, false
	}
	v = v[size:]
	for range n {
		var text []byte
		if text, v, ok = splitText(v); !ok {
			return nil, nil, false
		}
		texts = append(texts, string(text))
	}
	return texts, v, true
}
