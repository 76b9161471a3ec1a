package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

// implications copies which role implies which other one.
func (m *migration) implications(ctx context.Context) error {
	b := batch[identity.Implication]{max: identity.LoadLinksMax, load: m.to.LoadImplications, name: func(x identity.Implication) string { return x.PriorID + " implies " + x.ImpliedID }}
	return linked(ctx, m, &b, `SELECT prior_role_id, implied_role_id FROM implied_role ORDER BY prior_role_id, implied_role_id`, func(x row) (identity.Implication, error) {
		return identity.Implication{PriorID: x.text("prior_role_id"), ImpliedID: x.text("implied_role_id")}, nil
	})
}

// memberships copies which user is in which group.
func (m *migration) memberships(ctx context.Context) error {
	b := batch[identity.Membership]{max: identity.LoadLinksMax, load: m.to.LoadMembers, name: func(x identity.Membership) string { return "user " + x.UserID + " in group " + x.GroupID }}
	return linked(ctx, m, &b, `SELECT user_id, group_id FROM user_group_membership ORDER BY user_id, group_id`, func(x row) (identity.Membership, error) {
		return identity.Membership{GroupID: x.text("group_id"), UserID: x.text("user_id")}, nil
	})
}

// assignments copies the role assignments on projects and domains.
func (m *migration) assignments(ctx context.Context) error {
	return linked(ctx, m, m.grants(), `SELECT type, actor_id, target_id, role_id, inherited FROM assignment ORDER BY actor_id, target_id, role_id, inherited`, grantOf)
}

// systemAssignments copies the role assignments on the system.
func (m *migration) systemAssignments(ctx context.Context) error {
	return linked(ctx, m, m.grants(), `SELECT type, actor_id, target_id, role_id, inherited FROM system_assignment ORDER BY actor_id, role_id`, func(x row) (identity.Grant, error) {
		g, err := grantOf(x)
		g.Target = identity.System
		return g, err
	})
}

func (m *migration) grants() *batch[identity.Grant] {
	return &batch[identity.Grant]{max: identity.LoadLinksMax, load: m.to.LoadGrants, name: func(g identity.Grant) string {
		return "role " + g.RoleID + " for " + g.UserID + g.GroupID + " on " + g.Target
	}}
}

// grantOf returns the grant of a row of the tables of assignments.
func grantOf(x row) (identity.Grant, error) {
	g := identity.Grant{Target: x.text("target_id"), RoleID: x.text("role_id"), Inherited: x.yes("inherited")}
	switch kind := x.text("type"); kind {
	case "UserProject", "UserDomain", "UserSystem":
		g.UserID = x.text("actor_id")
	case "GroupProject", "GroupDomain", "GroupSystem":
		g.GroupID = x.text("actor_id")
	default:
		return g, invalid("type", fmt.Sprintf("unknown type %.64q of an assignment", kind))
	}
	return g, nil
}

// revocationAge is how old a revocation event may be to be of use: tokens that it
// covers are accepted for at most two days after they expire.
const revocationAge = 5 * 24 * time.Hour

// revocations copies the newest revocation events, so that revoked tokens stay
// invalid. An event about a user on one project revokes all tokens of the user.
// Events that are about neither a token, a user nor a trust are not needed,
// because every validation looks up projects, domains and roles.
func (m *migration) revocations(ctx context.Context) error {
	b := batch[identity.Revocation]{max: identity.LoadRecordsMax, name: func(e identity.Revocation) string { return "event of " + e.RevokedAt.Format(time.RFC3339) }, load: func(ctx context.Context, events []identity.Revocation) ([]identity.Refusal, error) {
		return nil, m.to.LoadRevocations(ctx, events)
	}}
	return linked(ctx, m, &b, `SELECT id, user_id, trust_id, audit_id, audit_chain_id, issued_before, revoked_at FROM revocation_event ORDER BY id`, func(x row) (identity.Revocation, error) {
		before, err := x.time("issued_before")
		if err != nil {
			return identity.Revocation{}, err
		}
		at, err := x.time("revoked_at")
		if err != nil {
			return identity.Revocation{}, err
		}
		e := identity.Revocation{AuditID: x.text("audit_id"), IssuedBefore: before, RevokedAt: at}
		switch {
		case e.AuditID != "":
		case !x.null("audit_chain_id"):
			e.ChainID = x.text("audit_chain_id")
		case !x.null("trust_id"):
			e.TrustID = x.text("trust_id")
		case !x.null("user_id"):
			e.UserID = x.text("user_id")
		default:
			m.leave("revocation_event", 1, "events of projects, domains, roles and consumers, which every validation looks up")
			return e, errObsolete
		}
		if m.options.Now().Sub(at) > revocationAge {
			m.leave("revocation_event", 1, "events that are too old to matter: their tokens have expired")
			return e, errObsolete
		}
		return e, nil
	})
}
