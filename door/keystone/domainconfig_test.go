package keystone_test

import (
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/identity/settings"
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
PATCH {config}/identity {"config":{"identity":{"driver":"x"}}} => 404 Could not find group identity
PUT /v3/domains/nope/config {"config":{"identity":{"driver":"ldap"}}} => 404 Could not find domain: nope.
PUT /v3/domains/{p}/config {"config":{"identity":{"driver":"ldap"}}} => 404 Could not find domain: {p}.
PUT {config} {"config":{}} => 403 No options specified
PUT {config} {"config":{"identity":{}}} => 403 The value of group identity specified in the config should be a dictionary of options
PUT {config} {"config":{"identity":1}} => 403 should be a dictionary
PUT {config} {"config":{"cache":{"driver":"x"}}} => 403 Group cache is not supported
PUT {config} {"config":{"ldap":{"color":"x"}}} => 403 Option color in group ldap is not supported
PUT {config} {"config":{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://a","password":"secret"}}} => 201 {"config":{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://a"}}}
PUT {config} {"config":{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://b","password":"secret"}}} => 200 {"config":{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://b"}}}
GET {config} => 200 {"config":{"identity":{"driver":"ldap"},"ldap":{"url":"ldap://b"}}}
GET {config}/ldap => 200 {"config":{"ldap":{"url":"ldap://b"}}}
GET {config}/ldap/url => 200 {"config":{"url":"ldap://b"}}
GET {config}/ldap/password => 404 Could not find option password in group ldap
GET {config}/ldap/user => 404 Could not find option user
PATCH {config} {"config":{"ldap":{"user":"u"},"identity":{"list_limit":0}}} => 200 {"config":{"identity":{"driver":"ldap","list_limit":0},"ldap":{"url":"ldap://b","user":"u"}}}
PATCH {config}/identity {"config":{"identity":{"driver":"sql"}}} => 200 "driver":"sql","list_limit":0
PATCH {config}/identity {"config":{"ldap":{"url":"x"}}} => 403 Trying to update group identity
PATCH {config}/identity {"config":{"identity":{"driver":"x"},"ldap":{"url":"x"}}} => 403 Trying to update group identity
PATCH {config}/identity/list_limit {"config":{"list_limit":false}} => 200 "list_limit":false
PATCH {config}/identity/list_limit {"config":{"driver":"x"}} => 403 Trying to update option list_limit
PATCH {config}/ldap/page_size {"config":{"page_size":1}} => 404 Could not find option page_size
PATCH {config}/ldap/password {"config":{"password":"new"}} => 200 {"config":{"identity":{"driver":"sql","list_limit":false},"ldap":{"url":"ldap://b","user":"u"}}}
DELETE {config}/identity/list_limit => 204
DELETE {config}/identity/list_limit => 404 Could not find option list_limit
DELETE {config}/identity/driver => 204
GET {config} => 200 {"config":{"ldap":{"url":"ldap://b","user":"u"}}}
GET {config}/identity => 404
DELETE {config}/ldap/url => 204
DELETE {config}/ldap/user => 204
GET {config} => 404
PATCH {config}/ldap/password {"config":{"password":"newer"}} => 200 {"config":{}}
DELETE {config}/ldap/password => 204
DELETE {config}/ldap/password => 404 Could not find option password
DELETE {config}/ldap => 404 Could not find group ldap
DELETE {config} => 204
PUT {config} {"config":{"ldap":{"password":"only"}}} => 201 {"config":{}}
PUT {config} {"config":{"ldap":{"password":"again"}}} => 200 {"config":{}}
DELETE {config} => 204
PUT {config} {"config":{"identity":{"driver":"ldap"},"ldap":{"password":"p"}}} => 201
PATCH /v3/domains/{d} {"domain":{"enabled":false}} => 200
DELETE /v3/domains/{d} => 204
GET {config} => 404 Could not find domain
`, v)
	// The secrets of the deleted configurations are gone.
	store, err := c.engine.StoreByAlias(t.Context(), "keystone", "default")
	if err != nil {
		t.Fatal(err)
	}
	if secret, err := store.Secret(t.Context(), ostiary.DocumentKey{Kind: "identity/domain_config-secret", Key: v["d"]}); err == nil {
		t.Errorf("the secret of a deleted domain is still there: %v", secret)
	}
}
