package identity

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/ostiary/ostiary/authz"
)

// RedelegationsMax is the largest number of trusts that can follow one another in
// a chain of redelegations, without the first one.
const RedelegationsMax = 3

// NewTrust describes a trust to be made.
type NewTrust struct {
	// By is the token of the trustor. If it was made with a trust, the new trust
	// redelegates that one.
	By *Token
	// TrustorID is the user who delegates, which is the user of the token.
	TrustorID string
	// TrusteeID is the user who may use the trust.
	TrusteeID string
	// ProjectID is the project that the roles are for.
	ProjectID string
	// RoleIDs are the roles, at least one.
	RoleIDs []string
	// Impersonation makes the trustee act as the trustor.
	Impersonation bool
	// Expires is the end of the trust; nil means the end of the trust that it
	// redelegates, or no end.
	Expires *time.Time
	// Uses is how many tokens can be made with the trust, at least 1; nil means no
	// bound.
	Uses *int
	// Redelegation allows the trustee to redelegate the trust.
	Redelegation bool
	// Redelegations is how many trusts may follow one another; nil means as many as
	// are allowed.
	Redelegations *int
	// Members are further members of the record.
	Members Members
}

// CreateTrust makes a trust. It fails with Forbidden, Invalid or NotFound. A trust
// never gives more than its trustor has, nor more than the trust that it
// redelegates: neither another project or role, nor a later end, nor
// impersonation, nor more redelegations.
func (s *Service) CreateTrust(ctx context.Context, n NewTrust) (*Record, error) {
	switch {
	case n.By.DelegatedMethod():
		return nil, failf(Forbidden, "You are not authorized to perform the requested action: Delegated tokens cannot manage trusts.")
	case n.By.User.ID != n.TrustorID:
		return nil, failf(Forbidden, "You are not authorized to perform the requested action: The authenticated user should match the trustor.")
	case len(n.RoleIDs) == 0:
		return nil, failf(Forbidden, "You are not authorized to perform the requested action: At least one role should be specified.")
	}
	id := newID()
	d, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		x, err := s.newTrust(ctx, d, id, n)
		if err != nil {
			return authz.WriteRequest{}, err
		}
		return authz.WriteRequest{Documents: []authz.Document{x.document()}}, nil
	})
	if err != nil {
		return nil, err
	}
	return d.get(Trust, id)
}

// newTrust returns the validated record of a trust.
func (s *Service) newTrust(ctx context.Context, d *directory, id string, n NewTrust) (*Record, error) {
	if _, err := s.renewed(ctx, d, n.By); err != nil {
		return nil, err
	}
	if _, err := d.get(User, n.TrusteeID); err != nil {
		return nil, err
	}
	if p, err := d.get(Project, n.ProjectID); err != nil || p.IsDomain {
		return nil, missing(Project, n.ProjectID)
	}
	if err := s.future(n.Expires); err != nil {
		return nil, err
	}
	depth, err := n.redelegations()
	if err != nil {
		return nil, err
	}
	x := &Record{Kind: Trust, ID: id, Owner: n.TrustorID, Members: n.Members, Delegation: &Delegation{
		TrusteeID: n.TrusteeID, ProjectID: n.ProjectID, RoleIDs: n.RoleIDs, Expires: n.Expires,
		Impersonation: n.Impersonation, Uses: n.Uses, Redelegations: depth}}
	if source := n.By.Payload.TrustID; source != "" {
		if err := s.redelegate(d, x, source, n); err != nil {
			return nil, err
		}
	}
	if d.repeats(x) {
		return nil, failf(Conflict, "Conflict occurred attempting to store trust - Duplicate entry found with ID %s.", id)
	}
	chain, err := d.chain(x)
	if err != nil {
		return nil, err
	}
	return x, s.trustorsHold(ctx, d, chain, n.RoleIDs, func(role string) error { return missing(Role, role) })
}

// repeats returns whether a trust with an end exists between the same users, for
// the same project, with the same end and impersonation. Keystone compares these
// members only, so a client that repeats a request does not make a second trust.
func (d *directory) repeats(x *Record) bool {
	n := x.Delegation
	return n.Expires != nil && slices.ContainsFunc(d.referring(link{User, x.Owner}, Trust), func(y *Record) bool {
		o := y.Delegation
		return y.Owner == x.Owner && o.TrusteeID == n.TrusteeID && o.ProjectID == n.ProjectID && o.Impersonation == n.Impersonation &&
			o.Expires != nil && o.Expires.Equal(*n.Expires)
	})
}

// redelegations returns how often a trust that redelegates no other one may be
// redelegated.
func (n *NewTrust) redelegations() (int, error) {
	count := RedelegationsMax
	if n.Redelegations != nil {
		count = *n.Redelegations
	}
	switch {
	case n.Uses != nil && *n.Uses < 1:
		return 0, failf(Invalid, "remaining_uses must be a positive integer or null.")
	case !n.Redelegation || count == 0:
		return 0, nil
	case count < 0 || count > RedelegationsMax:
		return 0, failf(Forbidden, "Requested redelegation depth of %d is greater than allowed %d", count, RedelegationsMax)
	case n.Uses != nil:
		return 0, failf(Invalid, "remaining_uses must not be set if redelegation is allowed")
	}
	return count, nil
}

