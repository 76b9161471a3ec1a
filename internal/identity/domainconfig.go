package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
)

// domainDefaults are the options that the configuration of a domain may have, in
// groups and with their values in a Keystone without configuration.
const domainDefaults = `{
"identity": {"driver": "sql", "list_limit": null},
"ldap": {
"url": "ldap://localhost", "user": null, "suffix": "cn=example,cn=com", "query_scope": "one", "page_size": 0,
"alias_dereferencing": "default", "debug_level": null, "chase_referrals": null,
"user_tree_dn": null, "user_filter": null, "user_objectclass": "inetOrgPerson", "user_id_attribute": "cn", "user_name_attribute": "sn",
"user_mail_attribute": "mail", "user_description_attribute": "description", "user_pass_attribute": "userPassword",
"user_enabled_attribute": "enabled", "user_enabled_invert": false, "user_enabled_mask": 0, "user_enabled_default": "True",
"user_attribute_ignore": ["default_project_id"], "user_default_project_id_attribute": null, "user_enabled_emulation": false,
"user_enabled_emulation_dn": null, "user_enabled_emulation_use_group_config": false, "user_additional_attribute_mapping": [],
"group_tree_dn": null, "group_filter": null, "group_objectclass": "groupOfNames", "group_id_attribute": "cn", "group_name_attribute": "ou",
"group_members_are_ids": false, "group_member_attribute": "member", "group_desc_attribute": "description", "group_attribute_ignore": [],
"group_additional_attribute_mapping": [],
"tls_cacertfile": null, "tls_cacertdir": null, "use_tls": false, "tls_req_cert": "demand",
"use_pool": true, "pool_size": 10, "pool_retry_max": 3, "pool_retry_delay": 0.1, "pool_connection_timeout": -1, "pool_connection_lifetime": 600,
"use_auth_pool": true, "auth_pool_size": 100, "auth_pool_connection_lifetime": 60}
}`

// defaultConfig returns domainDefaults without spaces.
func defaultConfig() Members {
	var b bytes.Buffer
	_ = json.Compact(&b, []byte(domainDefaults)) // the text is constant and valid
	config, _ := ParseMembers(b.Bytes())
	return config
}

// ldapGroup is the group of options of an LDAP directory.
const ldapGroup = "ldap"

// The option that is a secret of the store. It can be removed, and is never shown.
const (
	domainSecretGroup = ldapGroup
	domainSecret      = "password"
)

// ConfigPath names a part of the configuration of a domain: all of it, one group
// of options, or one option of a group.
type ConfigPath struct {
	Group  string // group of options; "" for all groups
	Option string // option of the group; "" for all options
}

// check fails with Forbidden if there is no such group or option. An option that
// is a secret counts only if secrets is true.
func (p ConfigPath) check(secrets bool) error {
	if p.Group == "" {
		return nil
	}
	options, known := defaultConfig().Get(p.Group)
	if !known {
		return configError("Group " + p.Group + " is not supported for domain specific configurations")
	}
	if p.Option == "" || secrets && p.Secret() {
		return nil
	}
	if m, _ := ParseMembers(options); !m.has(p.Option) {
		return configError("Option " + p.Option + " in group " + p.Group + " is not supported for domain specific configurations")
	}
	return nil
}

// Validate fails with Forbidden if there is no such group or option.
func (p ConfigPath) Validate() error { return p.check(true) }

// Secret returns whether the option is a secret of the store, which is never shown.
func (p ConfigPath) Secret() bool { return p.Group == domainSecretGroup && p.Option == domainSecret }

// String returns the part as errors name it.
func (p ConfigPath) String() string {
	switch {
	case p.Option != "":
		return "option " + p.Option + " in group " + p.Group
	case p.Group != "":
		return "group " + p.Group
	}
	return "any options"
}

// selected returns the part of a configuration: groups of options, or one option.
// It is empty if the configuration lacks the part.
func (p ConfigPath) selected(config Members) (part Members) {
	if p.Group == "" {
		return config
	}
	text, ok := config.Get(p.Group)
	if !ok {
		return nil
	}
	if p.Option == "" {
		return part.With(p.Group, text)
	}
	options, _ := ParseMembers(text) // it was validated when it was stored
	if value, ok := options.Get(p.Option); ok {
		part = part.With(p.Option, value)
	}
	return part
}

func configError(why string) error {
	return failf(Forbidden, "Invalid domain specific configuration: %.400s.", strings.TrimSuffix(why, "."))
}

func (p ConfigPath) missing(domain string) error {
	return failf(NotFound, "Could not find %s in domain configuration for domain %s.", p, domain)
}

