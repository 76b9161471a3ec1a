package content

import "testing"

func TestAppendXML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`<a/>`:                          `<a/>`,
		`<a b="&lt;&quot;"> x <b/></a>`: `<a b="&lt;&quot;"> x <b/></a>`,
		`<!--c--><a xmlns="u" xmlns:p="v"><p:b p:c="1" d="2"/><c xmlns=""/><?t  x?></a>`: `<!--c--><a xmlns="u"><p:b xmlns:p="v" p:c="1" d="2"/><c xmlns=""/><?t x?></a>`,
		`<p:a xmlns:p="u"><p:b xmlns:p="v"/><p:c xml:lang="en"/><![CDATA[<&]]></p:a>`:    `<p:a xmlns:p="u"><p:b xmlns:p="v"/><p:c xml:lang="en"/>&lt;&amp;</p:a>`,
	} {
		n, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		printed := string(n.AppendXML(nil))
		if printed != want {
			t.Errorf("%s\nprinted as %s\nexpected   %s", text, printed, want)
		}
		again, err := Parse([]byte(printed))
		if err != nil || string(again.AppendXML(nil)) != printed || again.Value() != n.Value() {
			t.Errorf("%s is read as another tree: %v", printed, err)
		}
	}
}
