package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/identity/token"
)

// Ids with which Keystone marks that there is no domain.
const (
	rootDomain = "<<keystone.domain.root>>" // the domain of domains, which is a project, too
	nullDomain = "<<null>>"                 // the domain of global roles
)

// userOptions and resourceOptions are the names of resource options by their ids
// in the database.
var (
	userOptions = map[string]string{"1000": "ignore_change_password_upon_first_use", "1001": "ignore_password_expiry", "1002": "ignore_lockout_failure_attempts",
		"1003": "lock_password", "1004": "ignore_user_inactivity", "MFAR": "multi_factor_auth_rules", "MFAE": "multi_factor_auth_enabled"}
	resourceOptions = map[string]string{"IMMU": "immutable"}
)

// regions copies all regions, those above others first.
func (m *migration) regions(ctx context.Context) error {
	var all []identity.Record
	err := m.from.each(ctx, `SELECT id, description, parent_region_id, extra FROM region ORDER BY id`, func(x row) error {
		members, err := x.extra()
		all = append(all, identity.Record{Kind: identity.Region, ID: x.text("id"), Parent: x.text("parent_region_id"),
			Members: members.With("description", x.text("description"))})
		return err
	})
	if err != nil {
		return err
	}
	parents := map[string]string{}
	for _, r := range all {
		parents[r.ID] = r.Parent
	}
	depth := func(id string) (n int) {
		for ; id != "" && n <= len(all); n++ {
			id = parents[id]
		}
		return n
	}
	slices.SortStableFunc(all, func(a, b identity.Record) int { return cmp.Compare(depth(a.ID), depth(b.ID)) })
	for _, r := range all {
		if err := m.add(ctx, identity.Loaded{Record: r}); err != nil {
			return err
		}
	}
	return nil
}

// projectColumns are the columns of projects, and their joined options and tags.
const (
	projectColumns = `SELECT p.id, p.name, p.extra, p.description, p.enabled, p.domain_id, p.parent_id, p.is_domain, o.option_id, o.option_value, t.name AS tag FROM project p
 LEFT JOIN project_option o ON o.project_id = p.id LEFT JOIN project_tag t ON t.project_id = p.id `
	projectOrder = ` ORDER BY p.id, t.name, o.option_id`
)

// domains copies the domains.
func (m *migration) domains(ctx context.Context) error {
	return m.projectsOf(ctx, `WHERE p.is_domain AND p.id <> '`+rootDomain+`'`)
}

// levelsMax bounds the depth of a chain of records, for example of projects.
const levelsMax = 20

// projects copies the projects, those above others first.
func (m *migration) projects(ctx context.Context) error {
	join := ""
	for level := range levelsMax {
		above := ancestor("p", level)
		if level > 0 {
			join += fmt.Sprintf("JOIN project %s ON %s.id = %s.parent_id ", above, above, ancestor("p", level-1))
		}
		before := m.seen
		if err := m.projectsOf(ctx, join+`WHERE NOT p.is_domain AND `+above+`.parent_id = `+above+`.domain_id`); err != nil {
			return err
		}
		if m.seen == before {
			return nil
		}
	}
	return nil
}

// ancestor is the name, in a query, of the table of records that are some levels
// above those of the table self.
func ancestor(self string, levels int) string {
	if levels == 0 {
		return self
	}
	return fmt.Sprintf("a%d", levels)
}

func (m *migration) projectsOf(ctx context.Context, where string) error {
	return m.from.group(ctx, projectColumns+where+projectOrder, func(rows []row) error {
		x := rows[0]
		extra, err := x.extra()
		if err != nil {
			return m.refuse(identity.Project, x.text("id"), err)
		}
		var tags []string
		for _, y := range rows {
			if !y.null("tag") && !slices.Contains(tags, y.text("tag")) {
				tags = append(tags, y.text("tag"))
			}
		}
		r := identity.Record{Kind: identity.Project, ID: x.text("id"), Name: x.text("name"), IsDomain: x.yes("is_domain"), Disabled: !x.yes("enabled"),
			Members: extra.With("description", x.text("description")).With("options", options(rows, resourceOptions))}
		if len(tags) > 0 {
			r.Members = r.Members.With("tags", tags)
		}
		if !r.IsDomain {
			r.Domain, r.Parent = x.text("domain_id"), x.text("parent_id")
		}
		return m.add(ctx, identity.Loaded{Record: r})
	})
}

// roles copies the roles.
func (m *migration) roles(ctx context.Context) error {
	return m.from.group(ctx, `SELECT r.id, r.name, r.extra, r.domain_id, r.description, o.option_id, o.option_value FROM role r
 LEFT JOIN role_option o ON o.role_id = r.id ORDER BY r.id, o.option_id`, func(rows []row) error {
		x := rows[0]
		members, err := x.extra()
		if err != nil {
			return m.refuse(identity.Role, x.text("id"), err)
		}
		r := identity.Record{Kind: identity.Role, ID: x.text("id"), Name: x.text("name"), Domain: x.text("domain_id")}
		if r.Domain == nullDomain {
			r.Domain = ""
		}
		r.Members = x.with(members, "description", "description").With("options", options(rows, resourceOptions))
		return m.add(ctx, identity.Loaded{Record: r})
	})
}

