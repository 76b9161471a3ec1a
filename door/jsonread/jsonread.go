// Package jsonread reads JSON where it stands, strictly and in one way: names
// are compared byte by byte, a name that comes twice is refused, and so are
// text that is no UTF-8, half a surrogate pair, and anything behind the value.
// Two readers of one request then cannot understand two things. Its main type
// is Reader. It never uses reflection and never guesses a type.
package jsonread

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Bounds of a text. One more is refused.
const (
	// DepthMax is how deep objects and arrays may lie in each other.
	DepthMax = 64
	// MembersMax is how many members an object may have that is read with Field.
	MembersMax = 256
)

// ErrSyntax is the kind of every error: the text is no JSON, or not what was
// asked for at that place.
var ErrSyntax = errors.New("malformed JSON")

// Error says what is wrong and where.
type Error struct {
	// Offset is the place in bytes, Path the members and items that lead there:
	// "subject.id", "evaluations[3]".
	Offset int
	Path   string
	Text   string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("at byte %d: %s", e.Offset, e.Text)
	}
	return e.Path + ": " + e.Text
}

// Is makes an Error an ErrSyntax.
func (e *Error) Is(target error) bool { return target == ErrSyntax }

// Reader reads one JSON value from its beginning to its end. After the first
// error every method returns its zero value, so that a caller asks for the
// error once, at End. The zero Reader reads an empty text.
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
	b      []byte
	i      int
	err    error
	frames [DepthMax]frame
	deep   []frame // the frames below DepthMax, where depthMax admits them
	depth  int
	// depthMax is how deep objects and arrays may nest; 0 is DepthMax.
	depthMax int
	// few and more are the names of the open objects, to find one that comes
	// twice: the first ones without memory of their own.
	few   [24]span
	more  []span
	named int
	// all is a copy of a short text, which every string without escapes is a part
	// of: one allocation for all of them.
	all    string
	shared bool
	last   span // of the string that String read last, if it has no escapes
}

// allBytesMax is the longest text that strings are parts of: a string that is
// kept keeps no more than that.
const allBytesMax = 4 << 10

// frame is an open object or array.
type frame struct {
	array   bool
	started bool
	count   int32
	names   int32 // how many names are of the frames around it
	name    span
}

// span is a part of the text, which is shorter than 2 GiB.
type span struct{ from, to int32 }

// New returns a reader of b, which must not change while it is read, and has
// less than 2 GiB.
func New(b []byte) *Reader {
	r := &Reader{b: b}
	r.check()
	return r
}

// Reset makes r a reader of b, keeping its memory.
func (r *Reader) Reset(b []byte) {
	r.b, r.i, r.err, r.depth, r.named, r.more, r.all, r.shared = b, 0, nil, 0, 0, r.more[:0], "", false
	r.last = span{}
	r.check()
}

// SetDepthMax lets objects and arrays nest n deep in the texts that r reads from
// now on. Below 1 it is [DepthMax].
func (r *Reader) SetDepthMax(n int) { r.depthMax = n }

// frame returns the frame of the object or array at a depth, counted from 0.
func (r *Reader) frame(depth int) *frame {
	if depth < len(r.frames) {
		return &r.frames[depth]
	}
	return &r.deep[depth-len(r.frames)]
}

// push opens a frame, false at the bound.
func (r *Reader) push(f frame) bool {
	switch {
	case r.depth == cmp.Or(max(r.depthMax, 0), DepthMax):
		return false
	case r.depth < len(r.frames):
		r.frames[r.depth] = f
	default:
		r.deep = append(r.deep[:r.depth-len(r.frames)], f)
	}
	r.depth++
	return true
}

// ShareText makes all strings parts of one copy of the text, however long it
// is, until the next Reset: for who keeps none of them.
func (r *Reader) ShareText() { r.shared = true }

func (r *Reader) check() {
	if len(r.b) > math.MaxInt32 {
		r.b, r.err = nil, &Error{Text: "2 GiB or more"}
	}
}

