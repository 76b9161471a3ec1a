package token

import (
	"bytes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/internal/identity/settings"
)

// vector is a token that Keystone 30.0.0 made.
type vector struct {
	Name, Token     string
	Version         Version
	Expires         time.Time
	AuditIDs        []string `json:"audit_ids"`
	UserID          string   `json:"user_id"`
	Methods         []string
	System          string
	ProjectID       string                `json:"project_id"`
	DomainID        string                `json:"domain_id"`
	TrustID         string                `json:"trust_id"`
	Groups          []struct{ ID string } `json:"federated_group_ids"`
	Provider        string                `json:"identity_provider_id"`
	Protocol        string                `json:"protocol_id"`
	AccessTokenID   string                `json:"access_token_id"`
	AppCredentialID string                `json:"app_cred_id"`
	Thumbprint      string
}

func (v vector) payload() *Payload {
	p := &Payload{UserID: v.UserID, Methods: v.Methods, ProjectID: v.ProjectID, DomainID: v.DomainID, System: v.System,
		TrustID: v.TrustID, IdentityProvider: v.Provider, Protocol: v.Protocol, AccessTokenID: v.AccessTokenID,
		ApplicationCredentialID: v.AppCredentialID, Thumbprint: v.Thumbprint, Expires: v.Expires, AuditIDs: v.AuditIDs}
	for _, g := range v.Groups {
		p.GroupIDs = append(p.GroupIDs, g.ID)
	}
	slices.SortFunc(p.Methods, func(a, b string) int {
		return slices.Index(DefaultMethods(), a) - slices.Index(DefaultMethods(), b)
	})
	return p
}

func vectors(t testing.TB) (*Fernet, []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/keystone.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Key    string
		Tokens []vector
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Tokens) < 14 {
		t.Fatal(err, len(file.Tokens))
	}
	key, err := settings.ParseKey(file.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &Fernet{Keys: []settings.Key{key}}, file.Tokens
}

// TestKeystonesTokens decodes tokens of every version that Keystone made, and
// compares the bytes that it encrypted with ours.
func TestKeystonesTokens(t *testing.T) {
	f, all := vectors(t)
	versions := map[Version]bool{}
	for _, v := range all {
		versions[v.Version] = true
		t.Run(v.Name, func(t *testing.T) {
			want := v.payload()
			got, issued, err := f.Decode(v.Token)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
			}
			if got.Version() != v.Version || issued.Year() != 2026 {
				t.Errorf("version %d of %v, want %d", got.Version(), issued, v.Version)
			}
			theirs, _, err := Open(f.Keys, v.Token)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := pack(want, DefaultMethods())
			if err != nil || !slices.Equal(ours, theirs) {
				t.Errorf("%v\nours   %x\ntheirs %x", err, ours, theirs)
			}
			text, err := f.Encode(want, issued)
			if err != nil || len(text) != len(v.Token) || strings.Contains(text, "=") {
				t.Errorf("a token of %d characters, want %d: %v", len(text), len(v.Token), err)
			}
		})
	}
	if len(versions) != int(OAuth2Certificate)+1 {
		t.Errorf("tokens of %d versions, want %d", len(versions), OAuth2Certificate+1)
	}
}

