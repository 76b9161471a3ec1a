package keystone_test

import (
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// TestComplianceConfig reads the rules for passwords, which have no other domain
// than the default one.
func TestComplianceConfig(t *testing.T) {
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Compliance: settings.Compliance{Pattern: ".{6,}", PatternDescription: "six characters"}})
	c.play(`
GET /v3/domains/default/config/security_compliance => 200 {"config":{"security_compliance":{"password_regex":".{6,}","password_regex_description":"six characters"}}}
GET /v3/domains/default/config/security_compliance/password_regex => 200 {"config":{"password_regex":".{6,}"}}
GET /v3/domains/default/config/security_compliance/password_expires_days => 403 Reading security compliance values other than
GET /v3/domains/{d}/config/security_compliance => 403 other than the default domain is not allowed or supported."
GET /v3/domains/nope/config/security_compliance => 404
PATCH /v3/domains/default/config/security_compliance {"config":{"security_compliance":{"password_regex":"x"}}} => 403 Group security_compliance is not supported
`, map[string]string{"d": c.id("domains", "domain", `"name":"d"`)})
	newCloud(t).play("GET /v3/domains/default/config/security_compliance => 200 {\"config\":{\"security_compliance\":{\"password_regex\":null,\"password_regex_description\":null}}}", nil)
}

