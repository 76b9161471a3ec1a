package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// The beginning of the format record: of data of its own, and of a copy of a shared
// log. The version follows.
const (
	formatMagic = "ostiary kv layout "
	copyMagic   = "ostiary kv copy "
)

// The first byte of a key after the prefix. The numbers are on disk and must not
// change.
const (
	areaFormat  = 0x00
	areaStore   = 0x01 // store id → name, incarnation, aliases
	areaAlias   = 0x02 // door, alias → store id
	areaContent = 0x03 // store id, table, … → the store's data
	areaCopy    = 0x05 // → the record of a copy
	areaName    = 0x04 // name, store id → store id
)

// table is the byte after the store id in a key. It divides the data of a store
// into tables. The values are on disk and must not change. The comments have the
// form: rest of the key → value.
type table byte

const (
	tableHead              table = 'h' // → head and incarnation
	tableTrim              table = 'o' // → oldest entry, newest trimmed removal
	tableLog               table = 'l' // revision → canonical bytes
	tableTuples            table = 't' // tuple key → row
	tableTuplesRemoved     table = 'u' // revision removed, tuple key → row
	tableAttributes        table = 'a' // attribute key → row
	tableAttributesRemoved table = 'b' // revision removed, attribute key → row
	tableDocuments         table = 'd' // kind, key → row
	tableDocumentsRemoved  table = 'e' // revision removed, kind, key → row
	tableBodies            table = 'y' // kind, key → secondary keys and body
	tableSecondary         table = 'k' // kind, secondary key, key → nothing
	tableSecrets           table = 's' // kind, key → secondary keys and ciphertext
	tableSecretsMissing    table = 'm' // kind, key → secondary keys and digest; in copies only
)

// appendPart appends s as a part of a key. The byte 00 ends a part; inside a part,
// 00 is written as 01 01, and 01 as 01 02. So keys of several parts have the order
// of their strings, and different strings make different keys.
func appendPart(dst []byte, s string) []byte {
	return append(appendPartPrefix(dst, s), 0)
}

// appendPartPrefix is like [appendPart] without the end of the part. The result is
// a prefix of all parts that begin with s.
func appendPartPrefix(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, 1) < 0 {
		return append(dst, s...)
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= 1 {
			dst = append(dst, 1, s[i]+1)
		} else {
			dst = append(dst, s[i])
		}
	}
	return dst
}

// splitKey splits key into exactly len(parts) parts. A part without escaped bytes
// shares the memory of key.
func splitKey(key []byte, parts [][]byte) error {
	n, from, escaped := 0, 0, false
	for at := 0; at < len(key); at += 8 {
		for low := lowBytes(key, at); low != 0; low &= low - 1 {
			i := at + bits.TrailingZeros64(low)/8
			switch {
			case key[i] == 1:
				escaped = true
			case key[i] != 0: // lowBytes may mark a 2
			case n == len(parts):
				return errKey()
			default:
				parts[n] = key[from:i]
				n, from = n+1, i+1
			}
		}
	}
	if n != len(parts) || from != len(key) {
		return errKey()
	}
	for i := 0; escaped && i < n; i++ {
		var err error
		if parts[i], err = unescape(parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// lowBytes looks at the eight bytes of key from index at. In the result, the
// highest bit of a byte is set if the byte of key is 0 or 1. It may also be set if
// the byte is 2 and follows such a byte. It is not set after the end of key.
func lowBytes(key []byte, at int) uint64 {
	const ones = 0x0101010101010101
	x := ^uint64(0)
	switch rest := len(key) - at; {
	case rest >= 8:
		x = binary.LittleEndian.Uint64(key[at:])
	case at > 0: // at is a multiple of 8, so key has at least eight bytes
		x = x<<(8*rest) | binary.LittleEndian.Uint64(key[len(key)-8:])>>(64-8*rest)
	default:
		for i := range key {
			x = x<<8 | uint64(key[len(key)-1-i])
		}
	}
	return (x - 2*ones) &^ x & (0x80 * ones)
}

// unescape returns the string of a part without its end.
func unescape(part []byte) ([]byte, error) {
	if bytes.IndexByte(part, 1) < 0 {
		return part, nil
	}
	plain := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == 1 {
			if i++; i == len(part) || part[i] < 1 || part[i] > 2 {
				return nil, errKey()
			}
			c = part[i] - 1
		}
		plain = append(plain, c)
	}
	return plain, nil
}

func errKey() error { return fmt.Errorf("%w: the key of a row is malformed", storage.ErrDamaged) }

// tupleParts is the number of parts in the key of a tuple.
const tupleParts = 6

func appendTupleKey(dst []byte, object rel.Object, relation string, subject rel.Subject) []byte {
	dst = appendPart(dst, object.Type)
	dst = appendPart(dst, object.ID)
	dst = appendPart(dst, relation)
	dst = appendPart(dst, subject.Type)
	dst = appendPart(dst, subject.ID)
	return appendPart(dst, subject.Relation)
}

func appendAttributeKey(dst []byte, a *rel.Attribute) []byte {
	dst = appendPart(dst, a.Object.Type)
	dst = appendPart(dst, a.Object.ID)
	return appendPart(dst, a.Name)
}

func appendDocumentKey(dst []byte, kind, key string) []byte {
	return appendPart(appendPart(dst, kind), key)
}

func (d *Driver) formatKey() []byte { return append(bytes.Clone(d.prefix), areaFormat) }

func (d *Driver) storeKey(id storage.StoreID) []byte {
	return append(append(bytes.Clone(d.prefix), areaStore), id[:]...)
}

func (d *Driver) aliasKey(door, alias string) []byte {
	return appendPart(appendPart(append(bytes.Clone(d.prefix), areaAlias), door), alias)
}

func (d *Driver) nameKey(name string, id storage.StoreID) []byte {
	return append(appendPart(append(bytes.Clone(d.prefix), areaName), name), id[:]...)
}

// contentKey returns the beginning of all keys of the data of a store.
func (d *Driver) contentKey(id storage.StoreID) []byte {
	return append(append(append(make([]byte, 0, len(d.prefix)+96), d.prefix...), areaContent), id[:]...)
}

// tableKey returns the beginning of all keys of a table.
func (d *Driver) tableKey(id storage.StoreID, t table) []byte {
	return append(d.contentKey(id), byte(t))
}

// appendTableKey is like [Driver.tableKey], but appends to dst.
func (d *Driver) appendTableKey(dst []byte, id storage.StoreID, t table) []byte {
	dst = append(append(dst, d.prefix...), areaContent)
	return append(append(dst, id[:]...), byte(t))
}

func (d *Driver) logKey(id storage.StoreID, r storage.Revision) []byte {
	return d.appendLogKey(nil, id, r)
}

func (d *Driver) appendLogKey(dst []byte, id storage.StoreID, r storage.Revision) []byte {
	return appendRevision(d.appendTableKey(dst, id, tableLog), r)
}

func appendRevision(dst []byte, r storage.Revision) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(r))
}

// successor returns the least key that is above all keys with a prefix. The prefix
// must contain a byte other than 0xff.
func successor(prefix []byte) []byte {
	s := bytes.Clone(prefix)
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != 0xff {
			s[i]++
			return s[:i+1]
		}
	}
	return append(s, 0xff) // unreachable: all keys contain the byte of their area
}
