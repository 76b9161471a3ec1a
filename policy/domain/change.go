package domain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/storage"
)

// Change is one atomic change of a domain. No decision sees a part of it.
type Change struct {
	// Clear removes all policies and the root before the rest of the change.
	Clear bool
	// Remove are the names of policies to remove. Removing one that does not exist
	// fails with [ErrNoPolicy].
	Remove []string
	// Put adds or replaces policies, by their names.
	Put map[string]Source
	// Root replaces the root policy. nil leaves it.
	Root *Source
	// Expect, if not "", is the token that the domain must have; otherwise the
	// change fails with ostiary.ErrPrecondition.
	Expect ostiary.Token
}

// changeAttempts is how often a change is validated again because another
// process changed the domain meanwhile.
const changeAttempts = 100

// Changed is the outcome of a change.
type Changed struct {
	// Revision is the revision of the domain after the change, and Token its token.
	// It is the newest revision if there was nothing to change.
	Revision storage.Revision
	Token    ostiary.Token
	// Created is true if the change put a policy, or a root, that did not exist.
	Created bool
	// Removed is the number of policies that the change removed.
	Removed int
}

// Change validates a change, compiles the domain as it would be, and makes the
// change durable. It decides when the call returns. It fails with an
// [InvalidError] if a policy must be rejected: each new text is checked on its
// own, and references are resolved from the root. A change that fails changes
// nothing.
func (d *Domain) Change(ctx context.Context, c Change) (Changed, error) {
	parsed, err := d.parseChange(ctx, &c)
	if err != nil {
		return Changed{}, err
	}
	if err := d.lock(ctx); err != nil {
		return Changed{}, err
	}
	defer d.unlock()
	for range changeAttempts {
		base, err := d.catchUp(ctx)
		if err != nil {
			return Changed{}, err
		}
		if err := c.expects(base); err != nil {
			return Changed{}, err
		}
		done, err := d.write(ctx, base, &c, parsed)
		if !errors.Is(err, ostiary.ErrPrecondition) {
			return done, err
		}
	}
	return Changed{}, fmt.Errorf("%w: another process changed the policies before each of %d attempts", ostiary.ErrConflict, changeAttempts)
}

// parseChange parses the texts of a change and checks each on its own.
func (d *Domain) parseChange(ctx context.Context, c *Change) (*parsedChange, error) {
	out := &parsedChange{clear: c.Clear, remove: c.Remove}
	for _, name := range slices.Sorted(maps.Keys(c.Put)) {
		if err := validName(name); err != nil {
			return nil, err
		}
		p, err := d.parseNew(ctx, name, c.Put[name])
		if err != nil {
			return nil, err
		}
		out.put = append(out.put, p)
	}
	if c.Root != nil {
		root, err := d.parseNew(ctx, "", *c.Root)
		if err != nil {
			return nil, err
		}
		out.root = root
	}
	return out, nil
}

// parseNew parses a policy, checks its syntax and its types, and does not resolve
// its references.
func (d *Domain) parseNew(ctx context.Context, name string, s Source) (*Stored, error) {
	p, err := parseStored(ctx, name, s, 0)
	if err != nil {
		return nil, err
	}
	if err := policy.Check(ctx, p.element, policy.CompileOptions{Functions: d.options.Functions, Bounds: d.options.Bounds}); err != nil {
		return nil, invalid(name, err)
	}
	return p, nil
}

// validName checks the name of a policy or of a domain. Any text is a name, except
// for control characters and names that a path cannot contain.
func validName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrName)
	case len(name) > NameBytesMax:
		return &ostiary.BoundError{Name: "NameBytesMax", Max: NameBytesMax, Got: int64(len(name))}
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '/' || c == '\\' }), name == ".", name == "..":
		return fmt.Errorf("%w: %s: expected UTF-8 text without control characters and slashes, and neither \".\" nor \"..\"", ErrName, value.Quote(name))
	}
	return nil
}

// write writes a change that was validated on base. The caller has the turn. It
// fails with ostiary.ErrPrecondition if the store is no longer at base.
func (d *Domain) write(ctx context.Context, base *revision, c *Change, parsed *parsedChange) (Changed, error) {
	w, done, effective, err := d.request(ctx, base, c, parsed)
	if err != nil {
		return Changed{}, err
	}
	if len(w.Documents)+len(w.RemoveDocuments)+len(w.RemoveMatching) == 0 {
		return Changed{Revision: base.number, Token: base.token}, nil
	}
	next := base.with(effective)
	if err := d.checkBounds(next); err != nil {
		return Changed{}, err
	}
	if err := d.compile(ctx, next, base); err != nil {
		return Changed{}, err
	}
	w.After = base.token
	token, err := d.store.Write(ctx, w)
	if err != nil {
		return Changed{}, err
	}
	next.token = token
	if next.number, err = token.Revision(); err != nil {
		return Changed{}, err
	}
	d.current.Store(next)
	done.Revision, done.Token = next.number, token
	return done, nil
}

