package acp_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/acp"
)

// TestNewPrivateKey reads keys of each type and length. A private key of ed25519
// contains its public key, which must fit.
func TestNewPrivateKey(t *testing.T) {
	t.Parallel()
	seed := bytes.Repeat([]byte{7}, 32)
	whole := []byte(ed25519.NewKeyFromSeed(seed))
	other := bytes.Clone(whole)
	other[63] ^= 1
	want := must(acp.NewPrivateKey(acp.KeyEd25519, seed))(t).Public().DID()
	if got := must(acp.NewPrivateKey(acp.KeyEd25519, whole))(t).Public().DID(); got != want {
		t.Errorf("the key %s of 64 bytes, want that of its seed, %s", got, want)
	}
	for name, x := range map[string]struct {
		typ acp.KeyType
		key []byte
	}{
		"ed25519 of 31 bytes":           {acp.KeyEd25519, seed[:31]},
		"ed25519 of 33 bytes":           {acp.KeyEd25519, append(bytes.Clone(seed), 1)},
		"ed25519 of 63 bytes":           {acp.KeyEd25519, whole[:63]},
		"ed25519 with another public":   {acp.KeyEd25519, other},
		"secp256k1 of 31 bytes":         {acp.KeySecp256k1, seed[:31]},
		"secp256k1 of 64 bytes":         {acp.KeySecp256k1, whole},
		"secp256k1 of 0":                {acp.KeySecp256k1, make([]byte, 32)},
		"secp256k1 above the order":     {acp.KeySecp256k1, bytes.Repeat([]byte{0xff}, 32)},
		"no type":                       {"", seed},
		"an unknown type with 32 bytes": {"rsa", seed},
		"no bytes":                      {acp.KeyEd25519, nil},
	} {
		if _, err := acp.NewPrivateKey(x.typ, x.key); !errors.Is(err, acp.ErrInput) || !strings.Contains(err.Error(), "bytes are not a private key of type") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