func (m *migration) groups(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, domain_id, name, description, extra FROM "group" ORDER BY id`, func(x row) error {
		members, err := x.extra()
		if err != nil {
			return m.refuse(identity.Group, x.text("id"), err)
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Group, ID: x.text("id"), Name: x.text("name"), Domain: x.text("domain_id"),
			Members: members.With("description", x.text("description"))}})
	})
}

// users copies the users with their newest passwords. A user of LDAP or of a
// federation has no password.
func (m *migration) users(ctx context.Context) error {
	return m.from.group(ctx, `SELECT u.id, u.domain_id, u.enabled, u.extra, u.default_project_id, l.name, n.name AS nonlocal_name, f.display_name, f.unique_id,
 p.password_hash, p.created_at_int, p.expires_at_int, p.self_service, o.option_id, o.option_value FROM "user" u
 LEFT JOIN local_user l ON l.user_id = u.id LEFT JOIN nonlocal_user n ON n.user_id = u.id LEFT JOIN federated_user f ON f.user_id = u.id
 LEFT JOIN password p ON p.local_user_id = l.id LEFT JOIN user_option o ON o.user_id = u.id
 ORDER BY u.id, p.created_at_int, p.id, o.option_id`, func(rows []row) error {
		x := rows[len(rows)-1] // the newest password
		members, err := x.extra()
		if err != nil {
			return m.refuse(identity.User, x.text("id"), err)
		}
		r := identity.Record{Kind: identity.User, ID: x.text("id"), Domain: x.text("domain_id"), Disabled: !x.yes("enabled"),
			Name: cmp.Or(x.text("name"), x.text("nonlocal_name"), x.text("display_name"), x.text("unique_id"))}
		r.Members = x.with(members, "default_project_id", "default_project_id").With("options", options(rows, userOptions))
		hash := x.text("password_hash")
		if hash != "" {
			r.Password = &identity.Password{Expires: x.micros("expires_at_int"), ByOwner: x.yes("self_service")}
			if t := x.micros("created_at_int"); t != nil {
				r.Password.Changed = *t
			}
		}
		return m.add(ctx, identity.Loaded{Record: r, Secret: hash})
	})
}

func (m *migration) services(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, type, enabled, extra FROM service ORDER BY id`, func(x row) error {
		members, err := x.extra()
		if err != nil {
			return m.refuse(identity.Catalog, x.text("id"), err)
		}
		name := members.Text("name")
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Catalog, ID: x.text("id"), Name: name, Disabled: !x.yes("enabled"),
			Members: x.with(nil, "type", "type").Join(members.Without("name", "type"))}})
	})
}

func (m *migration) endpoints(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, interface, service_id, url, extra, enabled, region_id FROM endpoint ORDER BY id`, func(x row) error {
		extra, err := x.extra()
		if err != nil {
			return m.refuse(identity.Endpoint, x.text("id"), err)
		}
		members := x.with(x.with(x.with(nil, "interface", "interface"), "url", "url"), "region_id", "region_id")
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Endpoint, ID: x.text("id"), Name: extra.Text("name"), Parent: x.text("service_id"),
			Disabled: !x.yes("enabled"), Members: members.Join(extra.Without("name", "interface", "url", "region_id"))}})
	})
}

func (m *migration) registeredLimits(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, service_id, region_id, resource_name, default_limit, description FROM registered_limit ORDER BY id`, func(x row) error {
		members := x.with(nil, "region_id", "region_id").With("resource_name", x.text("resource_name")).With("default_limit", x.number("default_limit"))
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.RegisteredLimit, ID: x.text("id"), Parent: x.text("service_id"),
			Members: x.with(members, "description", "description")}})
	})
}

func (m *migration) limits(ctx context.Context) error {
	return m.from.each(ctx, `SELECT l.id, l.project_id, l.domain_id, l.resource_limit, l.description, r.service_id, r.region_id, r.resource_name
 FROM "limit" l JOIN registered_limit r ON r.id = l.registered_limit_id ORDER BY l.id`, func(x row) error {
		members := x.with(nil, "region_id", "region_id").With("resource_name", x.text("resource_name")).With("resource_limit", x.number("resource_limit"))
		members = x.with(x.with(members, "description", "description"), "project_id", "project_id")
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Limit, ID: x.text("id"), Parent: x.text("service_id"), Domain: x.text("domain_id"), Members: members}})
	})
}

