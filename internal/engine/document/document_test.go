package document_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/document"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// outcome returns the result of a call, or its error.
func outcome(v any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(v)
}

// reader returns a reader of a new store on d. The store has three documents with the
// secondary key "s", one with "t", and a secret. Its bounds allow three documents.
func reader(t *testing.T, d storage.Driver, key [32]byte) (document.Reader, *storagetest.Log) {
	t.Helper()
	ctx := context.Background()
	log := storagetest.NewLog(1)
	sealer, err := document.NewSealer(key)
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := sealer.Seal(log.Incarnation, []authz.Document{{Kind: "k", Key: "x", Body: []byte("hidden")}})
	if err != nil {
		t.Fatal(err)
	}
	changes := []storage.Change{{Kind: storage.SecretPut, Document: secrets[0]}}
	for _, text := range []string{"a s 1", "b s 2", "c s 3", "d t 4"} {
		f := strings.Fields(text)
		changes = append(changes, storage.Change{Kind: storage.DocumentPut,
			Document: storage.Document{Kind: "k", Key: f[0], Secondary: f[1:2], Body: []byte(f[2])}})
	}
	info := storage.StoreInfo{ID: log.ID, Incarnation: log.Incarnation}
	if err := errors.Join(d.CreateStore(ctx, info), log.Append(ctx, d, changes...)); err != nil {
		t.Fatal(err)
	}
	r := snapshot.NewRuntime(snapshot.Config{Driver: d, Bounds: errs.WithDefaults(authz.Bounds{PageItems: 3}), Clock: time.Now})
	t.Cleanup(func() { r.Close() })
	return document.Reader{Timeline: snapshot.NewTimeline(r, storage.StoreInfo{ID: log.ID, Incarnation: log.Incarnation}), Sealer: sealer}, log
}

