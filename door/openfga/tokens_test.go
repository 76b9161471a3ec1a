package openfga

import (
	"bytes"
	"testing"

	"github.com/ostiary/ostiary/authz"
)

// FuzzToken opens texts as tokens of every kind. Only tokens of the door are
// accepted.
func FuzzToken(f *testing.F) {
	f.Add("", "store", []byte("position"))
	f.Add(sealToken(changesToken, []byte{1, 2, 3}, "store"), "store", []byte{0xff})
	f.Add(logPosition{after: "o1.x", skip: 7, typ: "document"}.token("store"), "store", []byte{})
	f.Fuzz(func(t *testing.T, text, of string, position []byte) {
		for k := storesToken; k <= changesToken; k++ {
			if got, err := openToken(k, text, of); err == nil && sealToken(k, got, of) != text {
				t.Errorf("kind %d: %q is taken, and written as %q", k, text, sealToken(k, got, of))
			}
			sealed := sealToken(k, position, of)
			if got, err := openToken(k, sealed, of); err != nil || !bytes.Equal(got, position) {
				t.Errorf("kind %d: %q comes back as %q, %v", k, position, got, err)
			}
			if _, err := openToken(k, sealed, of+"x"); err == nil {
				t.Errorf("kind %d: taken for another list", k)
			}
			if _, err := openToken(k%changesToken+1, sealed, of); err == nil {
				t.Errorf("kind %d: taken for another kind", k)
			}
		}
		_, _ = parseLogPosition(text, of)
		_, _ = parseLogPosition(sealToken(changesToken, position, of), of)
		place := logPosition{after: authz.Token(text), skip: uint64(len(text)), typ: of}
		if got, err := parseLogPosition(place.token(of), of); err != nil || got != place {
			t.Errorf("%+v comes back as %+v, %v", place, got, err)
		}
	})
}

// TestTokenBitFlips flips each bit of a token. None of the results is accepted.
func TestTokenBitFlips(t *testing.T) {
	t.Parallel()
	token := []byte(logPosition{after: "o1.AAAA", skip: 3, typ: "document"}.token("store"))
	for i := range token {
		for bit := range 8 {
			flipped := bytes.Clone(token)
			flipped[i] ^= 1 << bit
			if _, err := parseLogPosition(string(flipped), "store"); err == nil {
				t.Errorf("byte %d, bit %d: %q is taken", i, bit, flipped)
			}
		}
	}
}