// TestForgedFernet alters each byte of a token, cuts it at each length, and uses
// another key. None is accepted.
func TestForgedFernet(t *testing.T) {
	f, all := vectors(t)
	raw, err := base64.RawURLEncoding.DecodeString(all[0].Token)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, f *Fernet, raw []byte) {
		t.Helper()
		text := base64.RawURLEncoding.EncodeToString(raw)
		if _, _, err := f.Decode(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if data, _, err := Open(f.Keys, text); data != nil || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: the content is %x, %v", what, data, err)
		}
	}
	for i := range raw {
		for _, bit := range []byte{1, 0x80} {
			altered := slices.Clone(raw)
			altered[i] ^= bit
			refused("altered", f, altered)
		}
		refused("cut", f, raw[:i])
	}
	refused("of another key", &Fernet{Keys: []settings.Key{settings.NewKey()}}, raw)
	refused("longer", f, append(slices.Clone(raw), make([]byte, 16)...))
	for _, pad := range []byte{0, 17, 255} { // signed with the key, but not padded
		signed := slices.Clone(raw[:len(raw)-macBytes])
		block := slices.Repeat([]byte{pad}, len(signed)-headBytes)
		cipher.NewCBCEncrypter(cipherOf(f.Keys[0]), signed[9:headBytes]).CryptBlocks(signed[headBytes:], block)
		refused("badly padded", &Fernet{Keys: f.Keys[:1]}, sum(f.Keys[0], signed, signed))
	}
	for _, text := range []string{"", "gAAAA", "x y", strings.Repeat("A", TextMax+1), all[0].Token + "!"} {
		if _, _, err := f.Decode(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestBadPayload seals contents that are no payload with a good key.
func TestBadPayload(t *testing.T) {
	f, _ := vectors(t)
	good, err := pack(&Payload{UserID: "u", Methods: []string{"password"}, Expires: time.Unix(1e9, 0)}, DefaultMethods())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Decode(seal(f.Keys[0], good, time.Unix(1, 0))); err != nil {
		t.Fatal("the control is refused:", err)
	}
	version := func(v byte) []byte { b := slices.Clone(good); b[1] = v; return b }
	for name, data := range map[string][]byte{
		"empty": {}, "no array": {1}, "an unknown version": version(11), "another version": version(2),
		"more bytes": append(slices.Clone(good), 0), "a large array": {0xdd, 0xff, 0xff, 0xff, 0xff}, "cut": good[:len(good)-1],
	} {
		if _, _, err := f.Decode(seal(f.Keys[0], data, time.Unix(1, 0))); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A token of version 1, 2 or 7 whose domain, project or system is empty.
	for _, v := range []byte{1, 2, 7} {
		p := &Payload{UserID: "u", Methods: []string{"password"}, Expires: time.Unix(1e9, 0), DomainID: "x"}
		if v == 2 {
			p.DomainID, p.ProjectID = "", "x"
		} else if v == 7 {
			p.DomainID, p.System = "", "x"
		}
		data, err := pack(p, DefaultMethods())
		if err != nil || data[1] != byte(p.Version()) {
			t.Fatal(data, err)
		}
		if v == 1 {
			number := bytes.Replace(data, []byte{0xa1, 'x'}, []byte{5}, 1)
			if _, _, err := f.Decode(seal(f.Keys[0], number, time.Unix(1, 0))); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "expected an id as 16 bytes or text") {
				t.Error("a number as domain:", err)
			}
		}
		data = bytes.Replace(data, []byte{0xa1, 'x'}, []byte{0xa0}, 1)
		if _, _, err := f.Decode(seal(f.Keys[0], data, time.Unix(1, 0))); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "do not fit version") {
			t.Errorf("version %d without its scope: %v", v, err)
		}
	}
	methods := append([]byte{0x95, 0, 0x92, 0xc2, 0xa1, 'u', 0xcd, 0x01, 0}, good[7:]...)
	if _, _, err := f.Decode(seal(f.Keys[0], methods, time.Unix(1, 0))); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "methods") {
		t.Error("unknown method:", err)
	}
}

// TestSeal encrypts contents of each length up to three blocks.
func TestSeal(t *testing.T) {
	k, at := settings.NewKey(), time.Unix(1_790_000_000, 0).UTC()
	for n := range 3 * 16 {
		want := []byte(strings.Repeat("x", n))
		text := seal(k, want, at.Add(time.Second-1))
		got, issued, err := Open([]settings.Key{settings.NewKey(), k}, text)
		if err != nil || !slices.Equal(got, want) || !issued.Equal(at) {
			t.Errorf("%d bytes: %q of %v, %v", n, got, issued, err)
		}
		if _, _, err := Open([]settings.Key{k}, text+strings.Repeat("=", (4-len(text)%4)%4)); err != nil {
			t.Errorf("%d bytes, with padding: %v", n, err)
		}
	}
}