// TestReader reads documents and secrets that exist and that do not.
func TestReader(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := memory.New()
	r, log := reader(t, d, [32]byte{1})
	long := strings.Repeat("x", authz.DocumentKeyBytesMax)
	get := func(kind, key string) string {
		v, err := r.Get(ctx, authz.DocumentKey{Kind: kind, Key: key})
		return outcome(fmt.Sprint(v.Kind, " ", v.Key, " ", v.Secondary, " ", string(v.Body)), err)
	}
	by := func(kind, secondary string) string {
		all, err := r.By(ctx, kind, secondary)
		text := ""
		for _, v := range all {
			text += fmt.Sprint(v.Kind, " ", v.Key, " ", v.Secondary, " ", string(v.Body), "; ")
		}
		return outcome(text, err)
	}
	all := func(kinds ...string) string {
		text := ""
		token, err := r.All(ctx, kinds, func(v authz.Document) error {
			text += fmt.Sprint(v.Kind, " ", v.Key, " ", v.Secondary, " ", string(v.Body), "; ")
			return nil
		})
		if at, readErr := token.Revision(); err == nil {
			text, err = fmt.Sprint(text, "at ", at), readErr
		}
		return outcome(text, err)
	}
	secret := func(kind, key string) string {
		v, err := r.Secret(ctx, authz.DocumentKey{Kind: kind, Key: key})
		return outcome(fmt.Sprint(v.Kind, " ", v.Key, " ", v.Secondary, " ", string(v.Body)), err)
	}
	const store = " in store 01000000000000000000000001: "
	for _, c := range [][2]string{
		{get("k", "b"), "k b [s] 2"},
		{get("k", "x"), "error: ostiary: read document" + store + "no such document"},
		{get("k", long), "error: ostiary: read document" + store + "no such document"},
		{get("k", long+"x"), "error: ostiary: read document" + store + "bound DocumentKeyBytesMax exceeded: got 1025, expected at most 1024"},
		{get(long+"x", "b"), "error: ostiary: read document" + store + "bound DocumentKeyBytesMax exceeded: got 1025, expected at most 1024"},
		{get("", "b"), `error: ostiary: read document` + store + `invalid request: document ""/"b" has an empty kind or key`},
		{get("k", ""), `error: ostiary: read document` + store + `invalid request: document "k"/"" has an empty kind or key`},
		{get("schemas", "b"), `error: ostiary: read document` + store + `invalid request: kind "schemas" of a document is reserved for the engine`},
		{by("k", "s"), "k a [s] 1; k b [s] 2; k c [s] 3; "},
		{by("k", "t"), "k d [t] 4; "},
		{by("k", "u"), ""},
		{by("", "s"), `error: ostiary: read documents` + store + `invalid request: document ""/"key" has an empty kind or key`},
		{all("k", "other"), "k a [s] 1; k b [s] 2; k c [s] 3; k d [t] 4; at 1"},
		{all(), "at 1"},
		{all("k", "schemas"), `error: ostiary: read documents` + store + `invalid request: kind "schemas" of a document is reserved for the engine`},
		{secret("k", "x"), "k x [] hidden"},
		{secret("k", "a"), "error: ostiary: read secret" + store + "no such document"},
		{authz.Document{Kind: "k", Key: "x", Body: []byte("hidden")}.String(), "k/x [body not shown]"},
	} {
		if !strings.HasPrefix(c[0], c[1]) || !strings.Contains(c[1], "no such document") && c[0] != c[1] {
			t.Errorf("got %s\nexpected %s", c[0], c[1])
		}
	}

	// One document more than the bound.
	fourth := storage.Document{Kind: "k", Key: "e", Secondary: []string{"s"}}
	if err := log.Append(ctx, d, storage.Change{Kind: storage.DocumentPut, Document: fourth}); err != nil {
		t.Fatal(err)
	}
	if got, want := by("k", "s"), "error: ostiary: read documents"+store+"bound PageItems exceeded: got 4, expected at most 3"; got != want {
		t.Errorf("above the bound: got %s\nexpected %s", got, want)
	}

	if got, want := all("k"), "k a [s] 1; k b [s] 2; k c [s] 3; k d [t] 4; k e [s] ; at 2"; got != want {
		t.Errorf("all above the bound: got %s\nexpected %s", got, want)
	}
	stop, visits := errors.New("stop"), 0
	if _, err := r.All(ctx, []string{"k"}, func(authz.Document) error { visits++; return stop }); err != stop || visits != 1 {
		t.Errorf("All with a visit that fails: %d visits, error %v", visits, err)
	}

	// A reader without a key, and with another one.
	r.Sealer = nil
	if got, want := secret("k", "x"), "error: ostiary: read secret"+store+"missing or wrong key for secrets"; got != want {
		t.Errorf("without a key: got %s\nexpected %s", got, want)
	}
	other, err := document.NewSealer([32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	r.Sealer = other
	if got, want := secret("k", "x"), "error: ostiary: read secret"+store+"missing or wrong key for secrets: cannot decrypt secret k/x"; got != want {
		t.Errorf("with another key: got %s\nexpected %s", got, want)
	}

	r.Timeline.Close(authz.ErrNoStore)
	for _, got := range []string{get("k", "b"), by("k", "s"), all("k"), secret("k", "x")} {
		if !strings.HasSuffix(got, store+"no such store") {
			t.Errorf("after Close: got %s", got)
		}
	}
}

// TestReaderFails makes the driver fail.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, call := range map[string]func(r document.Reader) (any, error){
		"get": func(r document.Reader) (any, error) { return r.Get(ctx, authz.DocumentKey{Kind: "k", Key: "a"}) },
		"by":  func(r document.Reader) (any, error) { return r.By(ctx, "k", "s") },
		"all": func(r document.Reader) (any, error) {
			n := 0
			_, err := r.All(ctx, []string{"k"}, func(authz.Document) error { n++; return nil })
			return n, err
		},
		"secret": func(r document.Reader) (any, error) {
			return r.Secret(ctx, authz.DocumentKey{Kind: "k", Key: "x"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
				r, _ := reader(t, d, [32]byte{1})
				return failing.Scenario{Call: func() (string, error) { v, err := call(r); return fmt.Sprint(v), err }}
			})
		})
	}
}

