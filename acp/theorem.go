package acp

import (
	"context"
	"fmt"
	"strings"
)

// Theorem is what somebody believes to follow from policy and relationships,
// in three blocks:
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
// The first two must be there, in this order; the third is read, and not
// evaluated. A name or id that is not letters, digits, "_", "-" and "." stands
// in double quotes, where \ stands before " and \.
type Theorem struct {
	Authorizations, Delegations []Claim
	Implied                     []Implication
}

// Span is where something stands in a text. Lines and columns count from 1; the
// end is the place behind the last character.
type Span struct{ Line, Column, EndLine, EndColumn int }

// Claim says that Actor has Relation on Object (in Delegations: may manage it),
// or with Negated that he has not. Object's policy is empty.
type Claim struct {
	Span
	Negated  bool
	Actor    string
	Object   Object
	Relation string
}

// Implication says that who has Left has Right.
type Implication struct {
	Span
	Left, Right Relationship // without subjects
}

// Verdict is what became of a claim.
type Verdict uint8

const (
	Accepted Verdict = iota
	Rejected
	// Failed: it could not be asked, for an unknown permission, say.
	Failed
)

func (v Verdict) String() string { return [...]string{"accept", "reject", "error"}[min(v, 2)] }

// ClaimResult is a claim with its verdict; Err says why it failed.
type ClaimResult struct {
	Claim
	Verdict Verdict
	Err     error
}

// TheoremResult are the verdicts in the text's order.
type TheoremResult struct {
	Authorizations, Delegations []ClaimResult
	Implied                     []Implication
	// Count is how many claims there are, Failures how many were not accepted.
	Count, Failures int
}

// OK says whether every claim was accepted.
func (r *TheoremResult) OK() bool { return r.Failures == 0 }

// TheoremBytesMax bounds a theorem's text.
const TheoremBytesMax = 1 << 20

// EvaluateTheorem holds a theorem against a policy and what is stored now. A
// text that cannot be read is an error with its place; a claim that cannot be
// asked is Failed.
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
	return out, ctx.Err()
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

// ParseTheorem reads a theorem. The error is a *PolicyError of kind ErrTheorem.
func ParseTheorem(text string) (*Theorem, error) {
	if len(text) > TheoremBytesMax {
		return nil, fmt.Errorf("%w: TheoremBytesMax is %d, here are %d", ErrBound, TheoremBytesMax, len(text))
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

// theoremToken is a word (w), a quoted text (q), or a sign, which is its own
// kind; 0 is the end.
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
	end          Span // of the token before
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
	p.fail(p.tok.Span, "%s, where %s should be", got, want)
}

// advance goes over n bytes.
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
			p.fail(t.Span, "a quotation mark is not closed on its line")
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

// unquote reads a quoted text and returns how many bytes it took.
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

// sign goes over a sign.
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

// spanFrom is from a token to the one before the parser.
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

// actor reads a DID, whose parts touch each other, or one in quotes.
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
		p.fail(start, "%q is no DID", did)
	}
	return did
}

// String prints a claim as it is written, of an authorization.
func (c Claim) String() string {
	s := quotedWord(c.Object.Resource) + ":" + quotedWord(c.Object.ID) + "#" + quotedWord(c.Relation) + "@" + quotedActor(c.Actor)
	if c.Negated {
		return "!" + s
	}
	return s
}

// Delegation prints a claim as it is written, of a delegation.
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

// String prints a theorem that parses to the same claims.
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
