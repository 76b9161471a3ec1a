package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/identity/keyring"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// open returns an engine on a driver.
func open(t *testing.T, d storage.Driver, secret *[32]byte) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d, SecretKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// numbers returns the numbers of the keys of tokens.
func numbers(t *testing.T, k *keyring.Keyring) string {
	t.Helper()
	keys, _, err := k.List(t.Context(), keyring.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, key := range keys {
		text += fmt.Sprint(key.Number, " ")
	}
	return strings.TrimSpace(text)
}

// TestRotations rotates the keys. Each token is read until its key is removed, by a
// keyring that reads the keys for the first time, and by one that has followed.
func TestRotations(t *testing.T) {
	t.Parallel()
	e := open(t, memory.New(), &[32]byte{1})
	k := keyring.New(e, nil)
	if keys, err := k.Keys(t.Context(), keyring.Tokens); keys != nil || err != nil {
		t.Fatalf("without a system store: %d keys, %v", len(keys), err)
	}
	if _, err := k.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: 3}); !errors.Is(err, keyring.ErrNone) {
		t.Fatalf("a rotation without keys: %v", err)
	}
	for range 2 { // the second one finds keys
		if err := k.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	receipts := must(k.Keys(t.Context(), keyring.Receipts))(t)
	var texts []string
	for i, want := range []string{"1 0", "2 1 0", "3 2 0", "4 3 0", "5 0"} {
		if i > 0 {
			staged := last(must(k.Keys(t.Context(), keyring.Tokens))(t))
			most := 3
			if i == 4 {
				most = 2
			}
			r := must(k.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: most}))(t)
			if removed := map[int][]int{1: {}, 2: {1}, 3: {2}, 4: {4, 3}}[i]; r.Primary != i+1 || !slices.Equal(r.Removed, removed) {
				t.Errorf("rotation %d: primary %d, removed %d, want %d", i, r.Primary, r.Removed, removed)
			}
			if now := must(k.Keys(t.Context(), keyring.Tokens))(t); now[0] != staged {
				t.Errorf("rotation %d: the primary key is not the one that was staged", i)
			}
		}
		if got := numbers(t, k); got != want {
			t.Errorf("after rotation %d: keys %s, want %s", i, got, want)
		}
		for _, reader := range []*keyring.Keyring{k, keyring.New(e, nil)} {
			keys := must(reader.Keys(t.Context(), keyring.Tokens))(t)
			codec := token.Fernet{Keys: keys}
			if reader == k {
				texts = append(texts, must(codec.Encode(payload(), time.Now()))(t))
			}
			for j, text := range texts {
				_, _, err := codec.Decode(text)
				if live := strings.Contains(" "+want+" ", fmt.Sprintf(" %d ", j+1)); (err == nil) != live {
					t.Errorf("after rotation %d, a token of key %d: %v", i, j+1, err)
				}
			}
		}
	}
	if now := must(k.Keys(t.Context(), keyring.Receipts))(t); !slices.Equal(now, receipts) {
		t.Error("the rotations of tokens have changed the keys of receipts")
	}
}

func last(keys []settings.Key) settings.Key { return keys[len(keys)-1] }

func payload() *token.Payload {
	return &token.Payload{UserID: strings.Repeat("a", 32), Methods: []string{"password"}, Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), AuditIDs: []string{"AAAAAAAAAAAAAAAAAAAAAA"}}
}

// TestNoKeyRemains checks that a removed key is nowhere in the store, and that no key is in
// the log.
func TestNoKeyRemains(t *testing.T) {
	t.Parallel()
	d := memory.New()
	e := open(t, d, &[32]byte{1})
	k := keyring.New(e, nil)
	if err := k.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, _, err := k.List(t.Context(), keyring.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		must(k.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: 2}))(t)
	}
	store := must(documents.SystemStore(t.Context(), e))(t)
	for i, key := range first {
		_, err := d.Secret(t.Context(), store.ID(), "fernet-key", key.ID)
		if gone := errors.Is(err, storage.ErrNoDocument); !gone {
			t.Errorf("key %d of the first ones: %v", i, err)
		}
	}
	now := must(k.Export(t.Context(), keyring.Tokens))(t)
	for entry, err := range d.Entries(t.Context(), store.ID(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range now {
			if text := fmt.Sprintf("%+v", entry); strings.Contains(text, key.Key.Encode()) || strings.Contains(text, string(key.Key[:])) {
				t.Errorf("entry %d has key %d", entry.Revision, key.Number)
			}
		}
	}
}

func numbered(n int, k settings.Key) token.NumberedKey { return token.NumberedKey{Number: n, Key: k} }

