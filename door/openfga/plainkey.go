package openfga

import (
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Nearly all names are plain, that is printable ASCII. This file parses keys of
// plain names in one pass. rules.go and names.go handle all names, with errors;
// where both accept a key, they return the same.

// Classes of bytes: what a byte may be part of.
const (
	inULID uint8 = 1 << iota
	inName       // a type or an id
	inWord       // a relation
)

// classes maps each byte to its classes.
var classes = func() (of [256]uint8) {
	for c := byte('!'); c <= '~'; c++ {
		switch c {
		case ':', '#':
			continue
		case '@':
			of[c] = inName
		default:
			of[c] = inName | inWord
		}
		if '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' && c != 'I' && c != 'L' && c != 'O' && c != 'U' {
			of[c] |= inULID
		}
	}
	return of
}()

// allOfClass reports whether all bytes of s belong to a class.
func allOfClass(s string, class uint8) bool {
	for i := 0; i < len(s); i++ {
		class &= classes[s[i]]
	}
	return class != 0
}

// plainKey parses a key of plain names that the protocol's rules accept. For any
// other key ok is false, and the key may still be valid.
func plainKey(k *wire.Key) (key rel.Key, ok bool) {
	if len(k.User) > userBytesMax || len(k.Object) > objectRunesMax || len(k.Relation) > relationRunesMax ||
		k.Relation == "" || !allOfClass(k.Relation, inWord) {
		return key, false
	}
	colon, hash := separators(k.Object)
	if colon <= 0 || hash != len(k.Object) || hash == colon+1 {
		return key, false
	}
	key.Object, key.Relation = rel.Object{Type: k.Object[:colon], ID: k.Object[colon+1:]}, k.Relation
	if colon, hash = separators(k.User); colon <= 0 || hash <= colon+1 {
		return key, false
	}
	key.Subject.Type, key.Subject.ID = k.User[:colon], k.User[colon+1:hash]
	if hash < len(k.User) {
		key.Subject.Relation = k.User[hash+1:]
		if key.Subject.Relation == "" || !allOfClass(key.Subject.Relation, inWord) || key.Subject.ID == rel.Wildcard {
			return key, false
		}
	}
	return key, key.Object.ID != rel.Wildcard
}

// separators returns the positions of the colon and the number sign of a plain
// name. Without a number sign, hash is the length of the name. colon is -1 if the
// name has no colon, is not plain, or has a second separator.
func separators(s string) (colon, hash int) {
	colon, hash = -1, len(s)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case classes[c]&inName != 0:
		case c == ':' && colon < 0:
			colon = i
		case c == '#' && colon >= 0 && hash == len(s):
			hash = i
		default:
			return -1, 0
		}
	}
	return colon, hash
}

// checkKnown checks that the schema has the types and relations of a key.
func checkKnown(s *schema.Schema, k *rel.Key) error {
	if k.Subject.Relation == "" {
		if err := hasType(s, k.Subject.Type); err != nil {
			return err
		}
	} else if err := hasRelation(s, k.Subject.Type, k.Subject.Relation); err != nil {
		return err
	}
	return hasRelation(s, k.Object.Type, k.Relation)
}