// TestBounds reads a text, an array and an expiry at their bounds and one above.
func TestBounds(t *testing.T) {
	f, _ := vectors(t)
	for n, want := range map[int]string{8192: "expected a Fernet token", 8193: "at most 8192"} {
		if _, _, err := f.Decode(strings.Repeat("A", n)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d characters: %v, want %q", n, err, want)
		}
	}
	for n, want := range map[int]string{512: "", 513: "expected at most 512"} {
		p := &Payload{UserID: "u", Methods: []string{"mapped"}, Expires: time.Unix(1e9, 0).UTC(), IdentityProvider: "i", Protocol: "p", GroupIDs: make([]string, n)}
		for i := range p.GroupIDs {
			p.GroupIDs[i] = strconv.Itoa(i)
		}
		data, err := pack(p, DefaultMethods())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(data, DefaultMethods()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d groups: %v, want %q", n, err, want)
		}
	}
	for _, x := range []struct {
		seconds int64
		ok      bool
	}{{1<<40 - 1, true}, {1 << 40, false}, {-1 << 36, true}, {-1 << 40, false}} {
		data, err := pack(&Payload{UserID: "u", Methods: []string{"password"}, Expires: time.Unix(x.seconds, 0)}, DefaultMethods())
		if err != nil {
			t.Fatal(err)
		}
		if p, err := unpack(data, DefaultMethods()); (err == nil) != x.ok || err == nil && p.Expires.Unix() != x.seconds {
			t.Errorf("an expiry of %d: %+v, %v", x.seconds, p, err)
		}
	}
}

// TestCutPayloads cuts the content of a token of each version after each byte.
func TestCutPayloads(t *testing.T) {
	f, all := vectors(t)
	for _, v := range all {
		data, _, err := Open(f.Keys, v.Token)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			if p, err := unpack(data[:i], DefaultMethods()); p != nil || !errors.Is(err, ErrInvalid) {
				t.Errorf("%s, cut after %d bytes: %+v, %v", v.Name, i, p, err)
			}
		}
	}
}

// TestFieldsOfOtherTypes replaces each field of a token of each version, and each
// element of its arrays, by values of other types.
func TestFieldsOfOtherTypes(t *testing.T) {
	f, all := vectors(t)
	for _, v := range all {
		data, _, err := Open(f.Keys, v.Token)
		if err != nil {
			t.Fatal(err)
		}
		var fields []any
		if err := msgpack.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		replace := func(what string, in []any, i int) {
			old := in[i]
			defer func() { in[i] = old }()
			for _, value := range []any{map[string]any{}, []any{1, 2, 3}, []any{true, "short"}} {
				in[i] = value
				data, err := msgpack.Marshal(fields)
				if err != nil {
					t.Fatal(err)
				}
				if p, err := unpack(data, DefaultMethods()); p != nil || !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: %v as %s: %+v, %v", v.Name, value, what, p, err)
				}
			}
		}
		for i := range fields {
			replace(fmt.Sprintf("field %d", i), fields, i)
			in, _ := fields[i].([]any)
			for j := range in {
				replace(fmt.Sprintf("element %d of field %d", j, i), in, j)
			}
		}
	}
}

