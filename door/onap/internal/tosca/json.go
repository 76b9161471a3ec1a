package tosca

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// ParseJSON reads a JSON text. It refuses a name that comes twice in an object,
// text that is not UTF-8, data after the value, and more than [DepthMax] levels or
// [ValuesMax] values. Its errors are *[Error] with a place.
func ParseJSON(text []byte) (Value, error) {
	p := jsonParser{text: text, r: jsonread.New(text), line: 1}
	p.r.SetDepthMax(DepthMax)
	p.r.ShareText()
	v := p.value()
	err := p.r.End()
	if p.err != nil {
		return Value{}, p.err
	}
	if e, ok := errors.AsType[*jsonread.Error](err); ok {
		at := p.position(e.Offset)
		text := e.Text
		if e.Path != "" {
			text = e.Path + ": " + text
		}
		return Value{}, &Error{at, text}
	}
	return v, err
}

// jsonParser reads values and finds their places.
type jsonParser struct {
	text   []byte
	r      *jsonread.Reader
	values int
	err    error
	// line is the line at offset seen, and start the offset of its first byte.
	line, start, seen int
}

// position returns the place of an offset. It goes through the text once,
// because offsets only grow; an earlier offset starts again.
func (p *jsonParser) position(offset int) Position {
	if offset < p.seen {
		p.line, p.start, p.seen = 1, 0, 0
	}
	for i := p.seen; i < min(offset, len(p.text)); i++ {
		if p.text[i] == '\n' {
			p.line, p.start = p.line+1, i+1
		}
	}
	p.seen = offset
	return Position{p.line, offset - p.start + 1}
}

// fail records the first error and ends the reading.
func (p *jsonParser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.r.Fail("stopped")
}

// value reads one value.
func (p *jsonParser) value() Value {
	kind := p.r.Kind()
	v := Value{Position: p.position(p.r.Offset())}
	if p.values++; p.values > ValuesMax {
		p.fail(errorAt(v.Position, "more than %d values", ValuesMax))
		return Value{}
	}
	switch kind {
	case '{':
		v.Kind = Map
		p.members(&v)
	case '[':
		v.Kind = List
		for p.r.Array(); p.r.Item(); {
			v.Items = append(v.Items, p.value())
		}
	case '"':
		v.Kind, v.Text = String, p.r.String()
	case 't', 'f':
		v.Kind, v.Text = Bool, "false"
		if p.r.Bool() {
			v.Text = "true"
		}
	case 'n':
		if !p.r.Null() {
			p.r.Fail("expected a JSON value")
		}
	default:
		v.Kind, v.Text = Number, string(p.r.Number())
		if !inRange(v.Text) && p.r.Err() == nil {
			p.fail(errorAt(v.Position, "number %s is out of range: expected a finite number of at most %d bytes", shown(v.Text), NumberBytesMax))
		}
	}
	return v
}

// inRange reports whether a number is short enough and finite.
func inRange(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && len(text) <= NumberBytesMax
}

// members reads the members of an object.
func (p *jsonParser) members(v *Value) {
	p.r.Object()
	names := nameSet{}
	for {
		at := p.position(p.nameOffset())
		name, ok := p.r.Entry()
		if !ok {
			return
		}
		if names.add(name, len(v.Members)) {
			p.fail(errorAt(at, "the member %s comes twice", shown(name)))
			return
		}
		v.Members = append(v.Members, Member{name, p.value(), at})
	}
}

// nameOffset returns the offset of the next name of an object, behind the comma
// before it.
func (p *jsonParser) nameOffset() int {
	if p.r.Kind() != ',' {
		return p.r.Offset()
	}
	rest := p.text[p.r.Offset()+1:]
	return len(p.text) - len(bytes.TrimLeft(rest, " \t\r\n"))
}

// nameSet finds names that come twice. It needs no memory for an object with one
// member.
type nameSet struct {
	first string
	all   map[string]bool
}

// add adds a name, the nth from 0, and reports whether it was there before.
func (s *nameSet) add(name string, n int) (twice bool) {
	if n == 0 {
		s.first = name
		return false
	}
	if s.all == nil {
		s.all = map[string]bool{s.first: true}
	}
	twice = s.all[name]
	s.all[name] = true
	return twice
}
