package storage_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/storage"
)

// An entry without an origin has the bytes of version 1, which older programs wrote.
// Each field of an origin costs its own bytes only.
func TestOriginBytes(t *testing.T) {
	t.Parallel()
	e := sample()[1]
	plain := storage.AppendEntry(nil, &e)
	if plain[0] != 1 {
		t.Errorf("an entry without an origin has version %d, want 1", plain[0])
	}
	for _, c := range []struct {
		origin storage.Origin
		more   int // bytes more than without the origin
	}{
		{storage.Origin{Caller: "local"}, 1 + 1 + 5},
		{storage.Origin{Reason: "x"}, 1 + 1 + 1},
		{storage.Origin{Caller: "anne", Reason: "ticket 7"}, 1 + 1 + 4 + 1 + 8},
		{storage.Origin{Request: storage.RequestID{Node: storage.NodeID{1}, Number: 127}}, 1 + 16 + 1},
		{storage.Origin{Request: storage.RequestID{Number: 1 << 63}}, 1 + 16 + 10},
	} {
		e.Origin = c.origin
		b := storage.AppendEntry(nil, &e)
		if b[0] != 2 || len(b)-len(plain) != c.more {
			t.Errorf("%+v: version %d and %d bytes more, want version 2 and %d bytes more", c.origin, b[0], len(b)-len(plain), c.more)
		}
	}
}

// TestIncarnationOfRequest requires that the incarnation of a new store shows which request
// has created it, and that it is random otherwise.
func TestIncarnationOfRequest(t *testing.T) {
	t.Parallel()
	request := storage.RequestID{Node: storage.NodeID{7, 15: 8}, Number: 300 * storage.RequestWrites}
	all := map[storage.Incarnation]bool{}
	for n := range storage.RequestWrites {
		want := request.Write(n)
		i := want.Incarnation()
		all[i], all[want.Incarnation()] = true, true
		for what, asked := range map[string]storage.RequestID{"the request": request, "a write of it": request.Write(3)} {
			if have, ok := asked.Created(i); have != want || !ok {
				t.Errorf("%s: store %d is that of %v, %t", what, n, have, ok)
			}
		}
	}
	if len(all) != 2*storage.RequestWrites {
		t.Errorf("%d different incarnations, want %d", len(all), 2*storage.RequestWrites)
	}
	i := request.Incarnation()
	for what, other := range map[string]storage.RequestID{
		"another number": {Node: request.Node, Number: request.Number + storage.RequestWrites},
		"another node":   {Node: storage.NodeID{7, 15: 9}, Number: request.Number},
		"none":           {},
	} {
		if have, ok := other.Created(i); ok {
			t.Errorf("%s has created the store, too: %v", what, have)
		}
	}
	if (storage.RequestID{}).Incarnation() == (storage.RequestID{}).Incarnation() {
		t.Error("two incarnations without a request are equal")
	}
	if have, ok := (storage.RequestID{}).Created(storage.RequestID{}.Incarnation()); ok {
		t.Errorf("no request has created a store: %v", have)
	}
}

// Each origin has one canonical form: other flags and empty fields are damage.
func TestOriginHasOneForm(t *testing.T) {
	t.Parallel()
	const at = 1 + 16 + 8 + 32 + 16 + 8 + 8 // the flags
	e := storage.Entry{Revision: 1, Origin: storage.Origin{Caller: "a"}}
	b := storage.AppendEntry(nil, &e)
	if got := b[at:]; !bytes.Equal(got, []byte{1, 1, 'a', 0}) {
		t.Fatalf("the bytes after the time are %x", got)
	}
	none := make([]byte, 16)
	for what, origin := range map[string][]byte{
		"no flag":                    {0},
		"an unknown flag":            {9, 1, 'a'},
		"an empty caller":            {1, 0},
		"an empty reason":            {3, 1, 'a', 0},
		"a request that is zero":     append(append([]byte{4}, none...), 0),
		"a number in a long form":    append(append([]byte{4, 1}, none[1:]...), 0x80, 0),
		"a length in a long form":    {1, 0x81, 0, 'a'},
		"a caller beyond the end":    {1, 9, 'a'},
		"a node that is cut":         {4, 1, 2, 3},
		"a caller without a flag":    {2, 0},
		"flags of every kind, empty": {7},
	} {
		bad := append(append(bytes.Clone(b[:at]), origin...), 0)
		if e, err := storage.DecodeEntry(bad); !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("%s: entry %+v, error %v, want ErrDamaged", what, e, err)
		}
	}
}

// TestOriginBounds checks the limits of an origin, when it is written and read.
func TestOriginBounds(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		what    string
		allowed storage.Origin
		refused storage.Origin
	}{
		{"CallerBytesMax", storage.Origin{Caller: text(storage.CallerBytesMax)}, storage.Origin{Caller: text(storage.CallerBytesMax + 1)}},
		{"ReasonBytesMax", storage.Origin{Reason: text(storage.ReasonBytesMax)}, storage.Origin{Reason: text(storage.ReasonBytesMax + 1)}},
	} {
		allowed, refused := []storage.Entry{{Revision: 1, Origin: c.allowed}}, []storage.Entry{{Revision: 1, Origin: c.refused}}
		if _, err := storage.Chain(storage.Head{}, allowed); err != nil {
			t.Errorf("at %s: %v", c.what, err)
		}
		if _, err := storage.DecodeEntry(storage.AppendEntry(nil, &allowed[0])); err != nil {
			t.Errorf("reading at %s: %v", c.what, err)
		}
		_, err := storage.Chain(storage.Head{}, refused)
		_, reading := storage.DecodeEntry(storage.AppendEntry(nil, &refused[0]))
		for _, err := range []error{err, reading} {
			if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), c.what) {
				t.Errorf("above %s: error %v, want ErrTooLarge with the name of the limit", c.what, err)
			}
		}
		sameSealed(t, "above "+c.what, storage.Head{}, refused)
	}
	for what, origin := range map[string]storage.Origin{
		"a line break":          {Caller: "anne\nroot"},
		"a tab in the reason":   {Reason: "a\tb"},
		"a zero byte":           {Caller: "a\x00"},
		"a C1 control":          {Reason: "a\u0085b"},
		"half a character":      {Reason: "a\xc3"},
		"an escape in a reason": {Caller: "anne", Reason: "\x1b[2J"},
	} {
		entries := []storage.Entry{{Revision: 1, Origin: origin}}
		if _, err := storage.Chain(storage.Head{}, entries); !errors.Is(err, storage.ErrEntry) {
			t.Errorf("%s: error %v, want ErrEntry", what, err)
		}
		sameSealed(t, what, storage.Head{}, entries)
	}
	for _, reason := range []string{"ticket 7", "für Böb", "審査", "a \"quoted\" <text>"} {
		if err := (&storage.Origin{Reason: reason}).Validate(); err != nil {
			t.Errorf("%q: %v", reason, err)
		}
	}
}
