package pebble

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
)

// parseMarker either rejects a text with a documented error, or returns a marker
// that is the same after writing and reading it.
func FuzzMarker(f *testing.F) {
	write := func(m marker) string {
		fs := vfs.NewMem()
		if err := (folder{fs, ""}).write(m); err != nil {
			f.Fatal(err)
		}
		b, err := fs.UnsafeGetFileDataBuffer(markerName)
		if err != nil {
			f.Fatal(err)
		}
		return string(b)
	}
	f.Add(write(marker{state: closed, witness: "0123"}))
	f.Add(write(marker{state: opened}))
	f.Add(write(marker{state: creating}))
	f.Add("ostiary data folder\nformat 1\nsum 00000000\n")
	f.Add("ostiary data folder\nformat 99\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMarker(text)
		if err != nil {
			if !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrFormat) {
				t.Errorf("marker %q: error %v, want ErrDamaged or ErrFormat", text, err)
			}
			return
		}
		again, err := parseMarker(write(m))
		m.format = folderFormat // write upgrades it
		if err != nil || again != m {
			t.Errorf("marker %q is read as %+v, then as %+v, %v", text, m, again, err)
		}
	})
}
