// Package jsonread reads JSON strictly. Names are compared byte by byte. It
// refuses duplicate names in an object, text that is not UTF-8, half a surrogate
// pair, and data after the value. So two programs cannot read the same request
// differently. Its main type is [Reader], which uses no reflection; [Unmarshal]
// reads into structs, [JWT] reads the parts of a token, and [AppendString] writes
// strings. The package never guesses a type, and verifies no signature.
package jsonread

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"
)

// Bounds on a text. One more is refused.
const (
	// DepthMax is how deep objects and arrays may nest by default.
	// [Reader.SetDepthMax] changes it.
	DepthMax = 64
	// MembersMax is how many members an object may have that is read with
	// [Reader.Field].
	MembersMax = 256
)

// ErrSyntax is the kind of every error of this package, for errors.Is: the text
// is not JSON, or has another value than the caller expects.
var ErrSyntax = errors.New("malformed JSON")

// Error is one error in a text, with its position.
type Error struct {
	// Offset is the position in the text, in bytes from its start.
	Offset int
	// Path names the members and items that lead to the position:
	// "subject.id", "evaluations[3]". It is "" at the top level.
	Path string
	// Text is the error, for people.
	Text string
	// Bound names the bound that was exceeded, for example "JSON depth"; "" if none
	// was.
	Bound string
}

// Error returns the path, or the offset where there is no path, and the text.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("at byte %d: %s", e.Offset, e.Text)
	}
	return e.Path + ": " + e.Text
}

// Is reports whether target is [ErrSyntax].
func (e *Error) Is(target error) bool { return target == ErrSyntax }

// Reader reads one JSON value from its beginning to its end. After the first
// error every method returns its zero value, so that a caller needs to ask for
// the error once, with [Reader.End]. The zero Reader reads an empty text. A
// Reader is for one goroutine.
//
//	r := jsonread.New(body)
//	for r.Object(); r.Field(); {
//		switch string(r.Name()) {
//		case "id":
//			id = r.String()
//		default:
//			r.Unknown()
//		}
//	}
//	err := r.End()
type Reader struct {
	b   []byte
	i   int // the next byte to read
	err error

	// frames are the open objects and arrays, and deep those below the first 16,
	// which need no allocation.
	frames   [16]frame
	deep     []frame
	depth    int
	depthMax int // 0 is DepthMax

	// names and moreNames are the names of the open objects, to find duplicates.
	// The first ones need no allocation.
	names     [24]span
	moreNames []span
	named     int

	// copied is a copy of a short text. Every string without escapes is a part of
	// it: one allocation serves all of them.
	copied string
	shared bool // use copied for long texts too
	last   span // of the string that String read last, if it has no escapes
}

// sharedBytesMax is the longest text whose copy strings share by default. A
// string that a caller keeps therefore keeps at most that much memory.
const sharedBytesMax = 4 << 10

// frame is an open object or array.
type frame struct {
	array   bool
	started bool
	count   int32
	names   int32 // how many names belong to the frames around this one
	name    span  // of the current member
}

// span is a part of the text, which is shorter than 2 GiB.
type span struct{ from, to int32 }

// New returns a reader of b, which must not change while it is read. A text of
// 2 GiB or more is an error.
func New(b []byte) *Reader {
	r := &Reader{b: b}
	r.checkLength()
	return r
}

// Reset makes r a reader of b and keeps its memory and its bound on depth.
// Strings are again read as those of a new Reader.
func (r *Reader) Reset(b []byte) {
	r.b, r.i, r.err, r.depth, r.named, r.moreNames, r.copied, r.shared = b, 0, nil, 0, 0, r.moreNames[:0], "", false
	r.last = span{}
	r.checkLength()
}

func (r *Reader) checkLength() {
	if len(r.b) > math.MaxInt32 {
		r.b, r.err = nil, &Error{Text: "2 GiB or more"}
	}
}

// ShareText makes all strings parts of one copy of the text, however long it
// is, until the next [Reader.Reset]. Use it if all strings of the text are
// kept equally long.
func (r *Reader) ShareText() { r.shared = true }

// BorrowText makes strings without escapes parts of the text itself until the
// next [Reader.Reset]: they are valid as long as the text does not change.
func (r *Reader) BorrowText() {
	r.shared, r.copied = true, unsafe.String(unsafe.SliceData(r.b), len(r.b))
}

// SetDepthMax lets objects and arrays nest n deep in the texts that r reads from
// now on. If n is below 1, the bound is [DepthMax].
func (r *Reader) SetDepthMax(n int) { r.depthMax = max(n, 0) }

// Err returns the first error so far.
func (r *Reader) Err() error { return r.err }

// End returns the first error. Data after the value is one.
func (r *Reader) End() error {
	if r.space(); r.err == nil && r.i < len(r.b) {
		r.Fail("unexpected data after the value")
	}
	return r.err
}

// Fail makes r fail at its position with the caller's reason. An earlier error
// stays.
func (r *Reader) Fail(text string) {
	if r.err == nil {
		r.fail(text, "")
	}
}

// FailBound makes r fail at its position because a bound is exceeded. An earlier
// error stays.
func (r *Reader) FailBound(bound string, largest int) {
	if r.err == nil {
		r.fail(fmt.Sprintf("the text exceeds the bound %q: expected at most %d", bound, largest), bound)
	}
}

