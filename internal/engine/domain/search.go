package domain

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// SearchRequest asks for which candidates a request is permitted: what may Bob
// do, or who may read this?
type SearchRequest struct {
	// Known is the request without the category that is searched. It asks for one
	// decision.
	Known *policy.Request
	// Category is the category that is searched.
	Category string
	// Type asks about all objects and subjects of this type in the relation store,
	// if Candidates is nil. If it is "", a search for actions asks about
	// [Pinned.Actions].
	Type string
	// Candidates are what is asked about, at most Options.Candidates. Their order
	// does not matter.
	Candidates []string
	// Attributes returns the attributes of a candidate in Category. For a Type,
	// candidate is an object such as "document:1". Nil means [CandidateAttributes].
	// It must not depend on anything but the request, since a page continues with
	// the same question.
	Attributes func(candidate string) []policy.Attribute
	// Scope distinguishes questions with different Attributes. A cursor of another
	// scope is refused.
	Scope string
	// Limit is the largest number of candidates of a page; 0 means
	// [SearchLimitDefault].
	Limit int
	// Cursor is the Next of the page before; "" asks for the first page.
	Cursor string
	// Pin chooses the revisions of the first page. The other pages read the same.
	Pin PinOptions
}

// SearchLimitDefault is the default, and SearchLimitMax the largest, number of
// candidates of a page.
const (
	SearchLimitDefault = 1_000
	SearchLimitMax     = 10_000
)

// SearchResult is a page of a search.
type SearchResult struct {
	// Permitted are the candidates whose decision is Permit, in the order of their
	// bytes.
	Permitted []Candidate
	// Undecided is the number of candidates of the page whose decision is
	// Indeterminate, and Status the reason of the first of them.
	Undecided int
	Status    *status.Error
	// Next is the cursor of the next page; "" on the last one.
	Next string
	// Revision is the revision of the policies.
	Revision storage.Revision
}

// Candidate is a candidate that is permitted.
type Candidate struct {
	Name        string        // the candidate
	Obligations []policy.Duty // what the enforcer must do when it permits
	Advice      []policy.Duty // what the enforcer may do
}

// boundCandidates is the name of the bound on the candidates of a search.
const boundCandidates = "Candidates"

// Search returns a page of the candidates for which the request is permitted. It
// evaluates what does not depend on the candidate once. It fails with
// authz.ErrInvalidRequest if the request is not one question, and with
// authz.ErrCursor for the cursor of another search.
func (d *Domain) Search(ctx context.Context, r *SearchRequest) (SearchResult, error) {
	limit := min(r.Limit, SearchLimitMax)
	if limit <= 0 {
		limit = SearchLimitDefault
	}
	ctx, work := turns.With(ctx, d.turns)
	defer work.End()
	s := search{domain: d, request: r, attributes: r.Attributes}
	if s.attributes == nil {
		s.attributes = func(candidate string) []policy.Attribute { return CandidateAttributes(r.Category, candidate) }
	}
	if err := s.begin(ctx); err != nil {
		return SearchResult{}, err
	}
	candidates, err := s.candidates(ctx)
	if err != nil {
		return SearchResult{}, err
	}
	if err := checkBound(boundCandidates, len(candidates), d.options.Candidates); err != nil {
		return SearchResult{}, err
	}
	return s.page(ctx, candidates, limit)
}

// checkBound fails with a BoundError if got exceeds most.
func checkBound(name string, got, most int) error {
	if got <= most {
		return nil
	}
	return &authz.BoundError{Name: name, Max: int64(most), Got: int64(got)}
}

// CandidateAttributes returns the attributes of a candidate whose name is its id.
// If the name is that of an object, such as "document:1", the candidate has the
// object, too.
func CandidateAttributes(category, name string) []policy.Attribute {
	id := policy.AttributeSubjectID
	switch category {
	case policy.CategoryResource:
		id = policy.AttributeResourceID
	case policy.CategoryAction:
		id = policy.AttributeActionID
	}
	out := []policy.Attribute{{ID: id, Values: []value.Value{value.NewString(name)}}}
	if _, err := rel.ParseObject(name); err == nil && category != policy.CategoryAction {
		out = append(out, policy.Attribute{ID: ObjectAttribute, Values: []value.Value{value.NewString(name)}})
	}
	return out
}

// search is a search in progress.
type search struct {
	domain     *Domain
	request    *SearchRequest
	attributes func(string) []policy.Attribute
	pinned     *Pinned
	digest     string
	// after is the last candidate of the page before; started is true if there is
	// one.
	after   string
	started bool
}

// cursor is the content of the cursor of a search.
type cursor struct {
	Digest    string           `json:"d"`
	Revision  storage.Revision `json:"r"`
	Token     authz.Token      `json:"t"`
	Relations authz.Token      `json:"s,omitempty"`
	After     string           `json:"a"`
}