// TestImport imports folders of Keystone, good and bad ones.
func TestImport(t *testing.T) {
	t.Parallel()
	k := keyring.New(open(t, memory.New(), &[32]byte{1}), nil)
	a, b, c, other := settings.NewKey(), settings.NewKey(), settings.NewKey(), settings.NewKey()
	folder := []token.NumberedKey{{Number: 7, Key: a}, {Number: 6, Key: b}, {Number: 0, Key: c}}
	many := func(n int) (out []token.NumberedKey) {
		for i := range n {
			out = append(out, token.NumberedKey{Number: i, Key: settings.NewKey()})
		}
		return out
	}
	in := func(keys []token.NumberedKey, replace bool) error {
		return k.Import(t.Context(), map[keyring.Purpose][]token.NumberedKey{keyring.Tokens: keys}, replace)
	}
	for name, keys := range map[string][]token.NumberedKey{"none": nil, "only a staged key": {{Key: a}}, "a number twice": {numbered(1, a), numbered(1, b)}, "a negative number": {numbered(1, a), numbered(-1, b)}, "too many": many(keyring.KeysMax)} {
		if err := in(keys, false); !errors.Is(err, authz.ErrInvalidRequest) && !errors.Is(err, authz.ErrBound) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if keys, err := k.Keys(t.Context(), keyring.Tokens); keys != nil || err != nil {
		t.Fatalf("after imports that failed: %d keys, %v", len(keys), err)
	}
	both := map[keyring.Purpose][]token.NumberedKey{keyring.Tokens: folder, keyring.Receipts: {{Key: a}}}
	if err := k.Import(t.Context(), both, false); !errors.Is(err, authz.ErrInvalidRequest) {
		t.Errorf("one good and one bad folder: error %v", err)
	}
	if err := k.Import(t.Context(), map[keyring.Purpose][]token.NumberedKey{"jws": folder}, false); !errors.Is(err, authz.ErrInvalidRequest) {
		t.Errorf("keys of another kind: error %v", err)
	}
	if keys, err := k.Keys(t.Context(), keyring.Tokens); keys != nil || err != nil {
		t.Errorf("after an import of which a part failed: %d keys, %v", len(keys), err)
	}
	for range 2 { // the second one changes nothing
		if err := in(folder, false); err != nil {
			t.Fatal(err)
		}
		if keys := must(k.Keys(t.Context(), keyring.Tokens))(t); !slices.Equal(keys, []settings.Key{a, b, c}) {
			t.Errorf("the keys are not those of the folder, in its order")
		}
	}
	if err := in([]token.NumberedKey{numbered(3, other)}, false); !errors.Is(err, keyring.ErrOther) {
		t.Errorf("other keys: %v", err)
	}
	if keys := must(k.Keys(t.Context(), keyring.Tokens))(t); keys[0] != a {
		t.Error("an import that failed has changed the keys")
	}
	for range 2 {
		if err := in([]token.NumberedKey{numbered(3, other)}, true); err != nil {
			t.Fatal(err)
		}
		if keys := must(k.Keys(t.Context(), keyring.Tokens))(t); len(keys) != 2 || keys[0] != other || numbers(t, k) != "3 0" {
			t.Errorf("after a replacement: keys %s", numbers(t, k))
		}
	}
	if err := in(many(keyring.KeysMax-1), true); err != nil {
		t.Errorf("as many keys as are allowed: %v", err)
	}
	if got := must(k.Export(t.Context(), keyring.Tokens))(t); len(got) != keyring.KeysMax-1 {
		t.Errorf("an export has %d keys", len(got))
	}
}

// damaging changes a byte of each secret that is read.
type damaging struct{ storage.Driver }

func (d damaging) Secret(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	out, err := d.Driver.Secret(ctx, id, kind, key)
	if err == nil {
		out.Body = slices.Clone(out.Body)
		out.Body[len(out.Body)-1] ^= 1
	}
	return out, err
}

// TestUnreadable reads keys with another secret key, without one, and with damaged and
// missing secrets. No keys and no error would mean that folders are used.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	d := memory.New()
	e := open(t, d, &[32]byte{1})
	good := keyring.New(e, nil)
	if err := good.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		driver storage.Driver
		key    *[32]byte
	}{"another key": {d, &[32]byte{2}}, "no key": {d, nil}, "damaged": {damaging{d}, &[32]byte{1}}} {
		k := keyring.New(open(t, c.driver, c.key), nil)
		for _, call := range []func() error{
			func() error { _, err := k.Keys(t.Context(), keyring.Tokens); return err },
			func() error { _, err := k.Export(t.Context(), keyring.Tokens); return err },
			func() error {
				_, err := k.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: 3})
				return err
			},
		} {
			if err := call(); !errors.Is(err, authz.ErrNoSecretKey) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
	store := must(documents.SystemStore(t.Context(), e))(t)
	keys, _, err := good.List(t.Context(), keyring.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	remove := authz.WriteRequest{RemoveSecrets: []authz.DocumentKey{{Kind: "fernet-key", Key: keys[0].ID}}}
	must(store.Write(documents.SystemContext(t.Context()), remove))(t)
	if _, err := keyring.New(e, nil).Keys(t.Context(), keyring.Tokens); !errors.Is(err, authz.ErrNoDocument) {
		t.Errorf("without the secret of a key: error %v", err)
	}
	bad := authz.WriteRequest{Documents: []authz.Document{{Kind: "fernet", Key: "tokens", Body: []byte(`{"keys":[{"number":1}]}`)}}}
	must(store.Write(documents.SystemContext(t.Context()), bad))(t)
	if _, err := keyring.New(e, nil).Keys(t.Context(), keyring.Tokens); !errors.Is(err, authz.ErrFormat) {
		t.Errorf("a document without a staged key: error %v", err)
	}
}

// cluster are nodes of which some lack a key.
type cluster struct {
	mu      sync.Mutex
	applied uint64
	asked   []uint64
	lagging []keyring.Lagging
	polls   int // after which they have caught up
}

func (c *cluster) Applied() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied++
	return c.applied
}