// DefaultDomainConfig returns a part of the default configuration of domains. It
// fails with Forbidden if there is no such group or option.
func DefaultDomainConfig(p ConfigPath) (Members, error) {
	if err := p.check(false); err != nil {
		return nil, err
	}
	return p.selected(defaultConfig()), nil
}

// complianceGroup is a group of options that the default domain has and that
// cannot be changed: what users must know of the rules for passwords.
const complianceGroup = "security_compliance"

// Compliance returns whether the path names the group of options
// security_compliance.
func (p ConfigPath) Compliance() bool { return p.Group == complianceGroup }

// ComplianceConfig returns the options password_regex and
// password_regex_description, or one of them. It fails with Forbidden for another
// domain than the default one, and for other options.
func (s *Service) ComplianceConfig(domain string, p ConfigPath) (Members, error) {
	if domain != DefaultDomain {
		return nil, configError("Reading security compliance information for any domain other than the default domain is not allowed or supported.")
	}
	var all Members
	for _, o := range [][2]string{{"password_regex", s.compliance.Pattern}, {"password_regex_description", s.compliance.PatternDescription}} {
		var value any
		if o[1] != "" {
			value = o[1]
		}
		all = all.With(o[0], value)
	}
	part := ConfigPath{complianceGroup, p.Option}.selected(Members{}.With(complianceGroup, all))
	if len(part) == 0 {
		return nil, configError("Reading security compliance values other than password_regex and password_regex_description is not allowed.")
	}
	return part, nil
}

// DomainConfig returns a part of the configuration of a domain, without secrets.
// It fails with NotFound if the domain has no such part, and with Forbidden if
// there is no such group or option.
func (s *Service) DomainConfig(ctx context.Context, domain string, p ConfigPath) (Members, error) {
	if err := p.check(true); err != nil {
		return nil, err
	}
	r, err := s.Get(ctx, DomainConfig, domain)
	if err == nil {
		if part := p.selected(r.Members); len(part) > 0 {
			return part, nil
		}
	}
	if err == nil || errors.Is(err, &Error{Reason: NotFound}) {
		err = p.missing(domain)
	}
	return nil, err
}

// SetDomainConfig replaces the configuration of a domain, and returns it without
// secrets. created is true if the domain had none. It fails with NotFound and
// Forbidden.
func (s *Service) SetDomainConfig(ctx context.Context, domain string, config Members) (shown Members, created bool, err error) {
	if err := checkConfig(config); err != nil {
		return nil, false, err
	}
	if err := checkNoLDAP(config); err != nil {
		return nil, false, err
	}
	err = s.writeConfig(ctx, domain, func(old Members, secret bool) (Members, bool, error) {
		created, shown = len(old) == 0 && !secret, config
		return config, false, nil
	})
	return withoutSecret(shown), created, err
}

// UpdateDomainConfig merges options into the configuration of a domain, and
// returns all of it without secrets. config has the form of the part that p
// names: groups, one group, or one option. UpdateDomainConfig fails with NotFound
// if the domain lacks the part, and with Forbidden.
func (s *Service) UpdateDomainConfig(ctx context.Context, domain string, p ConfigPath, config Members) (shown Members, err error) {
	if p.Option != "" {
		config = Members{}.With(p.Group, config)
	}
	if err := checkConfig(config); err != nil {
		return nil, err
	}
	if err := p.check(true); err != nil {
		return nil, err
	}
	if err := p.checkOnly(config); err != nil {
		return nil, err
	}
	if err := checkNoLDAP(config); err != nil {
		return nil, err
	}
	err = s.writeConfig(ctx, domain, func(old Members, secret bool) (Members, bool, error) {
		if p.Group != "" && !p.in(old, secret) {
			return nil, false, p.missing(domain)
		}
		merged := slices.Clone(old)
		for _, g := range config {
			text, _ := old.Get(g.Name)
			options, _ := ParseMembers(text) // none, or valid
			given, _ := ParseMembers(g.Value)
			for _, o := range given {
				options = options.With(o.Name, o.Value)
			}
			merged = merged.With(g.Name, options)
		}
		shown = merged
		return merged, secret, nil
	})
	return withoutSecret(shown), err
}

// checkOnly fails with Forbidden unless the configuration consists of the part
// alone.
func (p ConfigPath) checkOnly(config Members) error {
	if p.Group == "" {
		return nil
	}
	options, given := config.Get(p.Group)
	if !given || len(config) != 1 {
		return configError("Trying to update group " + p.Group + ", so that, and only that, group must be specified in the config")
	}
	if m, _ := ParseMembers(options); p.Option != "" && (len(m) != 1 || !m.has(p.Option)) {
		return configError("Trying to update option " + p.Option + " in group " + p.Group + ", so that, and only that, option must be specified in the config")
	}
	return nil
}

