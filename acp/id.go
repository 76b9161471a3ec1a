package acp

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/rel"
)

// Bounds of an object's id.
const (
	// IDBytesMax is the longest stored form of an object's id, in bytes. [StoredID]
	// returns that form.
	IDBytesMax = rel.IDBytesMax
	// AnyIDBytesMax is the longest id, in bytes, that is accepted whatever its bytes
	// are: each of them takes at most three bytes of the stored form.
	AnyIDBytesMax = (IDBytesMax - len(idMarker)) / 3
)

// idMarker begins the stored form of an id that is escaped. No other stored form
// contains it.
const idMarker = "\ufffd"

// StoredID returns the form in which an object's id is stored, which is also how
// a client of another door writes it. It fails with [ErrInvalidID] if the id is
// empty, or if its stored form is longer than [IDBytesMax].
//
// The stored form of a plain id is the id. Every other id is stored as U+FFFD
// followed by the id in percent-encoding: a blank, a control character, '#', '%',
// '*', U+FFFD and every byte that is not valid UTF-8 become '%' and two upper-case
// hexadecimal digits. An id is plain if it is valid UTF-8, is not "*", and contains
// no blank, control character, '#' or U+FFFD.
func StoredID(id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("%w: the id is empty", ErrInvalidID)
	}
	if len(id) > IDBytesMax {
		return "", fmt.Errorf("%w: %d bytes, IDBytesMax is %d", ErrInvalidID, len(id), IDBytesMax)
	}
	if plainID(id) {
		return id, nil
	}
	stored := escapeID(id)
	if len(stored) > IDBytesMax {
		return "", fmt.Errorf("%w: the stored form has %d bytes, IDBytesMax is %d", ErrInvalidID, len(stored), IDBytesMax)
	}
	return stored, nil
}

// plainID reports whether an id is stored as it is.
func plainID(id string) bool {
	ascii := true
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case c <= ' ' || c == '#' || c == 0x7f:
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	// ContainsRune finds U+FFFD and invalid UTF-8 alike.
	return id != rel.Wildcard && (ascii || !strings.ContainsRune(id, utf8.RuneError))
}

// escapeID returns the stored form of an id that is not plain.
func escapeID(id string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(idMarker)+3*len(id))
	b = append(b, idMarker...)
	for i, n := 0, 0; i < len(id); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(id[i:])
		if r > ' ' && r != 0x7f && r != '#' && r != '%' && r != '*' && r != utf8.RuneError {
			b = append(b, id[i:i+n]...)
			continue
		}
		for _, c := range []byte(id[i : i+n]) {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// ParseStoredID returns the id of an object from its stored form. It reverses
// [StoredID], and returns a text that StoredID cannot have returned unchanged.
func ParseStoredID(stored string) string {
	text, ok := strings.CutPrefix(stored, idMarker)
	if !ok {
		return stored
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+2 >= len(text) {
			return stored
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return stored
		}
		b.WriteByte(byte(c))
		i += 2
	}
	if id := b.String(); !plainID(id) && escapeID(id) == stored {
		return id
	}
	return stored
}

// shownID returns an id for people: in Go's quotes unless it is plain.
func shownID(id string) string {
	if plainID(id) && !strings.HasPrefix(id, `"`) {
		return id
	}
	return strconv.Quote(id)
}