func (c *cluster) Behind(_ context.Context, sequence uint64) ([]keyring.Lagging, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, sequence)
	if c.polls--; c.polls < 0 {
		return nil, nil
	}
	return c.lagging, nil
}

// TestLaggingNodes rotates while nodes lack the staged key. cmd/ostiary has the same with
// nodes.
func TestLaggingNodes(t *testing.T) {
	t.Parallel()
	nodes := &cluster{applied: 100}
	k := keyring.New(open(t, memory.New(), &[32]byte{1}), nodes)
	if err := k.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: 3, Wait: time.Minute}
	down := keyring.Lagging{Name: "node7", Seen: 90 * time.Second}
	nodes.lagging, nodes.polls = []keyring.Lagging{{Name: "node6", Runs: true}, down}, 1000
	_, err := k.Rotate(t.Context(), r)
	if !errors.Is(err, keyring.ErrBehind) || !strings.Contains(err.Error(), "node6") || !strings.Contains(err.Error(), "node7, which does not run, reported 1m30s ago") {
		t.Errorf("a node is down: error %v", err)
	}
	nodes.lagging = nodes.lagging[:1]
	r.Wait = 0
	if _, err := k.Rotate(t.Context(), r); !errors.Is(err, keyring.ErrBehind) || strings.Contains(err.Error(), "node7") {
		t.Errorf("a node is slow: error %v", err)
	}
	if got := numbers(t, k); got != "1 0" {
		t.Errorf("after rotations that failed: keys %s", got)
	}
	r.Wait, nodes.polls = time.Minute, 2
	if got := must(k.Rotate(t.Context(), r))(t); got.Primary != 2 || got.Lacking != nil {
		t.Errorf("a node that catches up: %+v", got)
	}
	for _, at := range nodes.asked {
		if at != 101 {
			t.Errorf("asked for sequence %d, want the one at which the key was staged", at)
		}
	}
	r.Force, nodes.polls = true, 1000
	if got := must(k.Rotate(t.Context(), r))(t); got.Primary != 3 || len(got.Lacking) != 1 {
		t.Errorf("forced: %+v", got)
	}
	for _, most := range []int{1, keyring.KeysMax + 1} {
		if _, err := k.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: most}); !errors.Is(err, authz.ErrInvalidRequest) {
			t.Errorf("%d keys: error %v", most, err)
		}
	}
}

// TestTogether rotates from two keyrings at once, while others use the keys. A rotation
// either makes the key that it has seen the primary one or fails, and the keys can always
// be read.
func TestTogether(t *testing.T) {
	t.Parallel()
	e := open(t, memory.New(), &[32]byte{1})
	first := keyring.New(e, nil)
	if err := first.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	const writers, rotations = 4, 10
	ctx, stop := context.WithCancel(t.Context())
	var readers, all sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for k := keyring.New(e, nil); ctx.Err() == nil; {
				if keys, err := k.Keys(t.Context(), keyring.Tokens); err != nil || len(keys) < 2 {
					t.Errorf("%d keys, error %v", len(keys), err)
				}
			}
		})
	}
	var mu sync.Mutex
	var primaries []int
	for range writers {
		all.Go(func() {
			for k, made := keyring.New(e, nil), 0; made < rotations; {
				r, err := k.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Tokens, ActiveMax: 3})
				if errors.Is(err, keyring.ErrRotated) || errors.Is(err, authz.ErrNoDocument) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				made++
				mu.Lock()
				primaries = append(primaries, r.Primary)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	stop()
	readers.Wait()
	slices.Sort(primaries)
	for i, n := range primaries {
		if n != i+2 {
			t.Fatalf("the primary keys of all rotations: %v", primaries)
		}
	}
}