// in returns whether a configuration has the part. secret is true if it has the
// option that is a secret.
func (p ConfigPath) in(config Members, secret bool) bool {
	if secret && (p.Secret() || p == ConfigPath{Group: domainSecretGroup}) {
		return true
	}
	return len(p.selected(config)) > 0
}

// DeleteDomainConfig removes a part of the configuration of a domain. It fails with
// NotFound if the domain lacks the group or the option, and with Forbidden if
// there is no such group or option.
func (s *Service) DeleteDomainConfig(ctx context.Context, domain string, p ConfigPath) error {
	if err := p.check(true); err != nil {
		return err
	}
	return s.writeConfig(ctx, domain, func(old Members, secret bool) (Members, bool, error) {
		if p.Group == "" {
			return nil, false, nil
		}
		if !p.in(old, secret) {
			return nil, false, p.missing(domain)
		}
		if p.Secret() || p == (ConfigPath{Group: domainSecretGroup}) {
			secret = false
		}
		if p.Option == "" {
			return old.Without(p.Group), secret, nil
		}
		text, _ := old.Get(p.Group)
		options, _ := ParseMembers(text) // none, or valid
		if options = options.Without(p.Option); len(options) == 0 {
			return old.Without(p.Group), secret, nil
		}
		return old.With(p.Group, options), secret, nil
	})
}

// checkConfig fails with Forbidden unless a configuration consists of groups of
// options that exist.
func checkConfig(config Members) error {
	if len(config) == 0 {
		return configError("No options specified")
	}
	for _, g := range config {
		options, err := ParseMembers(g.Value)
		if err != nil || len(options) == 0 {
			return configError("The value of group " + g.Name + " specified in the config should be a dictionary of options")
		}
		for _, o := range options {
			if err := (ConfigPath{g.Name, o.Name}).check(true); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNoLDAP fails with Forbidden if a given configuration keeps the users of a domain
// elsewhere than in the store, because it would have no effect. A configuration that is
// stored or imported may do so: it can be read and removed.
func checkNoLDAP(config Members) error {
	const reason = ", because this server has no LDAP: users and groups are in its store"
	if config.has(ldapGroup) {
		return configError("Group " + ldapGroup + " is not supported" + reason)
	}
	driver, given := ConfigPath{"identity", "driver"}.selected(config).Get("driver")
	if given && string(driver) != `"sql"` {
		return configError("Option driver in group identity must be \"sql\"" + reason + ". Given: " + string(driver))
	}
	return nil
}

// writeConfig changes the configuration of a domain. change gets the options
// without secrets, and whether there is a secret. It returns the new options, and
// whether the secret stays; a secret among the options replaces it.
func (s *Service) writeConfig(ctx context.Context, domain string, change func(old Members, secret bool) (Members, bool, error)) error {
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		if x, err := d.get(Project, domain); err != nil || !x.IsDomain {
			return w, failf(NotFound, "Could not find domain: %.255s.", domain)
		}
		old := &Record{Kind: DomainConfig, ID: domain, Domain: domain}
		if found, err := d.get(DomainConfig, domain); err == nil {
			old = found
		}
		x := *old
		config, keep, err := change(old.Members, old.HasSecret)
		if err != nil {
			return w, err
		}
		x.Members, x.HasSecret = withoutSecret(config), keep
		if value := (ConfigPath{domainSecretGroup, domainSecret}).selected(config); value != nil {
			x.HasSecret = true
			w.Secrets = []authz.Document{x.sealed(string(value[0].Value))}
		} else if old.HasSecret && !keep {
			w.RemoveSecrets = []authz.DocumentKey{x.secretKey()}
		}
		if len(x.Members) == 0 && !x.HasSecret {
			w.RemoveDocuments = []authz.DocumentKey{x.key()}
		} else {
			w.Documents = []authz.Document{x.document()}
		}
		return w, nil
	})
	return err
}

// withoutSecret returns a configuration without the option that is a secret.
func withoutSecret(config Members) Members {
	text, ok := config.Get(domainSecretGroup)
	if !ok {
		return config
	}
	options, err := ParseMembers(text)
	if err != nil || !options.has(domainSecret) {
		return config
	}
	if options = options.Without(domainSecret); len(options) == 0 {
		return config.Without(domainSecretGroup)
	}
	return config.With(domainSecretGroup, options)
}