// Err returns the first error so far.
func (r *Reader) Err() error { return r.err }

// End returns the first error; text behind the value is one.
func (r *Reader) End() error {
	if r.space(); r.err == nil && r.i < len(r.b) {
		r.Fail("something stands behind the value")
	}
	return r.err
}

// Fail makes r fail at this place, with a reason of the caller's.
func (r *Reader) Fail(text string) {
	if r.err == nil {
		r.err = &Error{r.i, r.path(), text}
	}
}

// Unknown fails because of the member that Name names.
func (r *Reader) Unknown() { r.Fail("unknown member") }

func (r *Reader) path() string {
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
			p = append(p, bytes.ToValidUTF8(r.b[f.name.from:min(f.name.to, f.name.from+64)], []byte("?"))...)
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

// peek returns the next byte that is no white space, 0 at the end.
func (r *Reader) peek() byte {
	if r.err != nil {
		return 0
	}
	if r.space(); r.i < len(r.b) {
		return r.b[r.i]
	}
	return 0
}

// Object opens an object, whose members Field goes through.
func (r *Reader) Object() { r.open('{', "an object is wanted") }

// Array opens an array, whose items Item goes through.
func (r *Reader) Array() { r.open('[', "an array is wanted") }

func (r *Reader) open(c byte, text string) {
	if r.peek() != c {
		r.Fail(text)
		return
	}
	if !r.push(frame{array: c == '[', names: int32(r.named)}) {
		r.Fail("more than " + strconv.Itoa(r.depth) + " objects and arrays in each other")
		return
	}
	r.i++
}

// next goes to the next member or item of the open frame, false at its end.
func (r *Reader) next(array bool, end byte) bool {
	if r.err != nil || r.depth == 0 || r.frame(r.depth-1).array != array {
		return false
	}
	f := r.frame(r.depth - 1)
	c := r.peek()
	if c == end {
		r.i++
		r.named = int(f.names)
		r.more = r.more[:max(0, min(len(r.more), r.named-len(r.few)))]
		r.depth--
		return false
	}
	if f.started {
		if c != ',' {
			r.Fail("a comma or the end is wanted")
			return false
		}
		r.i++
	}
	f.started = true
	f.count++
	return true
}

// Item says whether the open array goes on; then its next item is to be read.
func (r *Reader) Item() bool { return r.next(true, ']') }

// Field says whether the open object goes on; then Name is its next member's
// and its value is to be read.
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
		// Known names need no escapes; what has them is another name or a trick.
		r.Fail("a member's name with escapes")
		return false
	}
	if f.count > MembersMax {
		r.Fail("more than " + strconv.Itoa(MembersMax) + " members")
		return false
	}
	for i := int(f.names); i < r.named; i++ {
		n := r.nameAt(i)
		if bytes.Equal(r.b[n.from:n.to], r.b[raw.from:raw.to]) {
			f.name = raw
			r.Fail("comes twice")
			return false
		}
	}
	r.addName(raw)
	f.name = raw
	if r.peek() != ':' {
		r.Fail("a colon is wanted")
		return false
	}
	r.i++
	return true
}

// Entry is like Field for an object whose names are data. It returns the next
// member's name, which may hold escapes, and does not notice a name that comes
// twice: the caller does.
func (r *Reader) Entry() (name string, ok bool) {
	if !r.next(false, '}') {
		return "", false
	}
	name = r.String()
	if r.peek() != ':' {
		r.Fail("a colon is wanted")
		return "", false
	}
	r.frame(r.depth - 1).name = r.last
	r.i++
	return name, true
}

func (r *Reader) nameAt(i int) span {
	if i < len(r.few) {
		return r.few[i]
	}
	return r.more[i-len(r.few)]
}

func (r *Reader) addName(n span) {
	if r.named < len(r.few) {
		r.few[r.named] = n
	} else {
		r.more = append(r.more, n)
	}
	r.named++
}

