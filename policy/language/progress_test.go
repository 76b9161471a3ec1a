package language_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
)

// parser is a language with a text of many rules.
type parser struct {
	name  string
	parse func(context.Context, []byte, string) (policy.Element, error)
	text  []byte
}

// parsers returns a text of n rules in each language, on one line.
func parsers(n int) []parser {
	var xml, json, text strings.Builder
	xml.WriteString(`<Policy xmlns="` + language.Namespace + `" PolicyId="p" Version="1" RuleCombiningAlgId="a"><Target/>`)
	json.WriteString(`{"policy":{"id":"p","version":"1","algorithm":"a","rules":[`)
	text.WriteString(`policy p { apply denyOverrides `)
	for i := range n {
		fmt.Fprintf(&xml, `<Rule RuleId="r%d" Effect="Permit"/>`, i)
		fmt.Fprintf(&json, `{"id":"r%d","effect":"Permit"},`, i)
		fmt.Fprintf(&text, `rule r%d { permit condition 1 + 1 == 2 } `, i)
	}
	return []parser{
		{"XML", language.ParseXML, []byte(xml.String() + `</Policy>`)},
		{"JSON", language.ParseJSON, []byte(strings.TrimSuffix(json.String(), ",") + `]}}`)},
		{"text", language.ParseText, []byte(text.String() + `}`)},
	}
}

// looks is a context that ends when it has been looked at so many times.
type looks struct {
	context.Context
	most, taken int
}

func (l *looks) Err() error {
	if l.taken++; l.taken > l.most {
		return context.Canceled
	}
	return nil
}

// TestParsingEndsWithItsContext parses long texts whose context ends meanwhile. The
// parser looks at the context at least once in 256 rules. When it has ended, the parser
// reads no further, and returns the error of the context and no mistake of the text.
func TestParsingEndsWithItsContext(t *testing.T) { // not parallel, because it counts allocations
	const rules = 10_000
	for _, p := range parsers(rules) {
		parse := func(most int) (taken int, allocations float64, err error) {
			allocations = testing.AllocsPerRun(1, func() {
				ctx := &looks{Context: t.Context(), most: most}
				var e policy.Element
				e, err = p.parse(ctx, p.text, "")
				if taken = ctx.taken; (e == nil) != (err != nil) {
					t.Errorf("%s: a policy is returned: %t, with the error %v", p.name, e != nil, err)
				}
			})
			return taken, allocations, err
		}
		all, whole, err := parse(1 << 30)
		if err != nil || all < rules/256 {
			t.Errorf("%s: %d looks at %d rules: %v", p.name, all, rules, err)
		}
		for _, most := range []int{0, 3, all / 10} {
			taken, part, err := parse(most)
			var mistake *policy.Error
			if !errors.Is(err, context.Canceled) || errors.As(err, &mistake) {
				t.Errorf("%s after %d looks: %v", p.name, most, err)
			}
			if taken != most+1 || part > whole/4 {
				t.Errorf("%s after %d looks: %d looks, %.0f allocations of %.0f", p.name, most, taken, part, whole)
			}
		}
	}
}

// TestParsingTakesTurns parses a long text while another request has the only turn. It
// waits for the turn; a short text does not.
func TestParsingTakesTurns(t *testing.T) {
	t.Parallel()
	long, short := parsers(5_000), parsers(3)
	for i := range long {
		synctest.Test(t, func(t *testing.T) {
			all := turns.New(1)
			other, others := turns.With(t.Context(), all)
			if err := turns.Hold(other); err != nil {
				t.Fatal(err)
			}
			parse := func(p parser) <-chan error {
				ctx, work := turns.With(t.Context(), all)
				end := make(chan error, 1)
				go func() {
					defer work.End()
					_, err := p.parse(ctx, p.text, "")
					end <- err
				}()
				synctest.Wait()
				return end
			}
			if end := parse(short[i]); len(end) == 0 || <-end != nil {
				t.Errorf("%s: a short text waited for a turn", short[i].name)
			}
			end := parse(long[i])
			if len(end) > 0 {
				t.Errorf("%s: a long text did not wait for a turn", long[i].name)
			}
			others.End()
			if err := <-end; err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if all.Free() != 1 {
				t.Errorf("%d turns are free at the end", all.Free())
			}
		})
	}
}
