package sharedlogtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

// Certificates makes an authority, ca.crt, and a certificate and a key for each name in a
// folder, which it returns.
func Certificates(t *testing.T, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	put := func(name string, text []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	authority, pair, err := certificate.NewAuthority(now, now.Add(time.Hour))
	put("ca.crt", pair.Certificate, err)
	for _, name := range names {
		pair, err := authority.Issue([]string{name}, now, now.Add(time.Hour))
		put(name+".crt", pair.Certificate, err)
		put(name+".key", pair.Key, err)
	}
	return folder
}
