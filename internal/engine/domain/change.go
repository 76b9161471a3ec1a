package domain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/authz"
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
	// change fails with authz.ErrPrecondition.
	Expect authz.Token
}

// Changed is the outcome of a change.
type Changed struct {
	// Revision is the revision of the domain after the change, and Token its token.
	// It is the newest revision if there was nothing to change.
	Revision storage.Revision
	Token    authz.Token
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
	var done Changed
	after, err := d.replica.Change(ctx, func(base *atRevision) (w *authz.WriteRequest, next *collection, err error) {
		var effective *parsedChange
		w, done, effective, err = request(base, &c, parsed)
		if w == nil || err != nil {
			return nil, nil, err
		}
		next, err = d.next(ctx, base.Value, effective)
		return w, next, err
	})
	if err != nil {
		return Changed{}, err
	}
	done.Revision, done.Token = after.Revision, after.Token
	return done, nil
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
		return &authz.BoundError{Name: "NameBytesMax", Max: NameBytesMax, Got: int64(len(name))}
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '/' || c == '\\' }), name == ".", name == "..":
		return fmt.Errorf("%w: %s: expected UTF-8 text without control characters and slashes, and neither \".\" nor \"..\"", ErrName, value.Quote(name))
	}
	return nil
}

// request returns the write that makes a change on base, and the parsed change
// without the policies that exist with the same text. The write is nil if there is
// nothing to change. It fails if the change does not fit base.
func request(base *atRevision, c *Change, parsed *parsedChange) (_ *authz.WriteRequest, done Changed, effective *parsedChange, err error) {
	old, w := base.Value, &authz.WriteRequest{}
	effective = &parsedChange{remove: c.Remove}
	if err := c.expects(base); err != nil {
		return nil, done, nil, err
	}
	if c.Clear && (len(old.policies) > 0 || old.root != nil) {
		effective.clear, done.Removed = true, len(old.policies)
		for _, kind := range [...]string{policyKind, rootKind} {
			w.RemoveMatching = append(w.RemoveMatching, storage.Filter{Target: storage.FilterDocuments, DocumentKind: kind})
		}
	}
	for _, name := range c.Remove {
		if _, found := old.find(name); !found || c.Clear {
			return nil, done, nil, noPolicy(name)
		}
		if _, replaced := c.Put[name]; replaced {
			return nil, done, nil, fmt.Errorf("%w: the change both removes and puts the policy %s", authz.ErrInvalidRequest, value.Quote(name))
		}
		w.RemoveDocuments = append(w.RemoveDocuments, authz.DocumentKey{Kind: policyKind, Key: name})
		done.Removed++
	}
	revision := base.Revision + 1
	// put returns the policy p, or nil if exists is the same text.
	put := func(p, exists *Stored, doc authz.Document) *Stored {
		if exists == nil || c.Clear {
			done.Created = true
		} else if exists.digest == p.digest {
			return nil
		}
		w.Documents = append(w.Documents, doc)
		one := *p
		one.Revision = revision
		return &one
	}
	for _, p := range parsed.put {
		var exists *Stored
		if i, found := old.find(p.Name); found {
			exists = old.policies[i]
		}
		if one := put(p, exists, policyDocument(p.Name, c.Put[p.Name], revision)); one != nil {
			effective.put = append(effective.put, one)
		}
	}
	if c.Root != nil {
		effective.root = put(parsed.root, old.root, rootDocument(*c.Root, revision))
	}
	if len(w.Documents)+len(w.RemoveDocuments)+len(w.RemoveMatching) == 0 {
		w = nil
	}
	return w, done, effective, nil
}

// next returns the compiled collection after a change.
func (d *Domain) next(ctx context.Context, old *collection, c *parsedChange) (*collection, error) {
	next := old.with(c)
	if err := d.checkBounds(next); err != nil {
		return nil, err
	}
	return next, d.compile(ctx, next, old)
}

// checkBounds checks the bounds on the whole domain.
func (d *Domain) checkBounds(c *collection) error {
	if n := len(c.policies); n > d.options.PoliciesMax {
		return &authz.BoundError{Name: "PoliciesMax", Max: int64(d.options.PoliciesMax), Got: int64(n)}
	}
	if c.bytes > d.options.BytesMax {
		return &authz.BoundError{Name: "BytesMax", Max: int64(d.options.BytesMax), Got: int64(c.bytes)}
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
	base, err := d.replica.Newest(ctx)
	if err != nil {
		return nil, err
	}
	_, _, effective, err := request(base, &c, parsed)
	if err != nil {
		return nil, err
	}
	next, err := d.next(ctx, base.Value, effective)
	if err != nil {
		return nil, err
	}
	return d.pinned(&atRevision{Value: next}, PinOptions{}), nil
}

// expects fails if a change expects another revision than base.
func (c *Change) expects(base *atRevision) error {
	if c.Expect == "" || c.Expect == base.Token {
		return nil
	}
	return fmt.Errorf("%w: the domain is at revision %d, which is not the one of the token %s", authz.ErrPrecondition, base.Revision, value.Quote(string(c.Expect)))
}

// Policy returns a policy with its text. name is "" for the root. It fails with
// [ErrNoPolicy].
func (d *Domain) Policy(ctx context.Context, name string) (Stored, Source, error) {
	k := authz.DocumentKey{Kind: policyKind, Key: name}
	if name == "" {
		k = authz.DocumentKey{Kind: rootKind, Key: rootKey}
	}
	doc, err := d.store.Document(ctx, k)
	if errors.Is(err, authz.ErrNoDocument) {
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
	if errors.Is(err, authz.ErrCanceled) {
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