func TestBadInputOfEncode(t *testing.T) {
	f, _ := vectors(t)
	for name, p := range map[string]*Payload{
		"method":                        {UserID: "u", Methods: []string{"magic"}},
		"audit":                         {UserID: "u", Methods: []string{"password"}, AuditIDs: []string{"short"}},
		"an audit id of 3 bytes":        {UserID: "u", Methods: []string{"password"}, AuditIDs: []string{"AAAA"}},
		"an audit id that is no base64": {UserID: "u", Methods: []string{"password"}, AuditIDs: []string{"!"}},
	} {
		if _, err := f.Encode(p, time.Now()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := (&Fernet{}).Encode(&Payload{}, time.Now()); err == nil {
		t.Error("encoded without a key")
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	k := settings.NewKey()
	for _, text := range []string{k.String(), k.GoString()} {
		if text != "[redacted]" {
			t.Error(text)
		}
	}
	for _, text := range []string{"", "secret", k.Encode() + "AAAA"} {
		if _, err := settings.ParseKey(text); err == nil || len(text) > 0 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if again, err := settings.ParseKey(k.Encode() + "\n"); err != nil || again != k {
		t.Error(err)
	}
}

// TestRepository rotates a folder of keys, and checks which tokens are still
// read after each rotation.
func TestRepository(t *testing.T) {
	r := Repository{Folder: filepath.Join(t.TempDir(), "above", "keys")}
	if _, err := r.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Error("loaded a folder that does not exist:", err)
	}
	if primary, removed, err := r.Rotate(); primary != 0 || removed != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rotated a folder that does not exist: %d, %v, %v", primary, removed, err)
	}
	if err := r.Copy(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("copied a folder that does not exist:", err)
	}
	if err := errors.Join(r.Setup(), r.Setup()); err != nil {
		t.Fatal(err)
	}
	if info := must(os.Stat(r.Folder)); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v of the folder", info.Mode())
	}
	for what, f := range map[string]func(Repository) error{"Setup": Repository.Setup, "Copy": func(to Repository) error { return r.Copy(to.Folder) }} {
		file := Repository{Folder: r.file(1)}
		if err := f(file); err == nil {
			t.Errorf("%s in a file instead of a folder: no error", what)
		}
		fresh := Repository{Folder: filepath.Join(t.TempDir(), "above", "keys")}
		if err := f(fresh); err != nil {
			t.Error(what, err)
		}
		if info := must(os.Stat(fresh.Folder)); info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v of the folder", what, info.Mode())
		}
	}
	if err := os.WriteFile(filepath.Join(r.Folder, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	load := func() *Fernet {
		t.Helper()
		keys, err := r.Load()
		if err != nil {
			t.Fatal(err)
		}
		return &Fernet{Keys: keys}
	}
	before := load()
	text, err := before.Encode(&Payload{UserID: "u", Methods: []string{"password"}, Expires: time.Now()}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	wantKeys := []int{3, 3, 3}
	for i, readable := range []bool{true, false, false} {
		staged := load().Keys[len(load().Keys)-1]
		primary, removed, err := r.Rotate()
		if wantRemoved := [][]int{nil, {1}, {2}}[i]; err != nil || primary != i+2 || !slices.Equal(removed, wantRemoved) {
			t.Errorf("rotation %d: primary key %d, removed %v, %v, want %d and %v", i+1, primary, removed, err, i+2, wantRemoved)
		}
		f := load()
		if f.Keys[0] != staged {
			t.Errorf("rotation %d: the staged key is not the primary key", i+1)
		}
		if _, _, err := f.Decode(text); (err == nil) != readable || len(f.Keys) != wantKeys[i] {
			t.Errorf("rotation %d: %d keys, token: %v", i+1, len(f.Keys), err)
		}
	}
	for _, e := range must(os.ReadDir(r.Folder)) {
		if info := must(e.Info()); info.Mode().Perm() != 0o600 || e.Name() != "README" && info.Size() != 44 {
			t.Errorf("%s: mode %v, %d bytes", e.Name(), info.Mode(), info.Size())
		}
	}
	if err := os.WriteFile(filepath.Join(r.Folder, "99"), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(); err == nil || !strings.Contains(err.Error(), "99") {
		t.Error("loaded a file that is no key:", err)
	}
}

func TestRotateNeedsAStagedKey(t *testing.T) {
	r := Repository{Folder: t.TempDir()}
	if _, _, err := r.Rotate(); !errors.Is(err, errNoKeys) {
		t.Error(err)
	}
	if _, err := r.Load(); !errors.Is(err, errNoKeys) {
		t.Error(err)
	}
}

// TestOrderOfKeys loads keys whose numbers have another order as texts.
func TestOrderOfKeys(t *testing.T) {
	r := Repository{Folder: t.TempDir()}
	var want []settings.Key
	for _, n := range []int{11, 10, 9, 2, 0} {
		k := settings.NewKey()
		want = append(want, k)
		if err := os.WriteFile(r.file(n), []byte(k.Encode()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"01", "-1", "1x"} { // no numbers of keys
		if err := os.WriteFile(filepath.Join(r.Folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(r.file(7), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Load(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d keys, %v: want those of 11, 10, 9, 2 and 0", len(got), err)
	}
}

// TestFailedRotation rotates keys where a folder has the name of a file that
// Rotate writes. The keys stay readable.
func TestFailedRotation(t *testing.T) {
	for _, name := range []string{"0.tmp", "2"} {
		r := Repository{Folder: filepath.Join(t.TempDir(), "keys")}
		if err := r.Setup(); err != nil {
			t.Fatal(err)
		}
		before := must(r.Load())
		if err := os.MkdirAll(filepath.Join(r.Folder, name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Rotate(); err == nil || errors.Is(err, errNoKeys) {
			t.Errorf("a folder named %s: %v", name, err)
		}
		if after, err := r.Load(); err != nil || !slices.Equal(after, before) {
			t.Errorf("a folder named %s: %d keys after the failure, %v", name, len(after), err)
		}
	}
}

// TestFewestKeys keeps the primary key and the staged key, whatever ActiveMax is.
func TestFewestKeys(t *testing.T) {
	for most, want := range map[int]int{-1: 2, 1: 2, 2: 2, 3: 3, 4: 4, 0: 3} {
		r := Repository{Folder: t.TempDir(), ActiveMax: most}
		if err := r.Setup(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, _, err := r.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		if keys := must(r.Load()); len(keys) != want {
			t.Errorf("ActiveMax %d: %d keys, want %d", most, len(keys), want)
		}
	}
}

// TestUnreadableKeys uses a folder that contains a link instead of a key file, to a
// file that does not exist. Each function fails, and the folder keeps its content.
func TestUnreadableKeys(t *testing.T) {
	for what, f := range map[string]func(Repository) error{
		"Load":   func(r Repository) error { _, err := r.Load(); return err },
		"Copy":   func(r Repository) error { return r.Copy(t.TempDir()) },
		"add":    func(r Repository) error { return r.add(NumberedKey{1, settings.NewKey()}) },
		"create": func(r Repository) error { return r.create(stagedKey) },
		"Copy over": func(r Repository) error {
			from := Repository{Folder: t.TempDir()}
			return errors.Join(from.Setup(), os.WriteFile(r.file(1), []byte("no key"), 0o600), from.Copy(r.Folder))
		},
	} {
		r := Repository{Folder: t.TempDir()}
		if err := errors.Join(r.Setup(), os.Remove(r.file(1)), os.Symlink(filepath.Join(r.Folder, "missing", "key"), r.file(1))); err != nil {
			t.Fatal(err)
		}
		staged := must(r.read(stagedKey))
		if err := f(r); err == nil {
			t.Errorf("%s of a folder with a broken link: no error", what)
		}
		if after, err := r.read(stagedKey); err != nil || after != staged {
			t.Errorf("%s: the staged key changed: %v", what, err)
		}
	}
}

// TestFilesAreClosed makes, copies, rotates and loads keys. No file of them stays
// open.
func TestFilesAreClosed(t *testing.T) {
	const open = "/proc/self/fd"
	if _, err := os.Stat(open); err != nil {
		t.Skip("the system does not list open files:", err)
	}
	r := Repository{Folder: t.TempDir()}
	if err := errors.Join(r.Setup(), r.Copy(filepath.Join(r.Folder, "copy"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Rotate(); err != nil {
		t.Fatal(err)
	}
	for _, e := range must(os.ReadDir(open)) {
		if path, err := os.Readlink(filepath.Join(open, e.Name())); err == nil && strings.HasPrefix(path, r.Folder) {
			t.Errorf("%s is still open", path)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func FuzzUnpack(f *testing.F) {
	fernet, all := vectors(f)
	for _, v := range all {
		data, _, err := Open(fernet.Keys, v.Token)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := unpack(data, DefaultMethods())
		if err != nil {
			return
		}
		again, err := pack(p, DefaultMethods())
		if err != nil {
			return // for example an audit id of another length
		}
		q, err := unpack(again, DefaultMethods())
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%v\n%+v\n%+v", err, p, q)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	f, all := vectors(b)
	for _, v := range all {
		if v.Version == ProjectScoped {
			b.Run(v.Name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := f.Decode(v.Token); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestMethodsValidate(t *testing.T) {
	most := make(Methods, 64) // one more than allowed
	for i := range most {
		most[i] = "m" + strconv.Itoa(i)
	}
	for _, x := range []struct {
		m  Methods
		ok bool
	}{{nil, true}, {DefaultMethods(), true}, {most[:63], true}, {most, false}, {Methods{"a", "a"}, false}, {Methods{""}, false}} {
		if err := x.m.Validate(); (err == nil) != x.ok {
			t.Errorf("%d methods: %v", len(x.m), err)
		}
	}
	if mask, err := most[:63].mask(most[62:63]); err != nil || mask != 1<<62 {
		t.Error(mask, err)
	}
	if _, err := most.mask(most[63:]); err == nil {
		t.Error("a 64th method has no bit, but is encoded")
	}
	f, _ := vectors(t)
	for _, name := range DefaultMethods() {
		text, err := f.Encode(&Payload{UserID: "u", Methods: []string{name}, Expires: time.Unix(1e9, 0)}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if p, _, err := f.Decode(text); err != nil || !slices.Equal(p.Methods, []string{name}) {
			t.Errorf("method %s: %+v, %v", name, p, err)
		}
	}
}