// TestSecretsStayInPlace moves the ciphertext of a secret to other places, and changes
// each of its bytes. None of it may be decrypted.
func TestSecretsStayInPlace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	key := [32]byte{1}
	// read stores a ciphertext as the secret k/x of a store and reads it.
	read := func(incarnation storage.Incarnation, kind, name string, body []byte) error {
		d := memory.New()
		defer d.Close()
		log := storagetest.NewLog(2)
		log.Incarnation = incarnation
		change := storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: kind, Key: name, Body: body}}
		info := storage.StoreInfo{ID: log.ID, Incarnation: incarnation}
		if err := errors.Join(d.CreateStore(ctx, info), log.Append(ctx, d, change)); err != nil {
			t.Fatal(err)
		}
		runtime := snapshot.NewRuntime(snapshot.Config{Driver: d, Bounds: errs.WithDefaults(authz.Bounds{}), Clock: time.Now})
		defer runtime.Close()
		sealer, err := document.NewSealer(key)
		if err != nil {
			t.Fatal(err)
		}
		r := document.Reader{Timeline: snapshot.NewTimeline(runtime, storage.StoreInfo{ID: log.ID, Incarnation: incarnation}), Sealer: sealer}
		v, err := r.Secret(ctx, authz.DocumentKey{Kind: kind, Key: name})
		if err != nil && len(v.Body) > 0 {
			t.Errorf("an error and the body %q", v.Body)
		}
		return err
	}
	d := memory.New()
	defer d.Close()
	r, log := reader(t, d, key)
	original, err := d.Secret(ctx, log.ID, "k", "x")
	if err != nil {
		t.Fatal(err)
	}
	in := r.Timeline.Incarnation
	if err := read(in, "k", "x", original.Body); err != nil {
		t.Errorf("in its place: %v", err)
	}
	for name, err := range map[string]error{
		"another store": read(storage.Incarnation{9}, "k", "x", original.Body),
		"another key":   read(in, "k", "y", original.Body),
		"another kind":  read(in, "l", "x", original.Body),
		"another split": read(in, "kx", "x", original.Body),
	} {
		if !errors.Is(err, authz.ErrNoSecretKey) {
			t.Errorf("%s: error %v, expected %v", name, err, authz.ErrNoSecretKey)
		}
	}
	const nonceBytes, tagBytes = 12, 16 // of AES-GCM
	for i := range original.Body {
		changed := slices.Clone(original.Body)
		changed[i] ^= 1
		want := authz.ErrNoSecretKey
		if i == 0 {
			want = authz.ErrFormat
		}
		if err := read(in, "k", "x", changed); !errors.Is(err, want) {
			t.Errorf("byte %d changed: error %v, expected %v", i, err, want)
		}
	}
	for n := range original.Body {
		want := authz.ErrFormat
		if n >= 1+nonceBytes {
			want = authz.ErrNoSecretKey
		}
		if err := read(in, "k", "x", original.Body[:n]); !errors.Is(err, want) {
			t.Errorf("the first %d bytes: error %v, expected %v", n, err, want)
		}
	}
	if n := len(original.Body); n != 1+nonceBytes+len("hidden")+tagBytes {
		t.Errorf("the ciphertext has %d bytes", n)
	}
}

// TestSeal checks that secrets are refused without a key, and that two ciphertexts of
// one text differ.
func TestSeal(t *testing.T) {
	t.Parallel()
	secrets := []authz.Document{{Kind: "k", Key: "x", Body: []byte("hidden")}, {Kind: "k", Key: "x", Body: []byte("hidden")}}
	var none *document.Sealer
	if out, err := none.Seal(storage.Incarnation{1}, secrets); !errors.Is(err, authz.ErrNoSecretKey) || out != nil {
		t.Errorf("without a key: %v, %v", out, err)
	}
	if out, err := none.Seal(storage.Incarnation{1}, nil); err != nil || out != nil {
		t.Errorf("without a key and secrets: %v, %v", out, err)
	}
	sealer, err := document.NewSealer([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	out, err := sealer.Seal(storage.Incarnation{1}, secrets)
	if err != nil || len(out) != 2 || string(out[0].Body) == string(out[1].Body) || strings.Contains(string(out[0].Body), "hidden") {
		t.Errorf("sealed: %q, %v", out, err)
	}
	// Stored secrets begin with the version, which must not change.
	if out[0].Body[0] != 1 {
		t.Errorf("the first byte is %d", out[0].Body[0])
	}
}
