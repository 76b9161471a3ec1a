package acp

import (
	"context"
	"fmt"
	"strings"
)

// Theorem is a list of statements that should follow from a policy and its
// relationships. Its text has three blocks:
//
//	Authorizations {
//	  file:foo#read@did:user:bob       // bob may read
//	  !file:foo#write@did:user:eve     // eve may not write
//	}
//	Delegations {
//	  did:user:bob > file:foo#reader   // bob may make readers
//	}
//	ImpliedRelations {
//	  file:foo#read => file:foo#reader
//	}
//
// The first two blocks are required, in this order. The third is parsed but not
// evaluated. A name or id with other characters than letters, digits, "_", "-"
// and "." must be in double quotes, in which \" and \\ are escapes.
type Theorem struct {
	// Authorizations claim that an actor has a permission.
	Authorizations []Claim
	// Delegations claim that an actor may manage a relation.
	Delegations []Claim
	// Implied are the implications, which are not evaluated.
	Implied []Implication
}

// Span is a range of characters in a text.
type Span struct {
	// Line and Column are the start, counted from 1.
	Line, Column int
	// EndLine and EndColumn are the position after the last character.
	EndLine, EndColumn int
}

// Claim is the statement that an actor has, or does not have, a relation on an
// object. In a delegation it is the statement that the actor may manage it.
type Claim struct {
	// Span is the claim's place in the text.
	Span
	// Negated is true if the actor must not have the relation.
	Negated bool
	// Actor is the actor's DID.
	Actor string
	// Object is the object; its Policy is empty.
	Object Object
	// Relation is a relation or permission of the object.
	Relation string
}

// Implication is the statement that every actor with Left also has Right.
type Implication struct {
	// Span is the implication's place in the text.
	Span
	// Left and Right have no subjects.
	Left, Right Relationship
}

// Verdict is the result of a claim's evaluation.
type Verdict uint8

const (
	// Accepted means that the claim holds.
	Accepted Verdict = iota
	// Rejected means that the claim does not hold.
	Rejected
	// Failed means that the claim could not be evaluated, for example because its
	// permission does not exist.
	Failed
)

// String returns "accept", "reject" or "error".
func (v Verdict) String() string { return [...]string{"accept", "reject", "error"}[min(v, 2)] }

// ClaimResult is an evaluated claim.
type ClaimResult struct {
	// Claim is the claim from the text.
	Claim
	// Verdict is the result of the evaluation.
	Verdict Verdict
	// Err is the error of a Failed claim, else nil.
	Err error
}

// TheoremResult is an evaluated theorem. Its claims are in the order of the text.
type TheoremResult struct {
	// Authorizations and Delegations are the evaluated claims.
	Authorizations, Delegations []ClaimResult
	// Implied are the implications, which are not evaluated.
	Implied []Implication
	// Count is the number of claims, Failures of those that are not accepted.
	Count, Failures int
}

// OK reports whether every claim was accepted.
func (r *TheoremResult) OK() bool { return r.Failures == 0 }

// TheoremBytesMax is the longest text of a theorem, in bytes.
const TheoremBytesMax = 1 << 20

// EvaluateTheorem evaluates a theorem with a policy and the stored relationships.
// A syntax error is returned; a claim that cannot be evaluated is [Failed].
func (e *Engine) EvaluateTheorem(ctx context.Context, policy, text string) (*TheoremResult, error) {
	const op = "evaluate theorem"
	th, err := ParseTheorem(text)
	if err != nil {
		return nil, failed(op, err)
	}
	if _, err := e.Policy(ctx, policy); err != nil {
		return nil, err
	}
	out := &TheoremResult{Implied: th.Implied}
	for _, c := range th.Authorizations {
		c.Object.Policy = policy
		ok, err := e.Check(ctx, c.Actor, c.Relation, c.Object)
		out.Authorizations = append(out.Authorizations, out.verdict(c, ok, err))
	}
	for _, c := range th.Delegations {
		c.Object.Policy = policy
		ok, err := e.MayManage(ctx, c.Actor, c.Relation, c.Object)
		out.Delegations = append(out.Delegations, out.verdict(c, ok, err))
	}
	return out, failed(op, ctx.Err())
}

func (r *TheoremResult) verdict(c Claim, ok bool, err error) ClaimResult {
	out := ClaimResult{Claim: c, Err: err}
	switch {
	case err != nil:
		out.Verdict = Failed
	case ok == c.Negated:
		out.Verdict = Rejected
	}
	r.Count++
	if out.Verdict != Accepted {
		r.Failures++
	}
	return out
}