func TestDomainConfig(t *testing.T) {
	c := newCloud(t)
	v := map[string]string{"d": c.id("domains", "domain", `"name":"d"`), "p": c.id("projects", "project", `"name":"p"`)}
	v["config"] = "/v3/domains/" + v["d"] + "/config"
	c.play(`
GET /v3/domains/config/default => 200 {"config":{"identity":{"driver":"sql","list_limit":null},"ldap":{
GET /v3/domains/config/identity/default => 200 {"config":{"identity":{"driver":"sql","list_limit":null}}}
GET /v3/domains/config/ldap/pool_retry_delay/default => 200 {"config":{"pool_retry_delay":0.1}}
GET /v3/domains/config/ldap/password/default => 403 Option password in group ldap is not supported
GET /v3/domains/config/nope/default => 403 Group nope is not supported
GET {config} => 404 Could not find any options in domain configuration for domain {d}.
GET {config}/identity => 404 Could not find group identity
GET {config}/ldap/url => 404 Could not find option url in group ldap
GET {config}/nope => 403 Group nope is not supported
GET {config}/ldap/nope => 403 Option nope in group ldap is not supported
PATCH {config}/identity {"config":{"identity":{"driver":"sql"}}} => 404 Could not find group identity
PUT /v3/domains/nope/config {"config":{"identity":{"driver":"ldap"}}} => 404 Could not find domain: nope.
PUT /v3/domains/{p}/config {"config":{"identity":{"driver":"ldap"}}} => 404 Could not find domain: {p}.
PUT {config} {"config":{}} => 403 No options specified
PUT {config} {"config":{"identity":{}}} => 403 The value of group identity specified in the config should be a dictionary of options
PUT {config} {"config":{"identity":1}} => 403 should be a dictionary
PUT {config} {"config":{"cache":{"driver":"x"}}} => 403 Group cache is not supported
PUT {config} {"config":{"ldap":{"color":"x"}}} => 403 Option color in group ldap is not supported
PUT {config} {"config":{"identity":{"driver":"ldap"}}} => 403 Invalid domain specific configuration: Option driver in group identity must be \"sql\", because this server has no LDAP: users and groups are in its store. Given: \"ldap\".
PUT {config} {"config":{"identity":{"driver":null}}} => 403 Given: null.
PUT {config} {"config":{"ldap":{"url":"ldap://a"}}} => 403 Invalid domain specific configuration: Group ldap is not supported, because this server has no LDAP: users and groups are in its store.
PUT {config} {"config":{"ldap":{"password":"secret"}}} => 403 no LDAP
PUT {config} {"config":{"identity":{"driver":"sql"},"ldap":{"url":"ldap://a"}}} => 403 no LDAP
GET {config} => 404
PUT {config} {"config":{"identity":{"driver":"sql"}}} => 201 {"config":{"identity":{"driver":"sql"}}}
PUT {config} {"config":{"identity":{"list_limit":5}}} => 200 {"config":{"identity":{"list_limit":5}}}
PATCH {config} {"config":{"identity":{"driver":"ldap"}}} => 403 no LDAP
PATCH {config} {"config":{"ldap":{"url":"ldap://a"}}} => 403 no LDAP
PATCH {config}/identity {"config":{"identity":{"driver":"ldap"}}} => 403 no LDAP
PATCH {config}/identity/driver {"config":{"driver":"ldap"}} => 403 no LDAP
PATCH {config}/ldap {"config":{"ldap":{"url":"ldap://a"}}} => 403 no LDAP
PATCH {config}/ldap/url {"config":{"url":"ldap://a"}} => 403 no LDAP
PATCH {config}/ldap/password {"config":{"password":"x"}} => 403 no LDAP
GET {config} => 200 {"config":{"identity":{"list_limit":5}}}
DELETE {config} => 204
GET {config} => 404
`, v)
	// A configuration that is stored or imported stays, and can be read and removed.
	c.loadConfig(v["d"], `{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://b","user":"u"}}`, `"secret"`)
	c.play(`
GET {config} => 200 {"config":{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://b","user":"u"}}}
GET {config}/ldap => 200 {"config":{"ldap":{"url":"ldap://b","user":"u"}}}
GET {config}/ldap/url => 200 {"config":{"url":"ldap://b"}}
GET {config}/ldap/password => 404 Could not find option password in group ldap
GET {config}/ldap/page_size => 404 Could not find option page_size
PATCH {config} {"config":{"identity":{"list_limit":0}}} => 200 {"config":{"identity":{"driver":"ldap","list_limit":0},"ldap":{"url":"ldap://b","user":"u"}}}
PATCH {config}/ldap/url {"config":{"url":"ldap://c"}} => 403 no LDAP
PATCH {config}/identity {"config":{"identity":{"driver":"sql"}}} => 200 "driver":"sql","list_limit":0
PATCH {config}/identity {"config":{"ldap":{"url":"x"}}} => 403 Trying to update group identity
PATCH {config}/identity {"config":{"identity":{"driver":"x"},"ldap":{"url":"x"}}} => 403 Trying to update group identity
PATCH {config}/identity/list_limit {"config":{"list_limit":false}} => 200 "list_limit":false
PATCH {config}/identity/list_limit {"config":{"driver":"x"}} => 403 Trying to update option list_limit
DELETE {config}/identity/list_limit => 204
DELETE {config}/identity/list_limit => 404 Could not find option list_limit
DELETE {config}/identity/driver => 204
GET {config} => 200 {"config":{"ldap":{"url":"ldap://b","user":"u"}}}
GET {config}/identity => 404
DELETE {config}/ldap/url => 204
DELETE {config}/ldap/user => 204
GET {config} => 404
DELETE {config}/ldap/password => 204
DELETE {config}/ldap/password => 404 Could not find option password
DELETE {config}/ldap => 404 Could not find group ldap
DELETE {config} => 204
`, v)
	c.loadConfig(v["d"], `{"ldap":{"url":"ldap://b"}}`, `"secret"`)
	c.play(`
PUT {config} {"config":{"identity":{"driver":"sql"}}} => 200 {"config":{"identity":{"driver":"sql"}}}
DELETE {config}/ldap/password => 404 Could not find option password
DELETE {config} => 204
`, v)
	c.loadConfig(v["d"], `{"identity":{"driver":"ldap"}}`, `"secret"`)
	c.play(`
PATCH /v3/domains/{d} {"domain":{"enabled":false}} => 200
DELETE /v3/domains/{d} => 204
GET {config} => 404 Could not find domain
`, v)
	// The secrets of the deleted configurations are gone.
	store, err := c.engine.StoreByAlias(t.Context(), "keystone", "default")
	if err != nil {
		t.Fatal(err)
	}
	if secret, err := store.Secret(t.Context(), authz.DocumentKey{Kind: "identity/domain_config-secret", Key: v["d"]}); err == nil {
		t.Errorf("the secret of a deleted domain is still there: %v", secret)
	}
}

// loadConfig stores the configuration of a domain as an import does.
func (c *cloud) loadConfig(domain, options, secret string) {
	c.t.Helper()
	store, err := c.engine.StoreByAlias(c.t.Context(), keystone.Name, keystone.DefaultStore)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := identity.Open(c.t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := identity.ParseMembers([]byte(options))
	if err != nil {
		c.t.Fatal(err)
	}
	refused, err := s.LoadRecords(c.t.Context(), []identity.Loaded{{Record: identity.Record{Kind: identity.DomainConfig, ID: domain, Domain: domain, Members: m}, Secret: secret}})
	if err != nil || len(refused) > 0 {
		c.t.Fatalf("refused %v, error %v", refused, err)
	}
}
