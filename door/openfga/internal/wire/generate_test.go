package wire

import (
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// generator writes random bodies of a message.
type generator struct {
	rng *rand.Rand
	out []byte
}

func (g *generator) one(of ...string) string { return of[g.rng.IntN(len(of))] }
func (g *generator) chance(n int) bool       { return g.rng.IntN(n) == 0 }

func (g *generator) put(s string) {
	if g.chance(12) {
		s = g.one(" ", "\n", "\t", "\r", "  ") + s
	}
	g.out = append(g.out, s...)
}

// message writes an object of some of the message's fields, now and then one
// twice or one that does not exist.
func (g *generator) message(m protoreflect.MessageDescriptor, depth int) {
	if m.FullName() == "google.protobuf.Struct" {
		g.object(depth)
		return
	}
	if m.FullName() == "google.protobuf.Int32Value" {
		g.put(g.whole())
		return
	}
	g.put("{")
	first := true
	for _, i := range g.rng.Perm(m.Fields().Len()) {
		if g.chance(3) {
			continue
		}
		f := m.Fields().Get(i)
		g.divide(&first)
		g.member(string(f.Name()))
		g.field(f, depth)
		if g.chance(60) {
			g.divide(&first)
			g.member(string(f.Name()))
			g.field(f, depth)
		}
		if g.chance(15) {
			g.divide(&first)
			g.member(g.one("unknown", "User", f.JSONName()+"x", "", "tupleKey", "é"))
			g.any(depth + 1)
		}
	}
	g.put("}")
}

func (g *generator) divide(first *bool) {
	if !*first {
		g.put(",")
	}
	*first = false
}

func (g *generator) member(name string) {
	g.put(g.quoted(name))
	g.put(":")
}

func (g *generator) field(f protoreflect.FieldDescriptor, depth int) {
	switch {
	case g.chance(40):
		g.put("null")
	case g.chance(60):
		g.any(depth + 1)
	case f.IsList():
		g.put("[")
		first := true
		for range g.rng.IntN(4) {
			g.divide(&first)
			g.single(f, depth)
		}
		g.put("]")
	default:
		g.single(f, depth)
	}
}

func (g *generator) single(f protoreflect.FieldDescriptor, depth int) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		g.message(f.Message(), depth+1)
	case protoreflect.BoolKind:
		g.put(g.one("true", "false"))
	case protoreflect.EnumKind:
		g.put(g.one(`"MINIMIZE_LATENCY"`, `"HIGHER_CONSISTENCY"`, `"UNSPECIFIED"`, `"x"`, "100", "1e2", "7", g.whole()))
	default:
		g.put(g.quoted(g.one("user:anne", "group:1#member", "user:*", "viewer", "document:1", "", "é", "😀", "a\"b\\c", "\x00\x1f\x7f", "\u2028", "ignore")))
	}
}

func (g *generator) whole() string {
	return g.one("50", "0", "-1", `"50"`, "5e1", "50.0", "5.5", "1e10", `"1e1"`, "-0", "500e-1", `" 5"`, `"x"`, "2147483647", "2147483648", "0.5e1",
		fmt.Sprintf("%d.%de%d", g.rng.IntN(100), g.rng.IntN(1000)*10, g.rng.IntN(9)-4), fmt.Sprintf("%de-%d", g.rng.IntN(100)*1000, g.rng.IntN(6)))
}

// object writes a context.
func (g *generator) object(depth int) {
	g.put("{")
	first := true
	for range g.rng.IntN(4) {
		g.divide(&first)
		g.member(g.one("a", "b", "c", "x", "", "é", fmt.Sprint(g.rng.IntN(1000))))
		g.any(depth + 1)
	}
	g.put("}")
}

func (g *generator) any(depth int) {
	switch k := g.rng.IntN(8); {
	case k == 0 && depth < 8:
		g.object(depth)
	case k == 1 && depth < 8:
		g.put("[")
		first := true
		for range g.rng.IntN(3) {
			g.divide(&first)
			g.any(depth + 1)
		}
		g.put("]")
	case k < 5:
		g.put(g.one("1", "-1.5", "1e300", "1e-400", "1e400", "0.1", "9007199254740993", "123456789012345678901234567890"))
	default:
		g.put(g.one(`"text"`, `""`, "true", "false", "null", `"NaN"`))
	}
}

// quoted writes a string, some of its characters as escapes.
func (g *generator) quoted(s string) string {
	out := []byte{'"'}
	for _, c := range s {
		switch {
		case c == '"' || c == '\\' || c < ' ' || g.chance(40):
			if c > 0xffff {
				c -= 0x10000
				out = fmt.Appendf(out, `\u%04x\u%04X`, 0xd800+c>>10, 0xdc00+c&0x3ff)
				continue
			}
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, string(c)...)
		}
	}
	return string(append(out, '"'))
}

// damage returns the body, every third time with a byte changed, added, taken
// or doubled.
func (g *generator) damage() []byte {
	if len(g.out) == 0 || !g.chance(3) {
		return g.out
	}
	at := g.rng.IntN(len(g.out))
	const bytes = "{}[]\",:\\ 01-+.eEtfnu\x00\n\xff\x80xé"
	switch b := bytes[g.rng.IntN(len(bytes))]; g.rng.IntN(4) {
	case 0:
		g.out[at] = b
	case 1:
		g.out = append(g.out[:at], append([]byte{b}, g.out[at:]...)...)
	case 2:
		g.out = append(g.out[:at], g.out[at+1:]...)
	default:
		g.out = append(g.out, g.out[at:]...)
	}
	return g.out
}
