package compare

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// FuzzPosition decodes arbitrary bytes. What is accepted must encode to the same
// position again; anything else must be ErrCursor.
func FuzzPosition(f *testing.F) {
	token, at := authz.TokenParts{Incarnation: storage.Incarnation{1}, Revision: 2}, rel.Time(3)
	for _, p := range []position{{"a", "b", true}, {"a", "", true}, {"a", otherSubjects, true}} {
		encoded := appendPosition(token, at, p)
		if gotToken, gotAt, got, err := parsePosition(encoded); err != nil || got != p || gotToken != token || gotAt != at {
			f.Errorf("%+v reads back as %+v, %+v, %v", p, gotToken, got, err)
		}
		f.Add(encoded)
		f.Add(encoded[:len(encoded)-1])
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		token, at, p, err := parsePosition(encoded)
		if err != nil {
			if !errors.Is(err, authz.ErrCursor) {
				t.Errorf("%q: got error %v, want ErrCursor", encoded, err)
			}
			return
		}
		again := appendPosition(token, at, p)
		if _, _, same, err := parsePosition(again); err != nil || same != p || len(again) > len(encoded) || !bytes.HasSuffix(encoded, []byte(p.subject)) {
			t.Errorf("%q: position %+v reads back as %+v, %v", encoded, p, same, err)
		}
	})
}
