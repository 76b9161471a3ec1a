package keystone

import (
	"encoding/json"
	"strconv"

	"github.com/ostiary/ostiary/internal/identity"
)

// object builds a JSON object by appending. The zero object is "{" without
// members. Members come out in the order of the calls.
type object struct {
	buf   []byte
	comma bool // a comma comes before the next member
	// send sends a part of the text, and must not keep it. Nil keeps the whole object
	// in buf.
	send func(part []byte)
}

// partBytes is the size from which a part of a long object is sent, in bytes. The
// server counts larger writes as memory that waits for a slow client.
const partBytes = 12 << 10

// key appends the name of the next member.
func (o *object) key(name string) {
	if o.buf == nil {
		o.buf = append(make([]byte, 0, 512), '{')
	}
	if o.comma {
		o.buf = append(o.buf, ',')
	}
	o.comma = true
	o.buf = append(appendText(o.buf, name), ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.buf = appendText(o.buf, value)
}

// textOrNull appends null for an empty text.
func (o *object) textOrNull(name, value string) {
	if value == "" {
		o.raw(name, []byte("null"))
		return
	}
	o.text(name, value)
}

func (o *object) boolean(name string, value bool) {
	o.key(name)
	o.buf = strconv.AppendBool(o.buf, value)
}

func (o *object) number(name string, value int) {
	o.key(name)
	o.buf = strconv.AppendInt(o.buf, int64(value), 10)
}

// raw appends a value that is JSON.
func (o *object) raw(name string, value []byte) {
	o.key(name)
	o.buf = append(o.buf, value...)
}

// member appends a member of a record, or fallback if the record has none.
func (o *object) member(m identity.Members, name, fallback string) {
	value, ok := m.Get(name)
	if !ok {
		value = json.RawMessage(fallback)
	}
	o.raw(name, value)
}

// members appends members.
func (o *object) members(m identity.Members) {
	for _, x := range m {
		o.raw(x.Name, x.Value)
	}
}

// begin opens a nested object, and end closes it.
func (o *object) begin(name string) {
	o.key(name)
	o.buf, o.comma = append(o.buf, '{'), false
}

func (o *object) end() {
	o.buf, o.comma = append(o.buf, '}'), true
}

// list appends an array whose elements each calls to write, as objects.
func list[T any](o *object, name string, elements []T, each func(*object, T)) {
	o.beginList(name)
	for _, e := range elements {
		o.beginElement()
		each(o, e)
		o.endElement()
	}
	o.endList()
}

// beginList opens an array of objects, and endList closes it.
func (o *object) beginList(name string) {
	o.key(name)
	o.buf, o.comma = append(o.buf, '['), false
}

func (o *object) endList() { o.buf, o.comma = append(o.buf, ']'), true }

// beginElement opens the next object of an array, and endElement closes it.
func (o *object) beginElement() {
	if o.comma {
		o.buf = append(o.buf, ',')
	}
	o.buf, o.comma = append(o.buf, '{'), false
}

func (o *object) endElement() {
	o.buf, o.comma = append(o.buf, '}'), true
	if o.send != nil && len(o.buf) >= partBytes {
		o.send(o.buf)
		o.buf = o.buf[:0]
	}
}

// texts appends an array of texts.
func (o *object) texts(name string, values []string) {
	o.key(name)
	o.buf = append(o.buf, '[')
	for i, v := range values {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = appendText(o.buf, v)
	}
	o.buf = append(o.buf, ']')
}

// links appends the links of a record.
func (o *object) links(self string) {
	o.begin("links")
	o.text("self", self)
	o.end()
}

// bytes closes the outermost object and returns it.
func (o *object) bytes() []byte {
	if o.buf == nil {
		return []byte("{}")
	}
	return append(o.buf, '}')
}

// appendText appends a JSON string. Most texts need no escapes.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			text, _ := json.Marshal(s) // cannot fail for a string
			return append(dst, text...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
