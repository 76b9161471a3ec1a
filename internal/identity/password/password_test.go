package password

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// vector is a hash that Keystone 30.0.0 made.
type vector struct{ Kind, Password, Hash string }

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/keystone.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) < 15 {
		t.Fatal(err, len(all))
	}
	return all
}

func TestKeystonesHashes(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Kind, func(t *testing.T) {
			t.Parallel()
			if ok, err := Verify(v.Password, v.Hash); err != nil || !ok {
				t.Errorf("%q: %v, %v", v.Password, ok, err)
			}
			if ok, err := Verify(v.Password+"x", v.Hash); err != nil || ok {
				t.Errorf("%q: another password: %v, %v", v.Password, ok, err)
			}
			if err := Validate(v.Hash); err != nil {
				t.Errorf("%q: %v", v.Hash, err)
			}
			if Outdated(v.Hash, 4) != (v.Kind != "bcrypt") || !Outdated(v.Hash, 5) {
				t.Error("outdated is wrong")
			}
		})
	}
}

// TestForm checks that hashes have the same form if they differ in their salts alone, and
// another one if their algorithms or parameters differ.
func TestForm(t *testing.T) {
	for hash, want := range map[string]string{
		"$2b$04$aaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "2$04", "$2a$04$b": "2$04", "$2y$12$b": "2$12",
		"$bcrypt-sha256$v=2,t=2b,r=12$salt$digest": "bcrypt-sha256$v=2,t=2b,r=12",
		"$scrypt$ln=16,r=8,p=1$salt$digest":        "scrypt$ln=16,r=8,p=1",
		"$pbkdf2-sha512$25000$salt$digest":         "pbkdf2-sha512$25000",
		"text":                                     "text",
	} {
		if got := Form(hash); got != want {
			t.Errorf("%q: %q, expected %q", hash, got, want)
		}
	}
}

