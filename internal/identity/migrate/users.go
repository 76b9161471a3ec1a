package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
)

// userOptions are the names of the options of users by their ids in the database.
var userOptions = map[string]string{"1000": "ignore_change_password_upon_first_use", "1001": "ignore_password_expiry", "1002": "ignore_lockout_failure_attempts",
	"1003": "lock_password", "1004": "ignore_user_inactivity", "MFAR": "multi_factor_auth_rules", "MFAE": "multi_factor_auth_enabled"}

func (m *migration) groups(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, domain_id, name, description, extra FROM "group" ORDER BY id`, func(x row) error {
		members, err := x.extra("name", "domain_id", "description")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Group, ID: x.text("id"), Name: x.text("name"), Domain: x.text("domain_id"),
			Members: members.With("description", x.text("description"))}})
	})
}

// users copies the users with their passwords, also the previous ones, and with what
// is counted about their logins. A user of LDAP or of an identity provider has no
// password.
func (m *migration) users(ctx context.Context) error {
	return m.from.group(ctx, `SELECT u.id, u.domain_id, u.enabled, u.extra, u.default_project_id, u.created_at, u.last_active_at,
 l.name, l.failed_auth_count, l.failed_auth_at, n.name AS nonlocal_name, f.id AS federated_id, f.idp_id, f.protocol_id, f.unique_id, f.display_name,
 p.id AS password_id, p.password_hash, p.created_at_int, p.expires_at_int, p.self_service, o.option_id, o.option_value FROM "user" u
 LEFT JOIN local_user l ON l.user_id = u.id LEFT JOIN nonlocal_user n ON n.user_id = u.id LEFT JOIN federated_user f ON f.user_id = u.id
 LEFT JOIN password p ON p.local_user_id = l.id LEFT JOIN user_option o ON o.user_id = u.id
 ORDER BY u.id`, func(rows []row) error {
		// Ordered by its primary key only, the database needs no temporary table.
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(a.number("created_at_int"), b.number("created_at_int")), cmp.Compare(a.number("password_id"), b.number("password_id")),
				cmp.Compare(a.number("federated_id"), b.number("federated_id")), cmp.Compare(a.text("option_id"), b.text("option_id")))
		})
		l, err := m.user(rows)
		if err != nil {
			return m.refuse(rows[0].text("id"), err)
		}
		return m.add(ctx, l)
	})
}

// user returns the user of the rows, which are in the order of its passwords.
func (m *migration) user(rows []row) (l identity.Loaded, err error) {
	x := rows[len(rows)-1] // the newest password
	members, err := x.extra("name", "domain_id", "enabled", "default_project_id", "options", "password", "original_password", "password_expires_at", "federated")
	if err != nil {
		return l, err
	}
	l.Record = identity.Record{Kind: identity.User, ID: x.text("id"), Domain: x.text("domain_id"), Disabled: !x.yes("enabled"),
		Name: cmp.Or(x.text("name"), x.text("nonlocal_name"), x.text("display_name"), x.text("unique_id"))}
	if l.Name == "" {
		return l, errors.New("no name: expected a row of local_user, nonlocal_user or federated_user")
	}
	l.Members = x.with(members, "default_project_id", "default_project_id").With("options", m.resourceOptions(rows, userOptions))
	m.setPassword(&l, rows)
	m.setFederated(&l, rows)
	l.Failures = int(x.number("failed_auth_count"))
	for _, c := range []struct {
		column string
		time   *time.Time
	}{{"created_at", &l.Created}, {"failed_auth_at", &l.Failed}, {"last_active_at", &l.Used}} {
		if *c.time, err = x.timeOrZero(c.column); err != nil {
			return l, err
		}
	}
	return l, nil
}

// setPassword sets the newest password and those before it.
func (m *migration) setPassword(l *identity.Loaded, rows []row) {
	x := rows[len(rows)-1]
	hashes := newestFirst(rows)
	if x.text("password_hash") == "" {
		return // it was removed
	}
	for _, hash := range hashes {
		if err := password.Validate(hash); err != nil {
			m.incomplete(l.ID, fmt.Errorf("a password is left out, because its hash has an unknown form: expected bcrypt, bcrypt-sha256, scrypt or pbkdf2-sha512"))
			if hash == hashes[0] {
				return
			}
		} else if hash != hashes[0] {
			l.Before = append(l.Before, hash)
		}
	}
	l.Secret = hashes[0]
	l.Password = &identity.Password{Expires: x.micros("expires_at_int"), ByOwner: x.yes("self_service")}
	if t := x.micros("created_at_int"); t != nil {
		l.Password.Changed = *t
	}
}

// newestFirst returns the hashes of the rows of a user, the newest first.
func newestFirst(rows []row) (hashes []string) {
	last := ""
	for _, x := range slices.Backward(rows) {
		if id := x.text("password_id"); id != last && x.text("password_hash") != "" {
			hashes, last = append(hashes, x.text("password_hash")), id
		}
	}
	return hashes
}

// setFederated sets the identity provider that vouches for the user. A user has one
// here.
func (m *migration) setFederated(l *identity.Loaded, rows []row) {
	for i, id := range distinct(rows, "federated_id") {
		x := rows[slices.IndexFunc(rows, func(x row) bool { return x.text("federated_id") == id })]
		f := &identity.Federated{ProviderID: x.text("idp_id"), ProtocolID: x.text("protocol_id"), UniqueID: x.text("unique_id")}
		if i > 0 {
			m.incomplete(l.ID, fmt.Errorf("logins of identity provider %s with protocol %s are left out: a user has one identity provider here, %s", f.ProviderID, f.ProtocolID, l.Federated.ProviderID))
			continue
		}
		l.Federated = f
	}
}