// begin pins the revisions of the page.
func (s *search) begin(ctx context.Context) (err error) {
	s.digest = s.request.digest()
	if s.request.Cursor == "" {
		s.pinned, err = s.domain.Pin(ctx, s.request.Pin)
		return err
	}
	c, err := s.readCursor()
	if err != nil {
		return err
	}
	o := PinOptions{Revision: c.Revision}
	if c.Relations != "" {
		o.Relations = authz.AtExactly(c.Relations).AtCurrentTime()
	}
	if s.pinned, err = s.domain.Pin(ctx, o); err != nil {
		return err
	}
	if s.pinned.Token() != c.Token {
		return fmt.Errorf("%w: the cursor belongs to another policy domain", authz.ErrCursor)
	}
	s.after, s.started = c.After, true
	return nil
}

// readCursor reads the cursor of the request.
func (s *search) readCursor() (c cursor, err error) {
	text := s.request.Cursor
	if len(text) > cursorBytesMax {
		return c, checkBound("CursorBytesMax", len(text), cursorBytesMax)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.Revision == 0 {
		return c, fmt.Errorf("%w: malformed text", authz.ErrCursor)
	}
	if c.Digest != s.digest {
		return c, fmt.Errorf("%w: the cursor belongs to another search", authz.ErrCursor)
	}
	return c, nil
}

// cursorBytesMax is the largest size of a cursor. A candidate may have any length
// that a request may have, but the cursor of a very long one is refused.
const cursorBytesMax = 64 << 10

// next returns the cursor of the page after a candidate.
func (s *search) next(ctx context.Context, after string) (string, error) {
	relations, err := s.pinned.RelationsToken(ctx)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(cursor{s.digest, s.pinned.Revision(), s.pinned.Token(), relations, after})
	return base64.RawURLEncoding.EncodeToString(raw), err
}

// digest identifies the question of a request, without its page.
func (r *SearchRequest) digest() string {
	h := sha256.New()
	for _, part := range append([]string{string(message.PrintJSONRequest(r.Known)), r.Category, r.Type, r.Scope}, r.Candidates...) {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// candidates returns all candidates, sorted and each once.
func (s *search) candidates(ctx context.Context) ([]string, error) {
	if s.request.Candidates != nil {
		if err := checkBound(boundCandidates, len(s.request.Candidates), s.domain.options.Candidates); err != nil {
			return nil, err
		}
		out := slices.Clone(s.request.Candidates)
		slices.Sort(out)
		return slices.Compact(out), nil
	}
	if s.request.Type == "" && s.request.Category == policy.CategoryAction {
		return s.pinned.Actions(), nil
	}
	if s.request.Type == "" {
		return nil, fmt.Errorf("%w: the search has neither a type nor candidates", authz.ErrInvalidRequest)
	}
	return s.pinned.Objects(ctx, s.request.Type)
}

// stepsPerCandidate is the number of steps of turns.Part that a candidate takes.
const stepsPerCandidate = 64

// page decides the candidates after the cursor.
func (s *search) page(ctx context.Context, candidates []string, limit int) (out SearchResult, err error) {
	out.Revision = s.pinned.Revision()
	if s.started {
		i, found := slices.BinarySearch(candidates, s.after)
		if found {
			i++
		}
		candidates = candidates[i:]
	}
	decide, err := s.pinned.Narrow(ctx, s.request.Known, s.request.Category)
	if err != nil {
		return out, err
	}
	var part turns.Part
	for i, name := range candidates {
		if err := cmp.Or(part.Step(ctx, nil, stepsPerCandidate), ctx.Err()); err != nil {
			return out, fmt.Errorf("%w: %w", authz.ErrCanceled, err)
		}
		result, err := decide(ctx, s.attributes(name))
		if err != nil {
			return out, err
		}
		switch {
		case result.Decision == policy.Permitted:
			out.Permitted = append(out.Permitted, Candidate{name, result.Obligations, result.Advice})
		case result.Decision >= policy.Indeterminate:
			if out.Undecided++; out.Status == nil {
				out.Status = result.Status
			}
		}
		if len(out.Permitted) == limit && i+1 < len(candidates) {
			out.Next, err = s.next(ctx, name)
			return out, err
		}
	}
	return out, nil
}

// Narrow evaluates what does not depend on one category of a request, and returns
// a function that decides the request with attributes in this category.
func (p *Pinned) Narrow(ctx context.Context, known *policy.Request, category string) (func(context.Context, []policy.Attribute) (policy.Result, error), error) {
	if err := checkReserved(known); err != nil {
		return nil, err
	}
	if p.at.Value.root == nil || p.at.Value.broken != nil {
		return func(ctx context.Context, _ []policy.Attribute) (policy.Result, error) {
			results, err := p.Decide(ctx, known, nil)
			if err != nil {
				return policy.Result{}, err
			}
			return results[0], nil
		}, nil
	}
	narrowed, err := p.at.Value.plan.Narrow(ctx, known, category, p.policyOptions(ctx, nil))
	if err != nil {
		return nil, narrowError(err)
	}
	return func(ctx context.Context, attributes []policy.Attribute) (policy.Result, error) {
		if err := reservedAmong(attributes); err != nil {
			return policy.Result{}, err
		}
		p.asker.ctx, p.asker.left = ctx, p.domain.options.Questions
		return narrowed.Decide(ctx, attributes), nil
	}, nil
}

// narrowError returns the error of a request that cannot be narrowed.
func narrowError(err error) error {
	if s, ok := err.(*status.Error); ok && s.Code != status.SyntaxError {
		return fmt.Errorf("%w: %s", authz.ErrBound, s.Message)
	}
	return fmt.Errorf("%w: %v", authz.ErrInvalidRequest, err)
}

// Objects returns the names of all objects of a type in the relation store, and
// of all plain subjects of that type, such as "document:1", sorted. It pins the
// revision of the relation store. It fails with a BoundError if there are more
// than Options.Candidates.
func (p *Pinned) Objects(ctx context.Context, typ string) ([]string, error) {
	if p.domain.relations == nil {
		return nil, fmt.Errorf("%w: the policy domain has no relation store that has objects of type %s", authz.ErrInvalidRequest, value.Quote(typ))
	}
	p.asker.ctx = ctx
	if err := p.asker.pin(); err != nil {
		return nil, fmt.Errorf("%w: %v", authz.ErrInvalidRequest, err)
	}
	token, err := p.RelationsToken(ctx)
	if err != nil {
		return nil, err
	}
	cache := &p.domain.objects
	if names := cache.get(token, typ); names != nil {
		return names, nil
	}
	names, err := p.collectObjects(ctx, typ)
	if err != nil {
		return nil, err
	}
	cache.put(token, typ, names)
	return names, nil
}

// collectObjects walks all tuples and the attributes of a type.
func (p *Pinned) collectObjects(ctx context.Context, typ string) ([]string, error) {
	found := map[string]struct{}{}
	add := func(o rel.Object) error {
		found[o.ID] = struct{}{}
		return checkBound(boundCandidates, len(found), p.domain.options.Candidates)
	}
	for t, err := range p.domain.relations.Tuples(ctx, rel.Filter{}, p.asker.held) {
		if err == nil && t.Object.Type == typ {
			err = add(t.Object)
		}
		if err == nil && t.Subject.Type == typ && !t.Subject.IsWildcard() {
			err = add(t.Subject.Object())
		}
		if err != nil {
			return nil, err
		}
	}
	request := authz.ReadAttributesRequest{ObjectType: typ, Limit: 1_000, Consistency: p.asker.held}
	for {
		page, err := p.domain.relations.ReadAttributes(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, a := range page.Attributes {
			if err := add(a.Object); err != nil {
				return nil, err
			}
		}
		if request.Cursor = page.Next; request.Cursor == "" {
			break
		}
	}
	names := make([]string, 0, len(found))
	for id := range found {
		names = append(names, typ+":"+id)
	}
	slices.Sort(names)
	return names, nil
}

// objectNames keeps the objects that were collected last, for the next page.
type objectNames struct {
	mu    sync.Mutex
	token authz.Token
	typ   string
	names []string
}

func (o *objectNames) get(t authz.Token, typ string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.token != t || o.typ != typ {
		return nil
	}
	return o.names
}

func (o *objectNames) put(t authz.Token, typ string, names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.token, o.typ, o.names = t, typ, names
}

// Actions returns the names that the policies of the pinned revision compare the
// action-id with in their targets, sorted: the actions that an action search asks
// about.
func (p *Pinned) Actions() []string {
	found := map[string]struct{}{}
	if p.at.Value.root != nil {
		collectActions(found, p.at.Value.root.element)
	}
	for _, stored := range p.at.Value.policies {
		collectActions(found, stored.element)
	}
	out := make([]string, 0, len(found))
	for name := range found {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// collectActions adds the actions that an element names.
func collectActions(found map[string]struct{}, e policy.Element) {
	target := func(t policy.Target) {
		for _, any := range t {
			for _, all := range any {
				for _, m := range all {
					d, ok := m.Bag.(*policy.Designator)
					if ok && d.Category == policy.CategoryAction && d.ID == policy.AttributeActionID && strings.HasSuffix(m.Function, "-equal") {
						found[m.Literal.Text()] = struct{}{}
					}
				}
			}
		}
	}
	switch e := e.(type) {
	case *policy.PolicySet:
		target(e.Target)
		for _, child := range e.Children {
			collectActions(found, child)
		}
	case *policy.Policy:
		target(e.Target)
		for i := range e.Rules {
			target(e.Rules[i].Target)
		}
	}
}