// Name is the member's that Field came to, valid as long as the text is.
func (r *Reader) Name() []byte {
	if r.depth == 0 {
		return nil
	}
	n := r.frame(r.depth - 1).name
	return r.b[n.from:n.to]
}

// text passes a string and returns the place of what is between its quotes,
// and whether that is the string itself, without escapes.
func (r *Reader) text() (raw span, plain bool) {
	if r.peek() != '"' {
		r.Fail("a string is wanted")
		return span{}, false
	}
	r.i++
	from, plain, ascii := int32(r.i), true, true
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c == '"':
			raw = span{from, int32(r.i)}
			if !ascii && !utf8.Valid(r.b[raw.from:raw.to]) {
				r.Fail("text that is no UTF-8")
				return span{}, false
			}
			r.i++
			return raw, plain
		case c == '\\':
			plain = false
			r.i += 2
		case c < ' ':
			r.Fail("a control character in a string")
			return span{}, false
		default:
			if c >= utf8.RuneSelf {
				ascii = false
			}
			r.i++
		}
	}
	r.i = len(r.b)
	r.Fail("a string without end")
	return span{}, false
}

// AtString reports whether the next value is a string.
func (r *Reader) AtString() bool { return r.peek() == '"' }

// String reads a string.
func (r *Reader) String() string {
	raw, plain := r.text()
	r.last = span{}
	switch {
	case r.err != nil:
		return ""
	case !plain:
		return r.unescape(raw)
	}
	r.last = raw
	return r.part(raw)
}

// part is the text at a place.
func (r *Reader) part(p span) string {
	switch {
	case p.from == p.to:
		return ""
	case len(r.b) > allBytesMax && !r.shared:
		return string(r.b[p.from:p.to])
	}
	if r.all == "" {
		r.all = string(r.b)
	}
	return r.all[p.from:p.to]
}

// StringLike reads a string, and returns known itself where it is the same: a
// list of things that resemble each other then takes no memory for each name.
func (r *Reader) StringLike(known string) string {
	raw, plain := r.text()
	if r.err == nil && !plain {
		return r.unescape(raw)
	}
	if text := r.b[raw.from:raw.to]; string(text) != known {
		return string(text)
	}
	return known
}

func (r *Reader) unescape(raw span) string {
	in := r.b[raw.from:raw.to]
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if in[i] != '\\' {
			out = append(out, in[i])
			i++
			continue
		}
		c, n := rune(-1), 2
		switch in[i+1] {
		case '"', '\\', '/':
			c = rune(in[i+1])
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			c, n = escaped(in[i:])
		}
		if c < 0 {
			r.Fail("a malformed escape")
			return ""
		}
		out = utf8.AppendRune(out, c)
		i += n
	}
	return string(out)
}

// escaped reads \u and its four digits, or two of them that are a pair; -1 is
// neither.
func escaped(in []byte) (rune, int) {
	c, ok := hex4(in)
	switch {
	case !ok || c >= 0xDC00 && c < 0xE000:
		return -1, 0
	case c < 0xD800 || c >= 0xE000:
		return c, 6
	}
	low, ok := hex4(in[6:])
	if !ok || low < 0xDC00 || low >= 0xE000 {
		return -1, 0
	}
	return 0x10000 + (c-0xD800)<<10 + (low - 0xDC00), 12
}

