package xmlread

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text reads the element that [Reader.Child] went to, and returns its text.
// Comments and processing instructions in it are ignored. A child element is an
// error.
func (r *Reader) Text() string {
	if r.err != nil || len(r.open) == 0 {
		return ""
	}
	if r.empty {
		r.pop()
		return ""
	}
	if n := bytes.IndexByte(r.b[r.i:], '<'); n >= 0 && plain(r.b[r.i:r.i+n]) && r.i+n+1 < len(r.b) && r.b[r.i+n+1] == '/' {
		text := r.part(r.i, r.i+n)
		r.i += n
		r.endTag()
		return text
	}
	text := r.chunk([]byte{})
	if r.err == nil && !r.at("</") {
		r.FailAt(r.i, "unexpected element in the text of element %s", cut(r.qname()))
	}
	if r.err != nil {
		return ""
	}
	r.endTag()
	return string(text)
}

// plain reports whether text is the same after its references are replaced and
// its line ends are normalized.
func plain(text []byte) bool {
	for _, c := range text {
		if c == '&' || c == '\r' || c == ']' {
			return false
		}
	}
	return true
}

// chunk reads text up to the next start tag or end tag. It appends the text to
// dst, unless dst is nil.
func (r *Reader) chunk(dst []byte) []byte {
	for r.err == nil {
		n := bytes.IndexByte(r.b[r.i:], '<')
		if n < 0 {
			r.unfinished()
			return nil
		}
		dst = r.unescape(dst, r.i, r.i+n, false)
		r.i += n
		switch {
		case r.at("<![CDATA["):
			dst = r.section(dst)
		case r.at("<!") || r.at("<?"):
			r.ignorable()
		default:
			return dst
		}
	}
	return nil
}

// section reads a CDATA section.
func (r *Reader) section(dst []byte) []byte {
	from := r.i + len("<![CDATA[")
	n := bytes.Index(r.b[from:], []byte("]]>"))
	if n < 0 {
		r.FailAt(r.i, "expected ]]> at the end of a CDATA section")
		return nil
	}
	r.i = from + n + len("]]>")
	if dst == nil {
		return nil
	}
	return appendLines(dst, r.b[from:from+n])
}

// appendLines appends text with each line end as a line feed (section 2.11).
func appendLines(dst, text []byte) []byte {
	for i, c := range text {
		if c != '\r' {
			dst = append(dst, c)
		} else if i+1 == len(text) || text[i+1] != '\n' {
			dst = append(dst, '\n')
		}
	}
	return dst
}

// unescape appends b[from:to] to dst with its references replaced and its line
// ends normalized. If dst is nil, it only checks the text.
func (r *Reader) unescape(dst []byte, from, to int, attribute bool) []byte {
	text := r.b[from:to]
	if !attribute {
		if n := bytes.Index(text, []byte("]]>")); n >= 0 {
			r.FailAt(from+n, "unexpected ]]> in text")
			return nil
		}
	}
	for len(text) > 0 {
		n := bytes.IndexByte(text, '&')
		part := text
		if n >= 0 {
			part = text[:n]
		}
		if dst != nil {
			start := len(dst)
			dst = appendLines(dst, part)
			if attribute {
				blanks(dst[start:])
			}
		}
		if n < 0 {
			break
		}
		c, length := r.reference(text[n:])
		if length == 0 {
			r.FailAt(to-len(text)+n, "unknown entity or malformed reference %q: expected amp, lt, gt, quot, apos or the number of a character",
				cut(text[n:min(len(text), n+12)]))
			return nil
		}
		if dst != nil {
			dst = utf8.AppendRune(dst, c)
		}
		text = text[n+length:]
	}
	return dst
}

// blanks replaces white space by blanks.
func blanks(text []byte) {
	for i, c := range text {
		if isSpace(c) {
			text[i] = ' '
		}
	}
}

// attributeText returns b[from:to] as the value of an attribute.
func (r *Reader) attributeText(from, to int) string {
	raw := r.b[from:to]
	same := true
	for i, c := range raw {
		if c == '<' {
			r.FailAt(from+i, "unexpected < in the value of an attribute: expected &lt;")
			return ""
		}
		same = same && c != '&' && (c >= ' ')
	}
	if same {
		return r.part(from, to)
	}
	return string(r.unescape(make([]byte, 0, len(raw)), from, to, true))
}

// reference reads a reference at the beginning of text. Its length is 0 if it is
// malformed.
func (r *Reader) reference(text []byte) (c rune, length int) {
	const longest = len("&#x0000010FFFF;")
	end := bytes.IndexByte(text[:min(len(text), longest)], ';')
	if end < 2 {
		return 0, 0
	}
	name := string(text[1:end])
	switch name {
	case "amp":
		return '&', end + 1
	case "lt":
		return '<', end + 1
	case "gt":
		return '>', end + 1
	case "quot":
		return '"', end + 1
	case "apos":
		return '\'', end + 1
	}
	digits, number := strings.CutPrefix(name, "#")
	base := 10
	if number && strings.HasPrefix(digits, "x") {
		digits, base = digits[1:], 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if !number || err != nil || n > utf8.MaxRune || !isCharacter(rune(n)) {
		return 0, 0
	}
	return rune(n), end + 1
}

// AppendText appends text to dst, escaped for the content of an element.
// Characters that XML cannot express become U+FFFD.
func AppendText(dst []byte, text string) []byte { return appendEscaped(dst, text, false) }

// AppendAttribute appends text to dst, escaped for the value of an attribute in
// double quotes. Characters that XML cannot express become U+FFFD.
func AppendAttribute(dst []byte, text string) []byte { return appendEscaped(dst, text, true) }

func appendEscaped(dst []byte, text string, attribute bool) []byte {
	from := 0
	for i := 0; i < len(text); {
		c, n := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(text[i:])
		}
		if with := escape(c, n, attribute); with != "" {
			dst = append(append(dst, text[from:i]...), with...)
			from = i + n
		}
		i += n
	}
	return append(dst, text[from:]...)
}

// escape returns what replaces the character c of n bytes; "" if c may remain.
func escape(c rune, n int, attribute bool) string {
	switch {
	case c == '&':
		return "&amp;"
	case c == '<':
		return "&lt;"
	case c == '>':
		return "&gt;"
	case c == '\r':
		return "&#13;"
	case c == '"' && attribute:
		return "&quot;"
	case c == '\n' && attribute:
		return "&#10;"
	case c == '\t' && attribute:
		return "&#9;"
	case c == utf8.RuneError && n == 1, !isCharacter(c):
		return "\uFFFD"
	}
	return ""
}