func (m *migration) accessRules(ctx context.Context) error {
	return m.from.each(ctx, `SELECT external_id AS id, user_id, service, path, method FROM access_rule ORDER BY id`, func(x row) error {
		members := identity.Members{}.With("service", x.text("service")).With("path", x.text("path")).With("method", x.text("method"))
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.AccessRule, ID: x.text("id"), Owner: x.text("user_id"), Members: members}})
	})
}

// applicationCredentials copies the application credentials, except for those with
// the scope of the system.
func (m *migration) applicationCredentials(ctx context.Context) error {
	return m.from.group(ctx, `SELECT a.id, a.name, a.secret_hash, a.description, a.user_id, a.project_id, a.expires_at, a.unrestricted, r.role_id, x.external_id
 FROM application_credential a LEFT JOIN application_credential_role r ON r.application_credential_id = a.internal_id
 LEFT JOIN application_credential_access_rule j ON j.application_credential_id = a.internal_id LEFT JOIN access_rule x ON x.id = j.access_rule_id
 ORDER BY a.id, r.role_id, x.external_id`, func(rows []row) error {
		x := rows[0]
		if x.null("project_id") {
			return m.refuse(identity.ApplicationCredential, x.text("id"), fmt.Errorf("an application credential needs a project"))
		}
		d := &identity.Delegation{ProjectID: x.text("project_id"), Expires: x.micros("expires_at"),
			RoleIDs: distinct(rows, "role_id"), AccessRuleIDs: distinct(rows, "external_id")}
		if !x.null("unrestricted") {
			unrestricted := x.yes("unrestricted")
			d.Unrestricted = &unrestricted
		}
		return m.add(ctx, identity.Loaded{Secret: x.text("secret_hash"), Record: identity.Record{Kind: identity.ApplicationCredential, ID: x.text("id"), Name: x.text("name"),
			Owner: x.text("user_id"), Delegation: d, Members: x.with(nil, "description", "description")}})
	})
}

// distinct returns the values of a column that are not NULL, each once.
func distinct(rows []row, column string) (values []string) {
	for _, x := range rows {
		if v := x.text(column); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// trusts copies the trusts that are not deleted, those that others redelegate
// first.
func (m *migration) trusts(ctx context.Context) error {
	join := ""
	for level := range identity.RedelegationsMax + 1 {
		above := ancestor("t", level)
		if level > 0 {
			join += fmt.Sprintf("JOIN trust %s ON %s.id = %s.redelegated_trust_id ", above, above, ancestor("t", level-1))
		}
		if err := m.trustsOf(ctx, join+`WHERE t.deleted_at IS NULL AND `+above+`.redelegated_trust_id IS NULL`); err != nil {
			return err
		}
	}
	return nil
}

func (m *migration) trustsOf(ctx context.Context, where string) error {
	return m.from.group(ctx, `SELECT t.id, t.trustor_user_id, t.trustee_user_id, t.project_id, t.impersonation, t.expires_at_int, t.remaining_uses, t.extra,
 t.redelegated_trust_id, t.redelegation_count, r.role_id FROM trust t LEFT JOIN trust_role r ON r.trust_id = t.id `+where+` ORDER BY t.id, r.role_id`, func(rows []row) error {
		x := rows[0]
		members, err := x.extra()
		if err != nil {
			return m.refuse(identity.Trust, x.text("id"), err)
		}
		d := &identity.Delegation{TrusteeID: x.text("trustee_user_id"), ProjectID: x.text("project_id"), RoleIDs: distinct(rows, "role_id"), Expires: x.micros("expires_at_int"),
			Impersonation: x.yes("impersonation"), SourceID: x.text("redelegated_trust_id"), Redelegations: int(x.number("redelegation_count"))}
		if !x.null("remaining_uses") {
			uses := int(x.number("remaining_uses"))
			d.Uses = &uses
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Trust, ID: x.text("id"), Owner: x.text("trustor_user_id"), Delegation: d,
			Members: members.Without("roles")}}) // Keystone keeps the request's roles there, too
	})
}

// credentials copies the credentials with their decrypted contents. The
// content of an EC2 credential is encrypted as a string of JSON, or as the object
// itself.
func (m *migration) credentials(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, user_id, project_id, type, extra, encrypted_blob FROM credential ORDER BY id`, func(x row) error {
		extra, err := x.extra()
		if err != nil {
			return m.refuse(identity.Credential, x.text("id"), err)
		}
		blob, _, err := token.Open(m.options.CredentialKeys, x.text("encrypted_blob"))
		if err != nil {
			return m.refuse(identity.Credential, x.text("id"), fmt.Errorf("no credential key decrypts it: %w", err))
		}
		content := string(blob)
		if x.text("type") == identity.TypeEC2 && json.Unmarshal(blob, &content) != nil {
			content = string(blob)
		}
		members := x.with(identity.Members{}.With("type", x.text("type")), "project_id", "project_id")
		return m.add(ctx, identity.Loaded{Secret: content, Record: identity.Record{Kind: identity.Credential, ID: x.text("id"), Owner: x.text("user_id"), Members: members.Join(extra)}})
	})
}