func (r *Reader) fail(text, bound string) {
	r.err = &Error{Offset: r.i, Path: r.path(), Text: text, Bound: bound}
}

// Unknown makes r fail because of the member that [Reader.Name] names.
func (r *Reader) Unknown() { r.Fail("unknown member") }

// path returns [Error].Path for the position.
func (r *Reader) path() string {
	const nameBytesMax = 64
	var p []byte
	for i := range r.depth {
		f := r.frame(i)
		switch {
		case f.array && f.count > 0:
			p = append(strconv.AppendInt(append(p, '['), int64(f.count-1), 10), ']')
		case !f.array && f.name.to > f.name.from:
			if len(p) > 0 {
				p = append(p, '.')
			}
			p = append(p, bytes.ToValidUTF8(r.b[f.name.from:min(f.name.to, f.name.from+nameBytesMax)], []byte("?"))...)
		}
	}
	return string(p)
}

func (r *Reader) space() {
	for r.i < len(r.b) {
		switch r.b[r.i] {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (r *Reader) peek() byte {
	if r.err != nil {
		return 0
	}
	if r.space(); r.i < len(r.b) {
		return r.b[r.i]
	}
	return 0
}

// Object opens an object. [Reader.Field] or [Reader.Entry] go through its
// members.
func (r *Reader) Object() { r.open('{', "expected an object") }

// Array opens an array. [Reader.Item] goes through its items.
func (r *Reader) Array() { r.open('[', "expected an array") }

func (r *Reader) open(c byte, text string) {
	if r.peek() != c {
		r.Fail(text)
		return
	}
	if !r.push(frame{array: c == '[', names: int32(r.named)}) {
		r.fail("more than "+strconv.Itoa(r.depth)+" nested objects and arrays", "JSON depth")
		return
	}
	r.i++
}

// push opens a frame. It returns false at the bound.
func (r *Reader) push(f frame) bool {
	switch {
	case r.depth == cmp.Or(r.depthMax, DepthMax):
		return false
	case r.depth < len(r.frames):
		r.frames[r.depth] = f
	default:
		r.deep = append(r.deep[:r.depth-len(r.frames)], f)
	}
	r.depth++
	return true
}

// frame returns the frame at a depth, counted from 0.
func (r *Reader) frame(depth int) *frame {
	if depth < len(r.frames) {
		return &r.frames[depth]
	}
	return &r.deep[depth-len(r.frames)]
}

// next goes to the next member or item of the innermost frame. At its end it
// closes the frame and returns false.
func (r *Reader) next(array bool, end byte) bool {
	if r.err != nil || r.depth == 0 || r.frame(r.depth-1).array != array {
		return false
	}
	f := r.frame(r.depth - 1)
	c := r.peek()
	if c == end {
		r.i++
		r.named = int(f.names)
		r.moreNames = r.moreNames[:max(0, min(len(r.moreNames), r.named-len(r.names)))]
		r.depth--
		return false
	}
	if f.started {
		if c != ',' {
			r.Fail("expected a comma or the end of the object or array")
			return false
		}
		r.i++
	}
	f.started = true
	f.count++
	return true
}

// Item reports whether the open array has another item, which the caller reads
// next.
func (r *Reader) Item() bool { return r.next(true, ']') }

// Field reports whether the open object has another member. [Reader.Name]
// returns its name, and the caller reads its value next. A name with escapes is
// refused. Known names contain no escapes, so such a name is unknown, or an
// attempt to hide a known name.
func (r *Reader) Field() bool {
	if !r.next(false, '}') {
		return false
	}
	f := r.frame(r.depth - 1)
	raw, plain := r.text()
	if r.err != nil {
		return false
	}
	if !plain {
		r.Fail("unexpected escape in the name of a member")
		return false
	}
	if f.count > MembersMax {
		r.fail("more than "+strconv.Itoa(MembersMax)+" members", "JSON members")
		return false
	}
	f.name = raw
	for i := int(f.names); i < r.named; i++ {
		n := r.nameAt(i)
		if n.to-n.from == raw.to-raw.from && bytes.Equal(r.b[n.from:n.to], r.b[raw.from:raw.to]) {
			r.Fail("duplicate member")
			return false
		}
	}
	r.addName(raw)
	return r.colon()
}

// Entry is like [Reader.Field] for an object whose names are data. It returns
// the next member's name, which may have escapes. It does not notice duplicates:
// the caller does. ok is false at the end of the object.
func (r *Reader) Entry() (name string, ok bool) {
	if !r.next(false, '}') {
		return "", false
	}
	name = r.String()
	r.frame(r.depth - 1).name = r.last
	return name, r.colon()
}

// colon passes the colon after a name.
func (r *Reader) colon() bool {
	if r.peek() != ':' {
		r.Fail("expected a colon")
		return false
	}
	r.i++
	return true
}

func (r *Reader) nameAt(i int) span {
	if i < len(r.names) {
		return r.names[i]
	}
	return r.moreNames[i-len(r.names)]
}

func (r *Reader) addName(n span) {
	if r.named < len(r.names) {
		r.names[r.named] = n
	} else {
		r.moreNames = append(r.moreNames, n)
	}
	r.named++
}

// Name returns the name of the member that [Reader.Field] went to. It is valid
// as long as the text is.
func (r *Reader) Name() []byte {
	if r.depth == 0 {
		return nil
	}
	n := r.frame(r.depth - 1).name
	return r.b[n.from:n.to]
}
