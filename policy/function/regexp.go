package function

import (
	"github.com/ostiary/ostiary/policy/internal/pattern"
	"github.com/ostiary/ostiary/policy/value"
)

// patterns adds type-regexp-match (appendix A.3.13). A pattern that is a literal
// is compiled once. Values of other types than string match by their text.
func (b *builder) patterns() {
	types := []value.Type{value.String, value.AnyURI, value.IPAddress, value.DNSName, value.RFC822Name, value.X500Name}
	for _, t := range types {
		namespace := v2
		if t == value.String {
			namespace = v1
		}
		b.test(namespace+t.String()+"-regexp-match", value.String, t, matchPattern)
		f := b.set[namespace+t.String()+"-regexp-match"]
		f.CheckLiterals = checkPattern
		f.Prepare = preparePattern
	}
}

func matchPattern(env *Env, text, v value.Value) (bool, error) {
	if len(text.Text()) > patternLong {
		if err := env.long(); err != nil {
			return false, err
		}
	}
	p, err := pattern.Compile(text.Text())
	if err != nil {
		return false, err
	}
	return match(env, p, v.Text())
}

const (
	// patternLong is the size in bytes from which compiling a pattern may take
	// longer than 0.1 ms, and matchLong the same for the cost of a match.
	patternLong, matchLong = 128, 100_000
)

// match matches a text. If that may take long, it waits for a turn.
func match(env *Env, p *pattern.Pattern, text string) (bool, error) {
	if p.Cost(len(text)) > matchLong {
		if err := env.long(); err != nil {
			return false, err
		}
	}
	return p.Match(text)
}

// checkPattern rejects a literal that is not a pattern.
func checkPattern(literals []*value.Value) error {
	if literals[0] == nil {
		return nil
	}
	_, err := pattern.Compile(literals[0].Text())
	return err
}

// preparePattern compiles a literal.
func preparePattern(literals []*value.Value) (Call, Test) {
	if literals[0] == nil {
		return nil, nil
	}
	p, err := pattern.Compile(literals[0].Text())
	if err != nil {
		return nil, nil
	}
	test := func(env *Env, _, v value.Value) (bool, error) { return match(env, p, v.Text()) }
	return callTest(test), test
}