// redelegate makes a new trust redelegate the trust source, and fails with
// Forbidden if it would give more than that one.
func (s *Service) redelegate(d *directory, x *Record, source string, n NewTrust) error {
	from, err := d.current(Trust, source, s.now())
	if err != nil {
		return err
	}
	new, old := x.Delegation, from.Delegation
	new.SourceID = source
	left := old.Redelegations - 1
	if new.Redelegations > 0 {
		new.Redelegations = left
	}
	if new.Expires == nil {
		new.Expires = old.Expires
	}
	switch {
	case left < 0:
		return failf(Forbidden, "trust %s does not allow redelegation", source)
	case n.Redelegation && n.Redelegations != nil && *n.Redelegations != 0 && *n.Redelegations != left:
		return failf(Forbidden, "Modifying \"redelegation_count\" upon redelegation is forbidden. Omitting this parameter is advised.")
	case n.Uses != nil:
		return failf(Forbidden, "Field \"remaining_uses\" is set to %d while it must not be set in order to redelegate a trust", *n.Uses)
	case old.Expires != nil && new.Expires.After(*old.Expires):
		return failf(Forbidden, "Requested expiration time is more than redelegated trust can provide")
	case new.ProjectID != old.ProjectID:
		return failf(Forbidden, "trust %s is for another project", source)
	case slices.ContainsFunc(new.RoleIDs, func(r string) bool { return !slices.Contains(old.RoleIDs, r) }):
		return failf(Forbidden, "Some of requested roles are not in redelegated trust")
	case new.Impersonation && !old.Impersonation:
		return failf(Forbidden, "Impersonation is not allowed because redelegated trust does not specify impersonation. Redelegated trust id: %s", source)
	}
	return nil
}

// Trusts yields the trusts of a trustor and a trustee in the order of their ids. ""
// selects all. It ends with an error when ctx ends.
func (v *View) Trusts(ctx context.Context, trustor, trustee string) iter.Seq2[*Record, error] {
	match := func(r *Record) bool {
		return (trustor == "" || r.Owner == trustor) && (trustee == "" || r.Delegation.TrusteeID == trustee)
	}
	user := cmp.Or(trustor, trustee)
	if user == "" {
		return v.Records(ctx, ListRequest{Kind: Trust})
	}
	return func(yield func(*Record, error) bool) {
		for _, r := range v.directory.referring(link{User, user}, Trust) {
			if match(r) && !yield(r, nil) {
				return
			}
		}
	}
}

// trustsMax is how many trusts one write of RemoveEndedTrusts removes.
const trustsMax = 100

// RemoveEndedTrusts removes the trusts that have expired, and those that have no
// uses left and whose tokens have all ended. It returns their number. A process calls
// it at intervals. Its entries have the caller [storage.CallerCollector] if ctx has no
// author. On one of several nodes, only the node that writes removes trusts.
func (s *Service) RemoveEndedTrusts(ctx context.Context) (removed int, err error) {
	if s.lead(ctx) != nil {
		return 0, nil
	}
	ctx = collecting(ctx)
	for {
		n := 0
		_, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
			r := &removal{service: s, directory: d, ctx: ctx, removed: map[authz.DocumentKey]bool{}}
			t, now := d.tables[Trust], s.now()
			t.byID.Ascend("", func(_ string, x *Record) bool {
				if x.Delegation.over(now, s.tokenAgeMax()) {
					r.remove(x)
				}
				return len(r.removed) < trustsMax
			})
			n = len(r.removed)
			return r.write, r.err
		})
		if removed += n; err != nil || n < trustsMax {
			return removed, err
		}
	}
}

// over returns whether no token of a trust can be valid any more. age is the largest
// age of a valid token.
func (d *Delegation) over(now time.Time, age time.Duration) bool {
	return d.ended(now) || d.UsedUp != nil && now.Sub(*d.UsedUp) > age
}

// DeleteTrust removes a trust and those that redelegate it, for the user of a
// token. A token that was made with a trust can remove only that trust and those
// that redelegate it. DeleteTrust fails with NotFound and Forbidden.
func (s *Service) DeleteTrust(ctx context.Context, by *Token, id string) error {
	if own := by.Payload.TrustID; own != "" {
		d, err := s.at(ctx)
		if err != nil {
			return err
		}
		x, err := d.get(Trust, id)
		if err != nil {
			return err
		}
		chain, err := d.chain(x)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(chain, func(t *Record) bool { return t.ID == own }) {
			return failf(Forbidden, "You are not authorized to perform the requested action: a token of trust %s cannot delete another trust.", own)
		}
	}
	return s.Delete(ctx, Trust, id)
}

// TrustOf returns a trust that can be used. It fails with NotFound if the trust
// does not exist, has expired or has no uses left.
func (s *Service) TrustOf(ctx context.Context, id string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	x, err := d.current(Trust, id, s.now())
	if err == nil && x.Delegation.spent() {
		return nil, missing(Trust, id)
	}
	return x, err
}

// spent returns whether no more tokens can be made with a trust.
func (d *Delegation) spent() bool { return d.Uses != nil && *d.Uses <= 0 }

// use counts one use of a trust down, and returns the trust. It fails with
// Unauthorized if no use is left. Of concurrent calls, as many succeed as there
// are uses.
func (s *Service) use(ctx context.Context, id string) (*Record, error) {
	d, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
		old, err := d.current(Trust, id, s.now())
		if err != nil {
			return authz.WriteRequest{}, unauthorized(err.Error())
		}
		if old.Delegation.spent() {
			return authz.WriteRequest{}, unauthorized("trust " + id + " has no uses left")
		}
		x, delegation := *old, *old.Delegation
		left := *delegation.Uses - 1
		x.Delegation, delegation.Uses = &delegation, &left
		if left == 0 {
			now := s.now()
			delegation.UsedUp = &now
		}
		return authz.WriteRequest{Documents: []authz.Document{x.document()}}, nil
	})
	if err != nil {
		return nil, err
	}
	return d.get(Trust, id)
}