// request returns the write that makes a change on base, and the parsed change
// without the policies that exist with the same text. The write is empty if there
// is nothing to change.
func (d *Domain) request(ctx context.Context, base *revision, c *Change, parsed *parsedChange) (w ostiary.WriteRequest, done Changed, effective *parsedChange, err error) {
	effective = &parsedChange{remove: c.Remove}
	if c.Clear && (len(base.policies) > 0 || base.root != nil) {
		effective.clear, done.Removed = true, len(base.policies)
		for _, kind := range [...]string{policyKind, rootKind} {
			w.RemoveMatching = append(w.RemoveMatching, storage.Filter{Target: storage.FilterDocuments, DocumentKind: kind})
		}
	}
	for _, name := range c.Remove {
		if _, found := base.find(name); !found || c.Clear {
			return w, done, nil, noPolicy(name)
		}
		if _, replaced := c.Put[name]; replaced {
			return w, done, nil, fmt.Errorf("%w: the change both removes and puts the policy %s", ostiary.ErrInvalidRequest, value.Quote(name))
		}
		w.RemoveDocuments = append(w.RemoveDocuments, ostiary.DocumentKey{Kind: policyKind, Key: name})
		done.Removed++
	}
	at := base.number + 1
	put := func(p *Stored, s Source, exists bool, doc ostiary.Document) (*Stored, error) {
		exists = exists && !c.Clear
		done.Created = done.Created || !exists
		same, err := d.same(ctx, exists, ostiary.DocumentKey{Kind: doc.Kind, Key: doc.Key}, s)
		if same || err != nil {
			return nil, err
		}
		w.Documents = append(w.Documents, doc)
		one := *p
		one.Revision = at
		return &one, nil
	}
	for _, p := range parsed.put {
		_, found := base.find(p.Name)
		one, err := put(p, c.Put[p.Name], found, policyDocument(p.Name, c.Put[p.Name], at))
		if err != nil {
			return w, done, nil, err
		}
		if one != nil {
			effective.put = append(effective.put, one)
		}
	}
	if c.Root != nil {
		effective.root, err = put(parsed.root, *c.Root, base.root != nil, rootDocument(*c.Root, at))
	}
	return w, done, effective, err
}

// same reports whether a document exists with the same text and language, so that
// putting it changes nothing.
func (d *Domain) same(ctx context.Context, exists bool, k ostiary.DocumentKey, s Source) (bool, error) {
	if !exists {
		return false, nil
	}
	doc, err := d.store.Document(ctx, k)
	if errors.Is(err, ostiary.ErrNoDocument) {
		return false, nil // another process has just removed it, so the write will fail
	}
	if err != nil {
		return false, err
	}
	old, _, err := readSource(doc.Body)
	return err == nil && old.Language == s.Language && bytes.Equal(old.Text, s.Text), err
}

// checkBounds checks the bounds on the whole domain.
func (d *Domain) checkBounds(r *revision) error {
	if n := len(r.policies); n > d.options.PoliciesMax {
		return &ostiary.BoundError{Name: "PoliciesMax", Max: int64(d.options.PoliciesMax), Got: int64(n)}
	}
	if r.bytes > d.options.BytesMax {
		return &ostiary.BoundError{Name: "BytesMax", Max: int64(d.options.BytesMax), Got: int64(r.bytes)}
	}
	return nil
}

// Validate checks a change as [Domain.Change] does, on the newest revision, and
// writes nothing.
func (d *Domain) Validate(ctx context.Context, c Change) error {
	_, err := d.Preview(ctx, c)
	return err
}

// Preview pins the revision that a change would make, and writes nothing. It
// fails as [Domain.Change] does. The pinned revision has no token.
func (d *Domain) Preview(ctx context.Context, c Change) (*Pinned, error) {
	parsed, err := d.parseChange(ctx, &c)
	if err != nil {
		return nil, err
	}
	base, err := d.newest(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.expects(base); err != nil {
		return nil, err
	}
	_, _, effective, err := d.request(ctx, base, &c, parsed)
	if err != nil {
		return nil, err
	}
	next := base.with(effective)
	if err := d.checkBounds(next); err != nil {
		return nil, err
	}
	if err := d.compile(ctx, next, base); err != nil {
		return nil, err
	}
	return d.pinned(next, PinOptions{}), nil
}

// expects fails if a change expects another revision than base.
func (c *Change) expects(base *revision) error {
	if c.Expect == "" || c.Expect == base.token {
		return nil
	}
	return fmt.Errorf("%w: the domain is at revision %d, which is not the one of the token %s", ostiary.ErrPrecondition, base.number, value.Quote(string(c.Expect)))
}

// Policy returns a policy with its text. name is "" for the root. It fails with
// [ErrNoPolicy].
func (d *Domain) Policy(ctx context.Context, name string) (Stored, Source, error) {
	k := ostiary.DocumentKey{Kind: policyKind, Key: name}
	if name == "" {
		k = ostiary.DocumentKey{Kind: rootKind, Key: rootKey}
	}
	doc, err := d.store.Document(ctx, k)
	if errors.Is(err, ostiary.ErrNoDocument) {
		return Stored{}, Source{}, noPolicy(name)
	}
	if err != nil {
		return Stored{}, Source{}, err
	}
	src, at, err := readSource(doc.Body)
	if err != nil {
		return Stored{}, Source{}, err
	}
	p, err := parseStored(ctx, name, src, at)
	if errors.Is(err, ostiary.ErrCanceled) {
		return Stored{}, Source{}, err
	}
	if err != nil {
		return Stored{Name: name, Language: src.Language, Revision: at}, src, nil
	}
	return *p, src, nil
}

// noPolicy is the error of a policy that does not exist. name is "" for the root.
func noPolicy(name string) error {
	if name == "" {
		return fmt.Errorf("%w: the domain has no root", ErrNoPolicy)
	}
	return fmt.Errorf("%w: %s", ErrNoPolicy, value.Quote(name))
}
