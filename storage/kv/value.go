package kv

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// checksumBytes is the size of the CRC-32C at the end of every value. It covers
// the key (behind the prefix) and the value, so that a value that got under
// another key shows too.
const checksumBytes = 4

func (d *Driver) sum(key, value []byte) uint32 {
	return crc32.Update(crc32.Update(0, d.castagnoli, key[len(d.prefix):]), d.castagnoli, value)
}

// seal appends the checksum to value.
func (d *Driver) seal(key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, d.sum(key, value))
}

// verify returns value without its checksum, or ErrDamaged.
func (d *Driver) verify(key, value []byte) ([]byte, error) {
	n := len(value) - checksumBytes
	if n < 0 || binary.LittleEndian.Uint32(value[n:]) != d.sum(key, value[:n]) {
		return nil, fmt.Errorf("%w: checksum of key %x", storage.ErrDamaged, key)
	}
	return value[:n], nil
}

// put seals value, whose spare capacity it may use, and adds it to b.
func (d *Driver) put(b Batch, key, value []byte) error {
	return b.Set(key, d.seal(key, value))
}

// get returns key's verified value in fresh memory.
func (d *Driver) get(r Reader, key []byte) (value []byte, found bool, err error) {
	v, found, err := r.Get(key, nil)
	if err != nil || !found {
		return nil, false, err
	}
	v, err = d.verify(key, v)
	return v, err == nil, err
}

// A row's value is: the revision that created it (uvarint), that revision's
// time (8 bytes), and what its table says of it.

func appendRowHead(dst []byte, created storage.Revision, at rel.Time) []byte {
	dst = binary.AppendUvarint(dst, uint64(created))
	return binary.BigEndian.AppendUint64(dst, uint64(at))
}

func cutRowHead(v []byte) (created storage.Revision, at rel.Time, rest []byte, err error) {
	n, size := binary.Uvarint(v)
	if size <= 0 || len(v) < size+8 {
		return 0, 0, nil, errRow()
	}
	return storage.Revision(n), rel.Time(binary.BigEndian.Uint64(v[size:])), v[size+8:], nil
}

func errRow() error { return fmt.Errorf("%w: a row is malformed", storage.ErrDamaged) }

// Flags of a tuple's row.
const (
	hasCondition = 1 << iota
	hasContext
	hasExpiry
	flagsAll = hasCondition | hasContext | hasExpiry
)

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

// tupleValue is a tuple's row value, pointing into the bytes it was read from.
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
		if t.condition, v, ok = cutText(v); !ok {
			return t, errRow()
		}
	}
	if flags&hasContext != 0 {
		if t.context, v, ok = cutText(v); !ok {
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

// appendDocumentValue is a document's row: its secondary keys and the size of
// its body.
func appendDocumentValue(dst []byte, doc *storage.Document) []byte {
	dst = appendTexts(dst, doc.Secondary)
	return binary.AppendUvarint(dst, uint64(len(doc.Body)))
}

func parseDocumentValue(v []byte) (secondary []string, bodyBytes int, err error) {
	secondary, v, ok := cutTexts(v)
	if !ok {
		return nil, 0, errRow()
	}
	n, size := binary.Uvarint(v)
	if size <= 0 || size != len(v) || n > storage.EntryBytesMax {
		return nil, 0, errRow()
	}
	return secondary, int(n), nil
}

// appendBodyValue is what stands in the tables of bodies and of secrets.
func appendBodyValue(dst []byte, doc *storage.Document) []byte {
	return append(appendTexts(dst, doc.Secondary), doc.Body...)
}

// parseBodyValue keeps v as the body's memory.
func parseBodyValue(kind, key string, v []byte) (storage.Document, error) {
	secondary, body, ok := cutTexts(v)
	if !ok {
		return storage.Document{}, errRow()
	}
	return storage.Document{Kind: kind, Key: key, Secondary: secondary, Body: body}, nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func cutText(v []byte) (text, rest []byte, ok bool) {
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

func cutTexts(v []byte) (texts []string, rest []byte, ok bool) {
	n, size := binary.Uvarint(v)
	if size <= 0 || n > uint64(len(v)-size) {
		return nil, nil, false
	}
	v = v[size:]
	for range n {
		var text []byte
		if text, v, ok = cutText(v); !ok {
			return nil, nil, false
		}
		texts = append(texts, string(text))
	}
	return texts, v, true
}