func hex4(in []byte) (rune, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	c := rune(0)
	for _, h := range in[2:6] {
		switch {
		case h >= '0' && h <= '9':
			h -= '0'
		case h >= 'a' && h <= 'f':
			h -= 'a' - 10
		case h >= 'A' && h <= 'F':
			h -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(h)
	}
	return c, true
}

func (r *Reader) word(w string) bool {
	if r.err == nil && bytes.HasPrefix(r.b[r.i:], []byte(w)) {
		r.i += len(w)
		return true
	}
	return false
}

// Null passes a null and says whether there was one.
func (r *Reader) Null() bool { return r.peek() == 'n' && r.word("null") }

// Bool reads true or false.
func (r *Reader) Bool() bool {
	r.peek()
	if r.word("true") {
		return true
	}
	if !r.word("false") {
		r.Fail("true or false is wanted")
	}
	return false
}

// number passes a number and returns its text.
func (r *Reader) number() []byte {
	r.peek()
	from, i := r.i, r.i
	digits := func() bool {
		start := i
		for i < len(r.b) && r.b[i] >= '0' && r.b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(r.b) && r.b[i] == '-' {
		i++
	}
	zero := i < len(r.b) && r.b[i] == '0'
	start := i
	ok := digits() && (!zero || i == start+1)
	if ok && i < len(r.b) && r.b[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(r.b) && (r.b[i] == 'e' || r.b[i] == 'E') {
		if i++; i < len(r.b) && (r.b[i] == '+' || r.b[i] == '-') {
			i++
		}
		ok = digits()
	}
	if !ok || r.err != nil {
		r.Fail("a number is wanted")
		return nil
	}
	r.i = i
	return r.b[from:i]
}

// Int reads a whole number from low to high. It may be written with a fraction
// or an exponent, as long as it is whole.
func (r *Reader) Int(low, high int64) int64 {
	text := string(r.number())
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			r.Fail("a whole number is wanted")
			return 0
		}
		n = int64(f)
	}
	if n < low || n > high {
		r.Fail("a number from " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10) + " is wanted")
		return 0
	}
	return n
}

// Value reads any value: nil, bool, json.Number, string, []any or
// map[string]any.
func (r *Reader) Value() any {
	switch r.peek() {
	case '{':
		return r.values()
	case '[':
		list := []any{}
		for r.Array(); r.Item(); {
			list = append(list, r.Value())
		}
		return list
	case '"':
		return r.String()
	case 't', 'f':
		return r.Bool()
	case 'n':
		if r.Null() {
			return nil
		}
	default:
		if n := r.number(); r.err == nil {
			return json.Number(n)
		}
	}
	r.Fail("no JSON value")
	return nil
}

// Values reads an object whose names are data: they may hold escapes.
func (r *Reader) Values() map[string]any {
	if r.peek() != '{' {
		r.Fail("an object is wanted")
		return nil
	}
	return r.values()
}

func (r *Reader) values() map[string]any {
	out := map[string]any{}
	r.Object()
	for name, ok := r.Entry(); ok; name, ok = r.Entry() {
		if _, twice := out[name]; twice {
			r.Fail("a member comes twice")
		}
		out[name] = r.Value()
	}
	return out
}

// Skip passes a value of any kind, checking it.
func (r *Reader) Skip() {
	switch r.peek() {
	case '{':
		r.values()
	case '[':
		for r.Array(); r.Item(); {
			r.Skip()
		}
	case '"':
		if raw, plain := r.text(); !plain && r.err == nil {
			r.unescape(raw)
		}
	default:
		r.Value()
	}
}

// Discard passes a value of any kind like Skip, but checks its syntax only: a
// name may come twice in an object. It serves protocols that ignore what they
// do not know.
func (r *Reader) Discard() {
	switch r.peek() {
	case '{':
		r.Object()
		for _, ok := r.Entry(); ok; _, ok = r.Entry() {
			r.Discard()
		}
	case '[':
		for r.Array(); r.Item(); {
			r.Discard()
		}
	default:
		r.Skip()
	}
}

// Raw passes a value and returns its text, a part of the one that is read.
func (r *Reader) Raw() []byte {
	r.peek()
	from := r.i
	if r.Skip(); r.err != nil {
		return nil
	}
	return r.b[from:r.i]
}

// Strings reads an array of strings.
func (r *Reader) Strings() []string {
	out := []string{}
	for r.Array(); r.Item(); {
		out = append(out, r.String())
	}
	return out
}

// Nesting returns how deep objects and arrays nest in a text, counting up to
// limit+1. It takes the text for JSON without checking it.
func Nesting(text []byte, limit int) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text) && deepest <= limit; i++ {
		switch c := text[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