// ParseTheorem parses a theorem. It fails with a [*PolicyError] of kind
// [ErrTheorem], or with [ErrBound] if the text is too long.
func ParseTheorem(text string) (*Theorem, error) {
	if len(text) > TheoremBytesMax {
		return nil, fmt.Errorf("%w: the theorem has %d bytes, TheoremBytesMax is %d", ErrBound, len(text), TheoremBytesMax)
	}
	p := theoremParser{text: text, line: 1, column: 1}
	th := &Theorem{}
	p.next()
	p.block("Authorizations", func() { th.Authorizations = append(th.Authorizations, p.authorization()) })
	p.block("Delegations", func() { th.Delegations = append(th.Delegations, p.delegation()) })
	if p.tok.text == "ImpliedRelations" && p.tok.kind == 'w' {
		p.block("ImpliedRelations", func() { th.Implied = append(th.Implied, p.implication()) })
	}
	if p.err == nil && p.tok.kind != 0 {
		p.unexpected("the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	return th, nil
}

// theoremToken is a token. Its kind is 'w' for a word, 'q' for a quoted text, 0 for
// the end of the text, and the character itself for a sign ('=' for =>).
type theoremToken struct {
	kind byte
	text string
	Span
}

type theoremParser struct {
	text         string
	pos          int
	line, column int
	tok          theoremToken
	end          Span // the previous token's
	err          error
}

func (p *theoremParser) fail(at Span, format string, args ...any) {
	if p.err == nil {
		p.err = &PolicyError{at.Line, at.Column, ErrTheorem, fmt.Sprintf(format, args...)}
	}
	p.pos, p.tok = len(p.text), theoremToken{Span: p.tok.Span}
}

func (p *theoremParser) unexpected(want string) {
	got := fmt.Sprintf("%q", p.tok.text)
	if p.tok.kind == 0 {
		got = "the end"
	}
	p.fail(p.tok.Span, "expected %s, found %s", want, got)
}

// advance moves the position by n bytes.
func (p *theoremParser) advance(n int) {
	for _, c := range p.text[p.pos : p.pos+n] {
		if p.column++; c == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
	p.pos += n
}

func (p *theoremParser) next() {
	p.end = p.tok.Span
	for p.pos < len(p.text) {
		if c := p.text[p.pos]; c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			p.advance(1)
		} else if strings.HasPrefix(p.text[p.pos:], "//") {
			n := strings.IndexByte(p.text[p.pos:], '\n')
			if n < 0 {
				n = len(p.text) - p.pos
			}
			p.advance(n)
		} else {
			break
		}
	}
	t := theoremToken{Span: Span{p.line, p.column, p.line, p.column}}
	rest := p.text[p.pos:]
	n := 1
	switch {
	case rest == "":
		p.tok = t
		return
	case wordByte(rest[0]):
		for n < len(rest) && wordByte(rest[n]) {
			n++
		}
		t.kind, t.text = 'w', rest[:n]
	case rest[0] == '"':
		var ok bool
		if t.text, n, ok = unquote(rest); !ok {
			p.fail(t.Span, "expected a closing quotation mark on the same line")
			return
		}
		t.kind = 'q'
	case strings.HasPrefix(rest, "=>"):
		n, t.kind, t.text = 2, '=', "=>"
	case strings.IndexByte("{}:#@!>%", rest[0]) >= 0:
		t.kind, t.text = rest[0], rest[:1]
	default:
		p.fail(t.Span, "unexpected character %q", []rune(rest)[0])
		return
	}
	p.advance(n)
	t.EndLine, t.EndColumn = p.line, p.column
	p.tok = t
}

func wordByte(c byte) bool {
	return letter(c) || digit(c) || c == '_' || c == '-' || c == '.'
}

// unquote reads a quoted text at the start of s. It returns the text, its length
// in s including the quotes, and false if no closing quote follows on the line.
func unquote(s string) (string, int, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i + 1, true
		case c == '\n':
			return "", 0, false
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}

// sign consumes a sign.
func (p *theoremParser) sign(kind byte, what string) {
	if p.tok.kind != kind {
		p.unexpected(what)
		return
	}
	p.next()
}

// word reads a name or an id.
func (p *theoremParser) word(what string) string {
	t := p.tok
	if t.kind != 'w' && t.kind != 'q' {
		p.unexpected(what)
		return ""
	}
	p.next()
	return t.text
}

func (p *theoremParser) block(name string, item func()) {
	if p.tok.kind != 'w' || p.tok.text != name {
		p.unexpected("the block " + name)
		return
	}
	p.next()
	p.sign('{', "{")
	for p.err == nil && p.tok.kind != '}' {
		item()
	}
	if p.err == nil {
		p.next()
	}
}

// spanFrom returns the range from a token to the previously consumed token.
func (p *theoremParser) spanFrom(start Span) Span {
	return Span{start.Line, start.Column, p.end.EndLine, p.end.EndColumn}
}

func (p *theoremParser) negated() bool {
	if p.tok.kind == '!' {
		p.next()
		return true
	}
	return false
}

func (p *theoremParser) authorization() Claim {
	start := p.tok.Span
	c := Claim{Negated: p.negated()}
	c.Object, c.Relation = p.relation()
	p.sign('@', "@ and an actor")
	c.Actor = p.actor()
	c.Span = p.spanFrom(start)
	return c
}

func (p *theoremParser) delegation() Claim {
	start := p.tok.Span
	c := Claim{Negated: p.negated()}
	c.Actor = p.actor()
	p.sign('>', ">")
	c.Object, c.Relation = p.relation()
	c.Span = p.spanFrom(start)
	return c
}

func (p *theoremParser) implication() (x Implication) {
	start := p.tok.Span
	x.Left.Object, x.Left.Relation = p.relation()
	p.sign('=', "=>")
	x.Right.Object, x.Right.Relation = p.relation()
	x.Span = p.spanFrom(start)
	return x
}

// relation reads resource:id#relation.
func (p *theoremParser) relation() (o Object, relation string) {
	o.Resource = p.word("a resource")
	p.sign(':', "a colon")
	o.ID = p.word("an object's id")
	p.sign('#', "# and a relation")
	return o, p.word("a relation")
}

// actor reads a DID, in quotes or as a sequence of tokens without space between.
func (p *theoremParser) actor() string {
	if p.tok.kind == 'q' {
		return p.word("an actor")
	}
	if p.tok.kind != 'w' || p.tok.text != "did" {
		p.unexpected("a DID")
		return ""
	}
	from, end, start := p.pos-len("did"), p.tok, p.tok.Span
	to := p.pos
	for p.next(); p.err == nil; p.next() {
		touches := p.tok.Line == end.EndLine && p.tok.Column == end.EndColumn
		if !touches || p.tok.kind != 'w' && p.tok.kind != ':' && p.tok.kind != '%' {
			break
		}
		end, to = p.tok, p.pos
	}
	did := p.text[from:min(to, len(p.text))]
	if p.err == nil && strings.Count(did, ":") < 2 {
		p.fail(start, "%q is not a DID", did)
	}
	return did
}

// String returns the claim in the syntax of an authorization.
func (c Claim) String() string {
	s := quotedWord(c.Object.Resource) + ":" + quotedWord(c.Object.ID) + "#" + quotedWord(c.Relation) + "@" + quotedActor(c.Actor)
	if c.Negated {
		return "!" + s
	}
	return s
}

// Delegation returns the claim in the syntax of a delegation.
func (c Claim) Delegation() string {
	s := quotedActor(c.Actor) + " > " + quotedWord(c.Object.Resource) + ":" + quotedWord(c.Object.ID) + "#" + quotedWord(c.Relation)
	if c.Negated {
		return "!" + s
	}
	return s
}

func quotedWord(s string) string {
	for i := range len(s) {
		if !wordByte(s[i]) {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

func quotedActor(s string) string {
	if strings.HasPrefix(s, "did:") && ValidateDID(s) == nil {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// String returns a text that parses to the same theorem.
func (t *Theorem) String() string {
	var b strings.Builder
	b.WriteString("Authorizations {\n")
	for _, c := range t.Authorizations {
		b.WriteString("  " + c.String() + "\n")
	}
	b.WriteString("}\nDelegations {\n")
	for _, c := range t.Delegations {
		b.WriteString("  " + c.Delegation() + "\n")
	}
	b.WriteString("}\n")
	if len(t.Implied) > 0 {
		b.WriteString("ImpliedRelations {\n")
		for _, x := range t.Implied {
			side := func(r Relationship) string {
				return quotedWord(r.Object.Resource) + ":" + quotedWord(r.Object.ID) + "#" + quotedWord(r.Relation)
			}
			b.WriteString("  " + side(x.Left) + " => " + side(x.Right) + "\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}
