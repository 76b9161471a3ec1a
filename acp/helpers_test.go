package acp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// Three identities: two of ed25519, one of secp256k1.
const (
	alice = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
	bob   = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"
	carol = "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"
)

// disks are the drivers that an engine runs on here.
var disks = []struct {
	name string
	open func(t testing.TB) storage.Driver
}{
	{"memory", func(testing.TB) storage.Driver { return nil }},
	{"pebble", func(t testing.TB) storage.Driver {
		d, err := pebble.Open(t.TempDir()+"/data", pebble.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}},
}

func open(t testing.TB, o acp.Options) *acp.Engine {
	t.Helper()
	e := must(acp.Open(context.Background(), o))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

// must returns a value, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantKind(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v, want %v", err, kind)
	}
}

func relObject(typ, id string) rel.Object { return rel.Object{Type: typ, ID: id} }
