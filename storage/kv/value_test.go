package kv

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Each parser either rejects bytes with ErrDamaged, or returns a value that is the
// same after writing and parsing it again.
func FuzzValues(f *testing.F) {
	tuple := rel.Tuple{Condition: "c", Context: `{"a":1}`, Expires: 7}
	doc := storage.Document{Secondary: []string{"", "s"}, Body: []byte("body")}
	f.Add(appendTupleValue(nil, &tuple))
	f.Add(appendTupleValue(nil, &rel.Tuple{}))
	f.Add(appendDocumentValue(nil, &doc))
	f.Add(appendBodyValue(nil, &doc))
	f.Add(appendRowHead(nil, 1<<40, -1))
	f.Add(append(make([]byte, 24), appendTexts(nil, []string{"name", "door", "alias"})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		damage := func(err error) bool {
			if err != nil && !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("%x: error %v, want ErrDamaged", b, err)
			}
			return err != nil
		}
		if v, err := parseTupleValue(b); !damage(err) {
			again, err := parseTupleValue(appendTupleValue(nil, &rel.Tuple{Condition: string(v.condition), Context: string(v.context), Expires: v.expires}))
			if err != nil || !bytes.Equal(again.condition, v.condition) || !bytes.Equal(again.context, v.context) || again.expires != v.expires {
				t.Errorf("tuple %x is parsed as %+v, then as %+v, %v", b, v, again, err)
			}
		}
		if secondary, n, err := parseDocumentValue(b); !damage(err) {
			again, m, err := parseDocumentValue(appendDocumentValue(nil, &storage.Document{Secondary: secondary, Body: make([]byte, n)}))
			if err != nil || n != m || !reflect.DeepEqual(again, secondary) {
				t.Errorf("document %x is parsed as %q %d, then as %q %d, %v", b, secondary, n, again, m, err)
			}
		}
		if d, err := parseBodyValue("k", "1", b); !damage(err) {
			again, err := parseBodyValue("k", "1", appendBodyValue(nil, &d))
			if err != nil || !bytes.Equal(again.Body, d.Body) || !reflect.DeepEqual(again.Secondary, d.Secondary) {
				t.Errorf("body %x is parsed as %+v, then as %+v, %v", b, d, again, err)
			}
		}
		if created, at, rest, err := splitRowHead(b); !damage(err) {
			c, a, r, err := splitRowHead(append(appendRowHead(nil, created, at), rest...))
			if err != nil || c != created || a != at || !bytes.Equal(r, rest) {
				t.Errorf("row %x is parsed as %d %d, then as %d %d, %v", b, created, at, c, a, err)
			}
		}
		_, err := parseInfo(storage.StoreID{}, b)
		damage(err)
	})
}
