package migrate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ostiary/ostiary/internal/identity"
)

// mappings copies the rules of federation. The column rules is the JSON text of a
// string that is the JSON text of the list.
func (m *migration) mappings(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, rules, schema_version FROM mapping ORDER BY id`, func(x row) error {
		text := x.text("rules")
		var rules []json.RawMessage
		if json.Unmarshal([]byte(text), &text) != nil || json.Unmarshal([]byte(text), &rules) != nil {
			return m.refuse(x.text("id"), invalid("rules", "expected the JSON text of a list"))
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Mapping, ID: x.text("id"),
			Members: identity.Members{}.With("rules", rules).With("schema_version", x.text("schema_version"))}})
	})
}

// providers copies the identity providers.
func (m *migration) providers(ctx context.Context) error {
	return m.from.group(ctx, `SELECT i.id, i.domain_id, i.enabled, i.description, i.authorization_ttl, r.remote_id
 FROM identity_provider i LEFT JOIN idp_remote_ids r ON r.idp_id = i.id ORDER BY i.id, r.remote_id`, func(rows []row) error {
		x := rows[0]
		if x.number("authorization_ttl") > 0 {
			m.incomplete(x.text("id"), errors.New("authorization_ttl is left out: groups of a mapping end with the token"))
		}
		remote := append([]string{}, distinct(rows, "remote_id")...)
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.IdentityProvider, ID: x.text("id"), Domain: x.text("domain_id"), Disabled: !x.yes("enabled"),
			Members: x.with(nil, "description", "description").With("remote_ids", remote)}})
	})
}

// protocols copies the protocols of the identity providers.
func (m *migration) protocols(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, idp_id, mapping_id, remote_id_attribute FROM federation_protocol ORDER BY idp_id, id`, func(x row) error {
		members := x.with(identity.Members{}.With("mapping_id", x.text("mapping_id")), "remote_id_attribute", "remote_id_attribute")
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Protocol, ID: identity.ProtocolKey(x.text("idp_id"), x.text("id")), Members: members}})
	})
}

// serviceProviders copies the deployments that accept users of this one.
func (m *migration) serviceProviders(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, enabled, description, auth_url, sp_url, relay_state_prefix FROM service_provider ORDER BY id`, func(x row) error {
		members := x.with(nil, "description", "description")
		for _, column := range []string{"auth_url", "sp_url", "relay_state_prefix"} {
			members = x.with(members, column, column)
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.ServiceProvider, ID: x.text("id"), Disabled: !x.yes("enabled"), Members: members}})
	})
}

// domainConfigs copies the configurations of the domains. Options that a
// configuration cannot have here are left out.
func (m *migration) domainConfigs(ctx context.Context) error {
	return m.from.group(ctx, `SELECT domain_id AS id, "group" AS section, "option" AS name, value FROM whitelisted_config
 UNION ALL SELECT domain_id, "group", "option", value FROM sensitive_config ORDER BY 1, 2, 3`, func(rows []row) error {
		id := rows[0].text("id")
		l := identity.Loaded{Record: identity.Record{Kind: identity.DomainConfig, ID: id, Domain: id}}
		for _, x := range rows {
			if err := addOption(&l, x); err != nil {
				m.incomplete(id, err)
			}
		}
		if len(l.Members) == 0 && l.Secret == "" {
			return m.refuse(id, errors.New("none of the options has a place here"))
		}
		return m.add(ctx, l)
	})
}

// addOption adds the option of a row to a configuration. The error does not contain
// the value.
func addOption(l *identity.Loaded, x row) error {
	path := identity.ConfigPath{Group: x.text("section"), Option: x.text("name")}
	value := json.RawMessage(x.text("value"))
	if err := path.Validate(); err != nil {
		return err
	}
	if !json.Valid(value) {
		return errors.New(path.String() + ": invalid JSON")
	}
	if path.Secret() {
		l.Secret = string(value)
		return nil
	}
	text, _ := l.Members.Get(path.Group)
	options, _ := identity.ParseMembers(text) // none, or what an earlier row has added
	l.Members = l.Members.With(path.Group, options.With(path.Option, value))
	return nil
}
