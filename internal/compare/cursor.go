package compare

import (
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/snapshot"
)

// A cursor of a difference names the later revision, as every cursor does. Its
// position holds the rest: the token of the earlier revision, and the pair of
// object and subject that the page ended with.

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

// appendPosition encodes a position and the token of the earlier revision.
func appendPosition(earlier snapshot.TokenParts, p position) []byte {
	out := earlier.Append(nil)
	out = binary.AppendUvarint(out, uint64(len(p.object)))
	return append(append(out, p.object...), p.subject...)
}

// parsePosition decodes what [appendPosition] returns. Anything else is
// [errs.ErrCursor].
func parsePosition(b []byte) (earlier snapshot.TokenParts, p position, err error) {
	malformed := fmt.Errorf("%w: malformed text", errs.ErrCursor)
	if len(b) < snapshot.TokenBytes {
		return earlier, p, malformed
	}
	earlier, b = snapshot.ParseTokenParts(b), b[snapshot.TokenBytes:]
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return earlier, p, malformed
	}
	b = b[size:]
	return earlier, position{string(b[:n]), string(b[n:]), true}, nil
}
