package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

func (m *migration) accessRules(ctx context.Context) error {
	return m.from.each(ctx, `SELECT external_id AS id, user_id, service, path, method FROM access_rule ORDER BY external_id`, func(x row) error {
		members := identity.Members{}.With("service", x.text("service")).With("path", x.text("path")).With("method", x.text("method"))
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.AccessRule, ID: x.text("id"), Owner: x.text("user_id"), Members: members}})
	})
}

// applicationCredentials copies the application credentials, except for those with
// the scope of the system.
func (m *migration) applicationCredentials(ctx context.Context) error {
	return m.from.group(ctx, `SELECT a.internal_id AS id, a.id AS application_id, a.name, a.secret_hash, a.description, a.user_id, a.project_id, a.expires_at, a.unrestricted, r.role_id, x.external_id
 FROM application_credential a LEFT JOIN application_credential_role r ON r.application_credential_id = a.internal_id
 LEFT JOIN application_credential_access_rule j ON j.application_credential_id = a.internal_id LEFT JOIN access_rule x ON x.id = j.access_rule_id
 ORDER BY a.internal_id, r.role_id, x.external_id`, func(rows []row) error {
		x := rows[0]
		if x.null("project_id") {
			return m.refuse(x.text("application_id"), errors.New("it has no project: application credentials for the system have no place here"))
		}
		if password.Validate(x.text("secret_hash")) != nil {
			return m.refuse(x.text("application_id"), errors.New("the hash of its secret has an unknown form: expected bcrypt, bcrypt-sha256, scrypt or pbkdf2-sha512"))
		}
		d := &identity.Delegation{ProjectID: x.text("project_id"), Expires: x.micros("expires_at"),
			RoleIDs: distinct(rows, "role_id"), AccessRuleIDs: distinct(rows, "external_id")}
		if !x.null("unrestricted") {
			unrestricted := x.yes("unrestricted")
			d.Unrestricted = &unrestricted
		}
		return m.add(ctx, identity.Loaded{Secret: x.text("secret_hash"), Record: identity.Record{Kind: identity.ApplicationCredential, ID: x.text("application_id"), Name: x.text("name"),
			Owner: x.text("user_id"), Delegation: d, Members: x.with(nil, "description", "description")}})
	})
}

// trusts copies the trusts that are not deleted, those that others redelegate
// first.
func (m *migration) trusts(ctx context.Context) error {
	sources := map[string]string{}
	err := m.from.each(ctx, `SELECT id, redelegated_trust_id FROM trust WHERE deleted_at IS NULL`, func(x row) error {
		sources[x.text("id")] = x.text("redelegated_trust_id")
		return nil
	})
	if err != nil {
		return err
	}
	return m.eachLevel(ctx, sources, identity.RedelegationsMax+1, func(onLevel func(string) bool) error { return m.trustsOf(ctx, onLevel) })
}

func (m *migration) trustsOf(ctx context.Context, selected func(id string) bool) error {
	return m.from.group(ctx, `SELECT t.id, t.trustor_user_id, t.trustee_user_id, t.project_id, t.impersonation, t.expires_at_int, t.remaining_uses, t.extra,
 t.redelegated_trust_id, t.redelegation_count, r.role_id FROM trust t LEFT JOIN trust_role r ON r.trust_id = t.id WHERE t.deleted_at IS NULL ORDER BY t.id, r.role_id`, func(rows []row) error {
		x := rows[0]
		if !selected(x.text("id")) {
			return nil
		}
		members, err := x.extra("roles") // Keystone keeps the request's roles there, too
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		d := &identity.Delegation{TrusteeID: x.text("trustee_user_id"), ProjectID: x.text("project_id"), RoleIDs: distinct(rows, "role_id"), Expires: x.micros("expires_at_int"),
			Impersonation: x.yes("impersonation"), SourceID: x.text("redelegated_trust_id"), Redelegations: int(x.number("redelegation_count"))}
		if !x.null("remaining_uses") {
			uses := int(x.number("remaining_uses"))
			d.Uses = &uses
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Trust, ID: x.text("id"), Owner: x.text("trustor_user_id"), Delegation: d, Members: members}})
	})
}

