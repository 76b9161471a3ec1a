package compare

import (
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
)

// A cursor of a difference names the later revision, as every cursor does. Its
// position holds the rest: the token of the earlier revision, the time at which it is
// asked, and the pair of object and subject that the page ended with.

// position is where a page ends, in the order of changes: after the subject of the
// object, or after all subjects of the object if subject is "". The zero position
// is before the first object.
type position struct {
	object, subject string // ids
	set             bool
}

// otherSubjects takes the place of a subject's id in a position, for the change of
// all subjects that no tuple names. No id contains "#".
const otherSubjects = "#"

// compareIDs orders ids as lists do.
func compareIDs(a, b string) int { return eval.PositionOf(a).Compare(eval.PositionOf(b)) }

// appendPosition encodes a position, and the token and the time of the earlier
// revision.
func appendPosition(earlier authz.TokenParts, at rel.Time, p position) []byte {
	out := binary.BigEndian.AppendUint64(earlier.Append(nil), uint64(at))
	out = binary.AppendUvarint(out, uint64(len(p.object)))
	return append(append(out, p.object...), p.subject...)
}

// parsePosition decodes what [appendPosition] returns. Anything else is
// [authz.ErrCursor].
func parsePosition(b []byte) (earlier authz.TokenParts, at rel.Time, p position, err error) {
	malformed := fmt.Errorf("%w: malformed text", authz.ErrCursor)
	if len(b) < authz.TokenBytes+8 {
		return earlier, 0, p, malformed
	}
	earlier, b = authz.ParseTokenParts(b), b[authz.TokenBytes:]
	at, b = rel.Time(binary.BigEndian.Uint64(b)), b[8:]
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return earlier, 0, p, malformed
	}
	b = b[size:]
	return earlier, at, position{string(b[:n]), string(b[n:]), true}, nil
}
