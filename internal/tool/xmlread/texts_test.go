package xmlread_test

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
)

// TestTexts checks the text of elements and of attributes, with references, CDATA
// sections, comments and line ends.
func TestTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a": "a", " a b ": " a b ", "a]b": "a]b", "a]]b": "a]]b", "]": "]", "a>b": "a>b", "]]&gt;": "]]>",
		"&amp;&lt;&gt;&quot;&apos;": `&<>"'`, "&#65;&#x42;&#x0000010FFFF;": "AB\U0010ffff", "&#xe9;é漢😀": "éé漢😀",
		"a\r\nb\rc\n": "a\nb\nc\n", "\r": "\n", "\r\r\n": "\n\n", "a&#13;b": "a\rb",
		"<![CDATA[]]>": "", "<![CDATA[a<b>&amp;]]]]>": "a<b>&amp;]]", "x<![CDATA[y]]>z": "xyz", "<![CDATA[\r\n]]>": "\n", "<![CDATA[a]]><![CDATA[b]]>": "ab",
		"a<!-- b -->c<?d e?>f": "acf", "<!---->": "", "tab\there": "tab\there", "\ue000\ufeff": "\ue000\ufeff", "&#xE000;&#xFFFD;&#x10000;&#xD7FF;": "\ue000\ufffd\U00010000\ud7ff",
		"<![CDATA[" + strings.Repeat("x", 300) + "]]>": strings.Repeat("x", 300),
	} {
		for name, whole := range map[string]string{"alone": "<a>" + text + "</a>", "first": "<a>" + text + "</a  >\n"} {
			r := xmlread.New([]byte(whole))
			if !r.Root() {
				t.Errorf("%s %q: %v", name, text, r.End())
				continue
			}
			if got := r.Text(); got != want || r.End() != nil {
				t.Errorf("%s %q: %q, %v, want %q", name, text, got, r.End(), want)
			}
		}
		r := xmlread.New([]byte("<a><b>" + text + "</b><b/><c>" + text + "</c></a>"))
		var got []string
		for r.Root(); r.Child(); {
			got = append(got, r.Text())
		}
		if r.End() != nil || len(got) != 3 || got[0] != want || got[1] != "" || got[2] != want {
			t.Errorf("%q: %q, %v", text, got, r.End())
		}
	}
	for text, want := range map[string]string{
		"": "", "a": "a", " a ": " a ", "a\tb\nc": "a b c", "a\r\nb": "a b", "a\rb": "a b", "&#10;&#9;&#13;": "\n\t\r", "&lt;&amp;": "<&", "a]]>b": "a]]>b", "é&#xe9;": "éé", "it's": "it's",
	} {
		r := xmlread.New([]byte(`<a x="` + text + `" y=''/>`))
		if !r.Root() || len(r.Attributes()) != 2 || r.Attributes()[0].Value != want || r.Attributes()[1].Value != "" {
			t.Errorf("%q: %+v, %v, want %q", text, r.Attributes(), r.End(), want)
		}
	}
}

// TestNames checks the characters of names.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "_", "A-1.b", "é", "漢字", "a·", "\U00010000", "x\u203f", "Ⰰ", "豈", "\U000effff"} {
		if err := read("<" + name + "/>"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := read("<a " + name + "='1'/>"); err != nil {
			t.Errorf("attribute %q: %v", name, err)
		}
	}
	for _, name := range []string{"-a", ".a", "1", "·a", "×", "a×", "÷", "\u2030", "a\u2030", "\u037e", "a\u2190", "\u203fx", "\ufdd0", "a~", "a;", "\U000f0000", "a\U000f0000"} {
		if err := read("<" + name + "/>"); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// TestMarks checks the byte order mark at the beginning, processing instructions, and
// names that are missing.
func TestMarks(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"\ufeff<a/>": true, "\ufeff<?xml version='1.0'?><a/>": true, "\ufeff\ufeff<a/>": false, "<a/>\ufeff": false,
		"<?b?><a/>": true, "<?b c?><a/>": true, "<?b\tc?><a><?d ??></a><?e?>": true, "<?b-c?><a/>": true, "<?xm?><a/>": true, "<?xmlx?><a/>": true,
		"<?b+?><a/>": false, "<?b c><a/>": false, "<??><a/>": false, "<? b?><a/>": false, "<a><?b": false, "<a><?b c": false, "<a/><?XML?>": false, "<a><?Xml ?></a>": false,
		"<a ='1'/>": false, "<a b:='1' xmlns:b='u'/>": false, "<a></>": false,
	} {
		if err := read(text); ok != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := xmlread.New([]byte("<a>x</a>"))
	if r.Text() != "" || !r.Root() || r.Text() != "x" || r.Text() != "" || r.End() != nil {
		t.Error("text outside of an element is read")
	}
}

// TestRootTwice checks that a text has one root, also for the reader.
func TestRootTwice(t *testing.T) {
	t.Parallel()
	r := xmlread.New([]byte("<a><b/></a>"))
	if !r.Root() || r.Root() {
		t.Error("the root is read twice")
	}
	r = xmlread.New([]byte("x"))
	if r.Root() || r.Root() || r.End() == nil {
		t.Error("a text without a root has one")
	}
}
