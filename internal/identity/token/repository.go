package token

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ostiary/ostiary/internal/identity/settings"
)

// Repository is a folder of Fernet keys in Keystone's form: files that are named
// by numbers. Number 0 is the staged key, which becomes the primary key at the
// next rotation. The highest number is the primary key, which makes tokens. All
// keys read tokens.
//
// The keys of a repository may be shared by several servers. A key is staged
// before it makes tokens, so that a server that has not been updated yet can
// still read them. Only one process may change a folder at a time.
type Repository struct {
	// Folder is the path of the folder. Its mode is 0700, and that of its files
	// 0600.
	Folder string
	// ActiveMax is the number of keys that a rotation leaves, at least 1. The
	// default is 3.
	ActiveMax int
}

// errNoKeys is the cause of a failed Load of a folder without keys.
var errNoKeys = errors.New("no Fernet keys")

// stagedKey is the number of the staged key.
const stagedKey = 0

// Setup creates the folder with a staged and a primary key. It does nothing if
// the folder contains keys.
func (r Repository) Setup() error {
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return err
	}
	numbers, err := r.numbers()
	if err != nil || len(numbers) > 0 {
		return err
	}
	return errors.Join(r.create(stagedKey), r.create(1))
}

// NumberedKey is a key with its number.
type NumberedKey struct {
	Number int
	Key    settings.Key
}

// Load reads all keys, the primary key first and the staged key last. It fails
// if there are none, or if a file does not contain a key. Files whose names are
// not numbers are ignored.
func (r Repository) Load() ([]settings.Key, error) {
	numbered, err := r.Numbered()
	if err != nil {
		return nil, err
	}
	keys := make([]settings.Key, len(numbered))
	for i, k := range numbered {
		keys[i] = k.Key
	}
	return keys, nil
}

// Numbered is like Load, with the numbers of the keys.
func (r Repository) Numbered() (keys []NumberedKey, err error) {
	numbers, err := r.numbers()
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(numbers) {
		k, err := r.read(n)
		if err != nil {
			return nil, err
		}
		keys = append(keys, NumberedKey{n, k})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w in %q: expected files that are named by numbers", errNoKeys, r.Folder)
	}
	return keys, nil
}

// Copy copies the keys to another folder, with their numbers. It fails if the
// repository has no keys, or as [Repository.Save].
func (r Repository) Copy(folder string) error {
	keys, err := r.Numbered()
	if err != nil {
		return err
	}
	return Repository{Folder: folder}.Save(keys)
}

// Save creates the folder with some keys. It fails if the folder has a key that is
// not one of them, or another key with the number of one.
func (r Repository) Save(keys []NumberedKey) error {
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return err
	}
	existing, err := r.numbers()
	if err != nil {
		return err
	}
	for _, n := range existing {
		if !slices.ContainsFunc(keys, func(k NumberedKey) bool { return k.Number == n }) {
			return fmt.Errorf("folder %q has other keys, for example %d: expected a new folder", r.Folder, n)
		}
	}
	for _, k := range keys {
		if err := r.add(k); err != nil {
			return err
		}
	}
	return nil
}

// add writes a key, and fails if the folder has another one with the number.
func (r Repository) add(k NumberedKey) error {
	old, err := r.read(k.Number)
	switch {
	case err == nil && old != k.Key:
		return fmt.Errorf("folder %q has another key %d: expected a new folder", r.Folder, k.Number)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return writeKey(r.file(k.Number), k.Key)
}

// Rotate makes the staged key the primary key, stages a new key, and removes the
// oldest keys beyond ActiveMax. It returns the number of the primary key and those
// of the removed keys, whose tokens are no longer valid.
func (r Repository) Rotate() (primary int, removed []int, err error) {
	numbers, err := r.numbers()
	if err != nil {
		return 0, nil, err
	}
	if len(numbers) == 0 || numbers[0] != stagedKey {
		return 0, nil, fmt.Errorf("%w to rotate in %q: expected a file named 0", errNoKeys, r.Folder)
	}
	next := numbers[len(numbers)-1] + 1
	// The new staged key is complete before the old one changes its name, so a
	// failure leaves keys that can be loaded.
	temporary := filepath.Join(r.Folder, "0.tmp")
	if err := writeKey(temporary, settings.NewKey()); err != nil {
		return 0, nil, err
	}
	if err := os.Rename(r.file(stagedKey), r.file(next)); err != nil {
		return 0, nil, err
	}
	if err := os.Rename(temporary, r.file(stagedKey)); err != nil {
		return 0, nil, err
	}
	removed, err = r.purge(append(numbers[1:], next))
	return next, removed, err
}

// purge removes the oldest of the keys that are not staged, and returns their
// numbers.
func (r Repository) purge(numbers []int) (removed []int, err error) {
	keep := cmp.Or(r.ActiveMax, 3) - 1 // without the staged key
	for len(numbers) > max(keep, 1) {
		if err := os.Remove(r.file(numbers[0])); err != nil {
			return removed, err
		}
		removed, numbers = append(removed, numbers[0]), numbers[1:]
	}
	return removed, nil
}

// numbers returns the numbers of the keys in ascending order.
func (r Repository) numbers() (numbers []int, err error) {
	entries, err := os.ReadDir(r.Folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err == nil && n >= 0 && strconv.Itoa(n) == e.Name() && !e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (r Repository) file(n int) string { return filepath.Join(r.Folder, strconv.Itoa(n)) }

func (r Repository) read(n int) (settings.Key, error) {
	text, err := os.ReadFile(r.file(n))
	if err != nil {
		return settings.Key{}, err
	}
	k, err := settings.ParseKey(string(text))
	if err != nil {
		return settings.Key{}, fmt.Errorf("key file %q: %w", r.file(n), err)
	}
	return k, nil
}

// create writes a new key. The file must not exist.
func (r Repository) create(n int) error {
	if _, err := os.Stat(r.file(n)); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fmt.Errorf("key file %q exists", r.file(n)))
	}
	return writeKey(r.file(n), settings.NewKey())
}

// writeKey writes a key durably, without a newline at the end, as Keystone
// does.
func writeKey(path string, k settings.Key) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(k.Encode()); err != nil {
		return err
	}
	return f.Sync()
}