// nullKey is the key with which Keystone encrypts credentials if its folder of keys
// is empty.
var nullKey settings.Key

// credentials copies the credentials with their decrypted contents. The
// content of an EC2 credential is encrypted as a string of JSON, or as the object
// itself.
func (m *migration) credentials(ctx context.Context) error {
	keys := append(slices.Clone(m.options.CredentialKeys), nullKey)
	return m.from.each(ctx, `SELECT id, user_id, project_id, type, extra, encrypted_blob FROM credential ORDER BY id`, func(x row) error {
		extra, err := x.extra("type", "blob", "user_id", "project_id")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		blob, _, err := token.Open(keys, x.text("encrypted_blob"))
		if err != nil {
			return m.refuse(x.text("id"), fmt.Errorf("none of %d credential keys decrypts it: expected the folder of Keystone's [credential] key_repository", len(m.options.CredentialKeys)))
		}
		content := string(blob)
		if x.text("type") == identity.TypeEC2 && json.Unmarshal(blob, &content) != nil {
			content = string(blob)
		}
		m.checkEC2(x, content)
		members := x.with(identity.Members{}.With("type", x.text("type")), "project_id", "project_id")
		return m.add(ctx, identity.Loaded{Secret: content, Record: identity.Record{Kind: identity.Credential, ID: x.text("id"), Owner: x.text("user_id"), Members: members.Join(extra)}})
	})
}

// checkEC2 reports an EC2 credential that makes no tokens here.
func (m *migration) checkEC2(x row, content string) {
	if x.text("type") != identity.TypeEC2 {
		return
	}
	b, err := identity.ParseEC2(content)
	switch {
	case err != nil:
		m.incomplete(x.text("id"), fmt.Errorf("the EC2 credential makes no tokens: %w", err))
	case b.Delegated():
		m.incomplete(x.text("id"), errors.New("the EC2 credential makes no tokens here, because it was made with a trust, an application credential or an access token"))
	}
}

// consumers copies the programs that use OAuth 1.
func (m *migration) consumers(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, description, secret, extra FROM consumer ORDER BY id`, func(x row) error {
		extra, err := x.extra("description", "secret")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		return m.add(ctx, identity.Loaded{Secret: x.text("secret"), Record: identity.Record{Kind: identity.Consumer, ID: x.text("id"),
			Members: x.with(nil, "description", "description").Join(extra)}})
	})
}

func (m *migration) requestTokens(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, request_secret AS secret, verifier, authorizing_user_id, requested_project_id AS project_id, role_ids, consumer_id, expires_at FROM request_token ORDER BY id`, func(x row) error {
		return m.oauthToken(ctx, x, identity.Loaded{Verifier: x.text("verifier"), Record: identity.Record{Kind: identity.RequestToken}})
	})
}

func (m *migration) accessTokens(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, access_secret AS secret, authorizing_user_id, project_id, role_ids, consumer_id, expires_at FROM access_token ORDER BY id`, func(x row) error {
		return m.oauthToken(ctx, x, identity.Loaded{Record: identity.Record{Kind: identity.AccessToken}})
	})
}

// oauthToken copies a token of OAuth 1, unless it has expired. l has its kind.
func (m *migration) oauthToken(ctx context.Context, x row, l identity.Loaded) error {
	d := &identity.Delegation{ProjectID: x.text("project_id")}
	if !x.null("role_ids") {
		if err := json.Unmarshal([]byte(x.text("role_ids")), &d.RoleIDs); err != nil {
			return m.refuse(x.text("id"), invalid("role_ids", "expected a JSON list of ids"))
		}
	}
	if !x.null("expires_at") {
		end, err := x.time("expires_at")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		if !m.options.Now().Before(end) {
			m.read()
			m.leave(string(l.Kind), 1, "tokens of OAuth 1 that have expired")
			return nil
		}
		d.Expires = &end
	}
	l.ID, l.Parent, l.Owner, l.Delegation, l.Secret = x.text("id"), x.text("consumer_id"), x.text("authorizing_user_id"), d, x.text("secret")
	return m.add(ctx, l)
}
