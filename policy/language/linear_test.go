package language

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
)

// TestPositionsAreLinear reads policies on one line and on many, and counts the bytes
// that their positions cost: the text once, and a block for each position.
func TestPositionsAreLinear(t *testing.T) {
	t.Parallel()
	const rules = 2_000
	for _, separator := range []string{" ", "\n"} {
		xml, json, text := &strings.Builder{}, &strings.Builder{}, &strings.Builder{}
		xml.WriteString(`<Policy xmlns="` + Namespace + `" PolicyId="p" Version="1" RuleCombiningAlgId="a"><Target/>`)
		json.WriteString(`{"policy":{"id":"p","version":"1","algorithm":"a","rules":[`)
		text.WriteString(`policy p { apply denyOverrides`)
		for i := range rules {
			fmt.Fprintf(xml, `%s<Rule RuleId="r%d" Effect="Permit"/>`, separator, i)
			fmt.Fprintf(json, `%s{"id":"r%d",%[1]s"effect":"Permit"}`, separator, i)
			fmt.Fprintf(text, `%srule r%d { permit%[1]scondition 1 + 1%[1]s+ 1 == 3 }`, separator, i)
			if i < rules-1 {
				json.WriteString(",")
			}
		}
		xml.WriteString(`</Policy>`)
		json.WriteString(`]}}`)
		text.WriteString(`}`)

		p := newJSONParser(t.Context(), []byte(json.String()), "")
		p.element(false)
		if err := p.End(); err != nil {
			t.Fatal(err)
		}
		check(t, "JSON", separator, p.lines.Read(), json.Len(), 2*rules)
		q := newTextParser(t.Context(), []byte(text.String()), "")
		q.file()
		if err := q.problem(); err != nil {
			t.Fatal(err)
		}
		check(t, "text", separator, q.lines.Read(), text.Len(), 10*rules)
		r := xmlParser{Reader: xmlread.New([]byte(xml.String())), progress: progress{ctx: t.Context()}}
		if r.Root(); r.policy() == nil || r.End() != nil {
			t.Fatal(r.End())
		}
		check(t, "XML", separator, r.PositionBytes(), xml.Len(), 2*rules)
	}
}

func check(t *testing.T, format, separator string, read, length, positions int) {
	t.Helper()
	if most := length + positions*256; read == 0 || read > most {
		t.Errorf("%s with %q: the positions cost %d bytes: expected at most %d", format, separator, read, most)
	}
}
