package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestPack packs files: they are in order, have the time and no owner, and two archives of
// the same files are equal.
func TestPack(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	files := []file{{name: "b", mode: 0o755, data: []byte("program")}, {name: "a", mode: 0o644, data: []byte("text")}}
	turned := []file{files[1], files[0]}
	for name, pack := range map[string]func([]file, time.Time) ([]byte, error){"tar": packTarGz, "zip": packZip} {
		one, err := pack(files, at)
		if err != nil {
			t.Fatal(err)
		}
		two, err := pack(turned, at)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: files in another order make another archive: %v", name, err)
		}
		var got []string
		switch name {
		case "tar":
			for _, f := range untar(t, one) {
				got = append(got, f.name)
				if f.header.Uid != 0 || f.header.Gid != 0 || f.header.Uname != "" || !f.header.ModTime.Equal(at) {
					t.Errorf("%s has %+v", f.name, f.header)
				}
			}
		case "zip":
			r, err := zip.NewReader(bytes.NewReader(one), int64(len(one)))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.File {
				got = append(got, f.Name)
				if !f.Modified.Equal(at) {
					t.Errorf("%s has the time %v", f.Name, f.Modified)
				}
			}
		}
		if strings.Join(got, " ") != "a b" {
			t.Errorf("%s has %v", name, got)
		}
	}
}

// packed is a file in a tar.
type packed struct {
	name   string
	header *tar.Header
	data   []byte
}

// untar returns the files of a tar, which may be compressed.
func untar(t *testing.T, data []byte) (out []packed) {
	t.Helper()
	var r io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, packed{h.Name, h, data})
	}
}