// TestAlteredHash changes each character of each hash. None of the results may
// accept the password, except that the last character of a base64 text has
// unused bits.
func TestAlteredHash(t *testing.T) {
	for _, v := range vectors(t)[:5] {
		for i := range v.Hash {
			for _, c := range []byte{'$', '=', 'A', '7', 0} {
				altered := []byte(v.Hash)
				if altered[i] == c {
					continue
				}
				altered[i] = c
				ok, err := Verify(v.Password, string(altered))
				unused := i == len(v.Hash)-1 || v.Hash[i+1] == '$' || v.Kind == "bcrypt" && i == len("$2b$04$")+21
				if ok && err == nil && !unused {
					t.Errorf("%s: character %d changed to %q: accepted", v.Kind, i, c)
				}
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	salt := "$AAAAAAAAAAAAAAAAAAAAAA"
	digest := "$" + strings.Repeat("A", 43)
	for _, hash := range []string{
		"", "plain", "$1$abc", "$2b$", "$2x$04$" + strings.Repeat("a", 53), "$2b$18$" + strings.Repeat("a", 53),
		"$bcrypt-sha256$", "$bcrypt-sha256$v=1,t=2b,r=4" + salt + digest, "$bcrypt-sha256$v=2,t=2b,r=99" + salt + digest,
		"$scrypt$ln=25,r=8,p=1" + salt + digest, "$scrypt$ln=20,r=8,p=1" + salt + digest, "$scrypt$ln=4,r=8,p=17" + salt + digest,
		"$scrypt$ln=4,r=8,p=1" + salt + "$AAAA", "$scrypt$ln=4,r=8,p=1" + salt + "$!" + digest, "$scrypt$ln=4,r=8,p=1" + salt,
		"$pbkdf2-sha512$5000001" + salt + digest, "$pbkdf2-sha512$0" + salt + digest, "$pbkdf2-sha512$1" + salt, "$pbkdf2-sha512$1$" + salt + "$",
	} {
		ok, err := Verify("secret", hash)
		if ok || !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, %v", hash, ok, err)
		}
		if err := Validate(hash); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q is valid: %v", hash, err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "AAAAAAAA")) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// TestBounds verifies hashes whose parameters are at a bound or one above. A hash at
// a bound fails because of a later part, or does not fit.
func TestBounds(t *testing.T) {
	salt := "$AAAAAAAAAAAAAAAAAAAAAA"
	digest := func(bytes int) string { return "$" + base64.RawStdEncoding.EncodeToString(make([]byte, bytes)) }
	for hash, want := range map[string]string{
		"$scrypt$ln=1,r=1,p=16" + salt + digest(16):        "",
		"$scrypt$ln=1,r=1,p=17" + salt + digest(16):        "expected 1 to 16",
		"$scrypt$ln=1,r=1024,p=1" + salt + digest(16):      "",
		"$scrypt$ln=1,r=1025,p=1" + salt + digest(16):      "expected 1 to 1024",
		"$scrypt$ln=0,r=1,p=1" + salt + digest(16):         "expected 1 to 24",
		"$scrypt$ln=18,r=8,p=1" + salt + digest(15):        "salt and digest", // 256 MiB
		"$scrypt$ln=15,r=65,p=1" + salt + digest(16):       "at most 268435456 are allowed",
		"$scrypt$ln=1,r=1,p=1" + salt + digest(15):         "a digest of 16 to 128 bytes",
		"$scrypt$ln=1,r=1,p=1" + salt + digest(128):        "",
		"$scrypt$ln=1,r=1,p=1" + salt + digest(129):        "a digest of 16 to 128 bytes",
		"$pbkdf2-sha512$1" + salt + digest(16):             "",
		"$pbkdf2-sha512$5000000" + salt + digest(15):       "a digest of 16 to 128 bytes",
		"$pbkdf2-sha512$5000001" + salt + digest(16):       "expected 1 to 5000000",
		"$2b$18$" + strings.Repeat("a", 53):                "with at most 17 rounds",
		"$bcrypt-sha256$v=2,t=2b,r=18" + salt + digest(23): "expected 1 to 17",
		"$bcrypt-sha256$v=2,t=2c,r=4" + salt + digest(23):  "type 2a or 2b",
		"$bcrypt-sha256$v=3,t=2b,r=4" + salt + digest(23):  "version 2",
	} {
		ok, err := Verify("secret", hash)
		if ok || (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v, want %q", hash, ok, err, want)
		}
	}
}

func TestHash(t *testing.T) {
	longest := strings.Repeat("é", BytesMax/2)
	for _, password := range []string{"", "secret", "nul\x00byte", longest} {
		hash, err := Hash(password, RoundsMin)
		if err != nil || !strings.HasPrefix(hash, "$2b$04$") || len(hash) != 60 {
			t.Fatalf("%q: %q, %v", password, hash, err)
		}
		if ok, err := Verify(password, hash); !ok || err != nil {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
		if other, _ := Hash(password, RoundsMin); other == hash {
			t.Error("two hashes with the same salt")
		}
	}
	if _, err := Hash(longest+"x", RoundsMin); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	for _, rounds := range []int{RoundsMin - 1, RoundsMax + 1} {
		if _, err := Hash("secret", rounds); err == nil {
			t.Errorf("accepted %d rounds", rounds)
		}
	}
}

// TestImportedLongPassword logs in with a password that Keystone cut at 72 bytes.
func TestImportedLongPassword(t *testing.T) {
	hash, err := Hash(strings.Repeat("a", BytesMax), RoundsMin)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := Verify(strings.Repeat("a", 100), hash); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, _ := Verify(strings.Repeat("a", BytesMax-1), hash); ok {
		t.Error("accepted a shorter password")
	}
}

func FuzzVerify(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Hash)
	}
	f.Fuzz(func(t *testing.T, hash string) {
		if strings.Contains(hash, "pbkdf2") || strings.Contains(hash, "scrypt") {
			t.Skip("the bounds allow hashes of seconds")
		}
		if _, rounds, _ := strings.Cut(hash, "r="); len(hash) > 6 && (hash[4:6] > "06" || rounds > "6") {
			t.Skip("the bounds allow hashes of seconds")
		}
		_, _ = Verify("secret", hash)
	})
}

func BenchmarkVerify(b *testing.B) {
	hash, err := Hash("secret", RoundsDefault)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if ok, err := Verify("secret", hash); !ok || err != nil {
			b.Fatal(err)
		}
	}
}
