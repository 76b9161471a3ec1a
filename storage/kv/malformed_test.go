package kv_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// withChecksum returns the value of a key: body and its checksum.
func withChecksum(key, body string) string {
	sum := crc32.Checksum([]byte(key+body), crc32.MakeTable(crc32.Castagnoli))
	return string(binary.LittleEndian.AppendUint32([]byte(body), sum))
}

// logTable is the byte of the log in a key, after the area and the id of the store.
const logTable = 'l'

// inTable reports whether a key is in a table of a store.
func inTable(key string, table byte) bool {
	return len(key) > 17 && key[0] == 3 && key[17] == table
}

// malformations returns pairs that no driver writes instead of p, by what is wrong.
// Their checksums are right. The pair without a key means that p is missing.
func malformations(t *testing.T, p pair) map[string]pair {
	t.Helper()
	body := p.value[:len(p.value)-4]
	all := map[string]pair{"missing": {}}
	value := func(what, body string) { all[what] = pair{p.key, withChecksum(p.key, body)} }
	key := func(what, key string) { all[what] = pair{key, withChecksum(key, body)} }
	value("empty", "")
	value("longer", body+"\x00")
	value("high byte first", "\xff"+body)
	if body != "" {
		value("cut", body[:len(body)-1])
	}
	key("longer key", p.key+"x")
	key("cut key", p.key[:len(p.key)-1])
	if !inTable(p.key, logTable) {
		return all
	}
	change := func(what string, do func(e *storage.Entry)) {
		e, err := storage.DecodeEntry([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		do(&e)
		value(what, string(storage.AppendEntry(nil, &e)))
	}
	change("other revision", func(e *storage.Entry) { e.Revision++ })
	change("other incarnation", func(e *storage.Entry) { e.Incarnation[0]++ })
	change("other predecessor", func(e *storage.Entry) { e.Previous[0]++ })
	change("other time", func(e *storage.Entry) { e.Time++ })
	return all
}

// TestMalformed replaces each pair by pairs that no driver writes, with right
// checksums, and compares with a file which calls notice it. A call that returns
// another result instead of an error is in the file, too.
func TestMalformed(t *testing.T) {
	t.Parallel()
	calls := faultCalls()
	delete(calls, "new")
	delete(calls, "close")
	clean, want := newFaultCase(t), map[string]string{}
	for name, one := range calls {
		var err error
		if want[name], err = one.call(t.Context(), newFaultCase(t)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	for _, p := range readAll(t, clean.store.Store) {
		all := malformations(t, p)
		for _, what := range slices.Sorted(maps.Keys(all)) {
			var noticed []string
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				c := newFaultCase(t)
				replace(t, c.store.Store, p.key, all[what])
				got, err := calls[name].call(t.Context(), c)
				if err != nil || got != want[name] {
					noticed = append(noticed, name+noticedAs(err))
				}
			}
			key := strings.Replace(p.key, string(clean.log.ID[:]), "<store>", 1)
			fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%q %s: %s", key, what, strings.Join(noticed, ", "))))
		}
	}
	golden.Equal(t, "testdata/malformed.txt", out.String())
}

// replace replaces the pair of a key.
func replace(t *testing.T, s kv.Store, key string, by pair) {
	t.Helper()
	b := s.Batch()
	defer b.Close()
	err := b.Delete([]byte(key))
	if by.key != "" {
		err = errors.Join(err, b.Set([]byte(by.key), []byte(by.value)))
	}
	if err := errors.Join(err, b.Commit()); err != nil {
		t.Fatal(err)
	}
}

// noticedAs returns what follows the name of a call in the file: how the call noticed
// that a pair is malformed. It is "" for ErrDamaged, the usual error.
func noticedAs(err error) string {
	switch {
	case err == nil:
		return " (other result)"
	case errors.Is(err, storage.ErrDamaged):
		return ""
	case errors.Is(err, storage.ErrFormat):
		return " (format)"
	case errors.Is(err, storage.ErrNoStore):
		return " (no store)"
	case errors.Is(err, storage.ErrNoDocument):
		return " (no document)"
	}
	return fmt.Sprintf(" (%v)", err)
}
