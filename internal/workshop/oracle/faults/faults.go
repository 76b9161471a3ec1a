// Package faults holds the seeded faults: small mistakes that an engineer could
// make. The laws of package internal/workshop/oracle must catch those in the evaluator, the graph
// and the storage. The laws of package internal/workshop/oracle/policies must catch those of the
// folder policies, and the tests of each door, of the server, of acp and of identity
// those of the folder doors. The runs of package internal/workshop/sim must catch those of the
// folder nodes.
//
// Each fault is a patch file in this folder. A [Fault] is one such file, read;
// [Fault.Overlay] writes what "go build -overlay" needs to compile the engine
// with the mistake. The product's own sources never contain a fault.
//
// A patch file is named after its fault. It begins with a sentence that
// describes the mistake, followed by one or more edits:
//
//	--- path/of/the/file.go
//	the lines that are replaced
//	+++
//	the lines that replace them
//
// The replaced lines are whole lines and must occur exactly once in the file.
// Several edits of one file apply in order.
//
// TestPatchesCompile fails if a change of the code touches lines that a patch
// replaces. Adjust the patch so that it makes the same mistake in the new code,
// and check it by "make faults FAULT=its-name".
package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Fault is one seeded mistake.
type Fault struct {
	// Name is the patch file's name without its extension.
	Name string
	// Mistake describes the mistake in one sentence.
	Mistake string
	// Edits make the mistake. There is at least one.
	Edits []Edit
}

// Edit replaces some lines of one file.
type Edit struct {
	// File is the file's path, relative to the root of the repository.
	File string
	// Old are the lines to replace, New what replaces them; each line ends with
	// a newline. New may be empty.
	Old, New string
}

// extension ends the name of a patch file.
const extension = ".patch"

// Load reads every patch file of a folder, in the order of their names. It
// fails if a file cannot be read or does not follow the format.
func Load(dir string) ([]Fault, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, err
	}
	var all []Fault
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f.Name = strings.TrimSuffix(filepath.Base(path), extension)
		all = append(all, f)
	}
	return all, nil
}

// parse reads a patch file's text. The fault that it returns has no name.
func parse(text string) (Fault, error) {
	const header, middle = "\n--- ", "+++\n"
	mistake, rest, found := strings.Cut(text, header)
	f := Fault{Mistake: strings.TrimSpace(mistake)}
	if f.Mistake == "" || !found {
		return f, fmt.Errorf("expected a sentence and at least one edit that begins with %q", strings.TrimSpace(header))
	}
	for part := range strings.SplitSeq(rest, header) {
		file, body, _ := strings.Cut(part, "\n")
		before, after, found := strings.Cut(body, middle)
		if before == "" || !found {
			return f, fmt.Errorf("edit of %s: expected lines to replace, then a line %q", file, strings.TrimSpace(middle))
		}
		if after = strings.TrimRight(after, "\n"); after != "" {
			after += "\n"
		}
		f.Edits = append(f.Edits, Edit{strings.TrimSpace(file), before, after})
	}
	return f, nil
}

// Apply returns the patched text of every file that f edits, by path. It fails
// if the lines that an edit replaces do not occur exactly once.
func (f *Fault) Apply(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range f.Edits {
		text, ok := files[e.File]
		if !ok {
			original, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, err
			}
			text = string(original)
		}
		lines := "\n" + text // so that every line follows a newline
		if n := strings.Count(lines, "\n"+e.Old); n != 1 {
			return nil, fmt.Errorf("%s: the lines to replace occur %d times, expected once:\n%s", e.File, n, e.Old)
		}
		files[e.File] = strings.Replace(lines, "\n"+e.Old, "\n"+e.New, 1)[1:]
	}
	return files, nil
}

// Overlay writes the patched files and an overlay for "go build -overlay" into
// dir, and returns the overlay's path. root is the repository's absolute path.
func (f *Fault) Overlay(root, dir string) (string, error) {
	files, err := f.Apply(root)
	if err != nil {
		return "", err
	}
	return WriteOverlay(root, dir, files)
}

// WriteOverlay writes files, by path relative to root, and an overlay for "go
// build -overlay" that replaces them into dir. It returns the overlay's path.
// root is the repository's absolute path.
func WriteOverlay(root, dir string, files map[string]string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range files {
		changed := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, filepath.FromSlash(path))] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}
