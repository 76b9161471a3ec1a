package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive, or a folder if its name ends with a slash.
type file struct {
	name string
	mode fs.FileMode
	user int // and group
	data []byte
}

// archived makes the archive of a program for its system in the folder dir, and returns its
// name.
func archived(s *source, b *built, p *pages, dir string) (string, error) {
	base := strings.Join([]string{"ostiary", s.version, b.system, b.processor}, "-")
	files, err := archiveFiles(s, b, p)
	if err != nil {
		return "", err
	}
	for i := range files {
		files[i].name = path.Join(base, files[i].name)
	}
	pack, name := packTarGz, base+".tar.gz"
	if b.system == "windows" {
		pack, name = packZip, base+".zip"
	}
	data, err := pack(files, s.date)
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(dir, name), data, 0o644)
}

// units are the units of systemd, in packaging/files.
var units = [...]string{"ostiary.service", "ostiary-backup.service", "ostiary-backup.timer"}

// archiveFiles returns the files of the archive of a program.
func archiveFiles(s *source, b *built, p *pages) ([]file, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	files := []file{{name: b.exe(), mode: 0o755, data: program}, {name: "CHANGELOG.md", data: []byte(s.notes)}}
	fromTree := []string{"LICENSE"}
	if b.system == "linux" {
		fromTree = append(fromTree, "packaging/files/ostiary.yaml")
		for _, unit := range units {
			fromTree = append(fromTree, "packaging/files/"+unit)
		}
	}
	for _, name := range fromTree {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: data})
	}
	pages, err := handbook(s)
	if err != nil {
		return nil, err
	}
	files = append(files, pages...)
	for _, kind := range []struct {
		folder string
		files  map[string][]byte
	}{{"completions/bash", p.bash}, {"completions/zsh", p.zsh}, {"completions/fish", p.fish}, {"completions/powershell", p.powershell}, {"man/man1", p.manual}} {
		for _, name := range names(kind.files) {
			files = append(files, file{name: path.Join(kind.folder, name), data: kind.files[name]})
		}
	}
	for i := range files {
		if files[i].mode == 0 {
			files[i].mode = 0o644
		}
	}
	return files, nil
}

// packTar returns a tar of files, in the order of their names, each with the time at.
func packTar(files []file, at time.Time) ([]byte, error) {
	files = sorted(files)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Uid: f.user, Gid: f.user, Size: int64(len(f.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// packTarGz returns a compressed tar.
func packTarGz(files []file, at time.Time) ([]byte, error) {
	data, err := packTar(files, at)
	if err != nil {
		return nil, err
	}
	return compressed(data)
}

// compressed returns data in the form of gzip, without a time and a name.
func compressed(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// packZip returns a zip of files, in the order of their names, each with the time at.
func packZip(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// sorted returns files in the order of their names.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}
