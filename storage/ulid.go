package storage

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/rel"
)

// StoreID identifies a store. It is a ULID (github.com/ulid/spec): 48 bits of
// milliseconds since the Unix epoch, then 80 random bits. So ids are ordered by
// the time at which they were made.
type StoreID [16]byte

// NewID returns a new id for the given time. For a time before the Unix epoch it
// uses the epoch.
func NewID(at rel.Time) (id StoreID) {
	ms := uint64(max(at, 0)) / 1e6
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	rand.Read(id[6:])
	return id
}

// crockford is the alphabet of ULIDs: no I, L, O or U.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// String returns the 26 characters of the ULID. [ParseStoreID] reads them back.
func (id StoreID) String() string {
	var out [26]byte
	// 26 characters have 130 bits; the id has 128. So the first character has three
	// bits of the id.
	for i := range out {
		out[i] = crockford[id.bits(5*i-2)]
	}
	return string(out[:])
}

// bits returns five bits of the id, starting at bit from. Bits before the first
// bit of the id are 0.
func (id StoreID) bits(from int) byte {
	var v byte
	for b := from; b < from+5; b++ {
		v <<= 1
		if b >= 0 {
			v |= id[b/8] >> (7 - b%8) & 1
		}
	}
	return v
}

// ParseStoreID reads a ULID of 26 upper case characters. Errors wrap
// [ErrNoStore].
func ParseStoreID(s string) (StoreID, error) {
	var id StoreID
	if len(s) != 26 {
		return id, fmt.Errorf("%w: %q is not a ULID: expected 26 characters, digits and upper case letters without I, L, O and U", ErrNoStore, s)
	}
	var high, low uint64
	for i := range len(s) {
		v := crockfordValue(s[i])
		if v == noDigit || i == 0 && v > 7 {
			return StoreID{}, fmt.Errorf("%w: %q is not a ULID: expected 26 characters, digits and upper case letters without I, L, O and U", ErrNoStore, s)
		}
		high, low = high<<5|low>>59, low<<5|uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], high)
	binary.BigEndian.PutUint64(id[8:], low)
	return id, nil
}

// crockfordValues are the values of the characters from '0' to 'Z'; noDigit if
// the character is not in the alphabet.
const crockfordValues = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\xff\xff\xff\xff\xff\xff\xff\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\xff\x12\x13\xff\x14\x15\xff\x16\x17\x18\x19\x1a\xff\x1b\x1c\x1d\x1e\x1f"

const noDigit = 0xff

func crockfordValue(c byte) byte {
	if c < '0' || c > 'Z' {
		return noDigit
	}
	return crockfordValues[c-'0']
}
