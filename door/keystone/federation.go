package keystone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/mapping"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// federationFolder begins the paths of federation.
const federationFolder = "OS-FEDERATION"

// The resources of federation. Their ids are in the paths of the requests that make
// them.
var (
	providers = &resource{
		kind: identity.IdentityProvider, singular: "identity_provider", plural: "identity_providers", folder: federationFolder, below: "protocols", closed: true,
		filters: []string{"id", "enabled"},
		fields: []field{{name: "enabled", form: formBoolean}, {name: "description", null: true},
			{name: "remote_ids", form: formTexts, null: true}, {name: "domain_id", form: formName, null: true}, {name: "authorization_ttl", form: formNull, null: true}},
		target: func(target, *identity.Record) {},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.boolean("enabled", !r.Disabled)
			o.member(r.Members, "description", "null")
			o.member(r.Members, "remote_ids", "[]")
			o.text("domain_id", r.Domain)
			o.raw("authorization_ttl", []byte("null"))
		},
	}
	protocols = &resource{
		kind: identity.Protocol, singular: "protocol", plural: "protocols", closed: true,
		fields: []field{{name: "mapping_id", form: formName, required: true, max: 64}, {name: "remote_id_attribute", null: true, max: 64}},
	}
	mappings = &resource{
		kind: identity.Mapping, singular: "mapping", plural: "mappings", folder: federationFolder,
		target: func(target, *identity.Record) {},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.member(r.Members, "rules", "[]")
			o.text("schema_version", cmp.Or(r.Members.Text("schema_version"), string(mapping.Version1)))
			o.members(r.Members.Without("rules", "schema_version"))
		},
	}
	serviceProviders = &resource{
		kind: identity.ServiceProvider, singular: "service_provider", plural: "service_providers", folder: federationFolder, closed: true,
		filters: []string{"id", "enabled"},
		fields: []field{{name: "auth_url", form: formURL, required: true, max: urlMax}, {name: "sp_url", form: formURL, required: true, max: urlMax},
			{name: "enabled", form: formBoolean}, {name: "description", null: true}, {name: "relay_state_prefix", max: 256}},
		target: func(target, *identity.Record) {},
		show: func(o *object, r *identity.Record) {
			o.text("auth_url", r.Members.Text("auth_url"))
			o.text("id", r.ID)
			o.boolean("enabled", !r.Disabled)
			o.member(r.Members, "description", "null")
			o.text("relay_state_prefix", r.Members.Text("relay_state_prefix"))
			o.text("sp_url", r.Members.Text("sp_url"))
		},
	}
)

// urlMax is the largest number of characters of a URL of a service provider.
const urlMax = 225

// relayStatePrefix is the relay_state_prefix of a service provider that names none.
const relayStatePrefix = "ss:mem:"

// federationRoutes are the routes of federation.
func federationRoutes() (all []route) {
	for _, x := range []*resource{providers, mappings, serviceProviders} {
		name := map[*resource]string{providers: "IdentityProvider", mappings: "Mapping", serviceProviders: "ServiceProvider"}[x]
		path := "/" + federationFolder + "/" + x.plural
		all = append(all,
			route{method: http.MethodGet, path: path, name: "List" + name + "s", serve: x.listAll},
			route{method: http.MethodPut, path: path + "/{id}", name: "Create" + name, serve: func(c *call) error { return c.putFederation(x) }},
			route{method: http.MethodGet, path: path + "/{id}", name: "Get" + name, serve: x.getOne},
			route{method: http.MethodPatch, path: path + "/{id}", name: "Update" + name, serve: x.update},
			route{method: http.MethodDelete, path: path + "/{id}", name: "Delete" + name, serve: x.remove})
	}
	path := "/" + federationFolder + "/identity_providers/{provider}/protocols"
	one := path + "/{protocol}"
	return append(append(all, absentRoutes...),
		route{method: http.MethodGet, path: path, name: "ListProtocols", serve: (*call).listProtocols},
		route{method: http.MethodPut, path: one, name: "CreateProtocol", serve: (*call).putProtocol},
		route{method: http.MethodGet, path: one, name: "GetProtocol", serve: (*call).getProtocol},
		route{method: http.MethodPatch, path: one, name: "UpdateProtocol", serve: (*call).updateProtocol},
		route{method: http.MethodDelete, path: one, name: "DeleteProtocol", serve: (*call).deleteProtocol},
		route{method: http.MethodGet, path: one + "/auth", name: "FederatedLogin", login: true, mayWrite: true, anonymous: true, serve: (*call).loginFederated},
		route{method: http.MethodPost, path: one + "/auth", name: "FederatedLoginByPost", login: true, mayWrite: true, anonymous: true, serve: (*call).loginFederated},
		route{method: http.MethodGet, path: "/" + federationFolder + "/projects", name: "FederatedProjects", serve: func(c *call) error { return c.authTargets(projects) }},
		route{method: http.MethodGet, path: "/" + federationFolder + "/domains", name: "FederatedDomains", serve: func(c *call) error { return c.authTargets(domains) }})
}

// putFederation answers the PUT that makes an identity provider, a mapping or a
// service provider. A provider is disabled unless the body enables it.
func (c *call) putFederation(x *resource) error {
	if err := c.may("create_"+x.singular, nil); err != nil {
		return err
	}
	m, err := c.read(x, true)
	if err != nil {
		return err
	}
	if _, given := m.Get("relay_state_prefix"); x == serviceProviders && !given {
		m = m.With("relay_state_prefix", relayStatePrefix)
	}
	r := identity.Record{Kind: x.kind, ID: c.Params.At(0), Disabled: x != mappings}
	if err := apply(&r, m); err != nil {
		return err
	}
	made, err := c.id.PutFederation(c.Context(), r)
	if err != nil {
		return err
	}
	return c.send(http.StatusCreated, x, made)
}

// protocol returns the protocol that the path names, if the caller may call the
// operation.
func (c *call) protocol(operation string) (*identity.Record, error) {
	if err := c.may(operation, nil); err != nil {
		return nil, err
	}
	r, err := c.id.Get(c.Context(), identity.Protocol, identity.ProtocolKey(c.Params.At(0), c.Params.At(1)))
	if errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
		err = &statusError{http.StatusNotFound, "Could not find federated protocol " + shorten(c.Params.At(1)) + " for Identity Provider: " + shorten(c.Params.At(0)) + "."}
	}
	return r, err
}

func (c *call) sendProtocol(status int, r *identity.Record) error {
	var o object
	o.begin(protocols.singular)
	c.showProtocol(&o, r)
	o.end()
	return c.write(status, &o)
}

func (c *call) showProtocol(o *object, r *identity.Record) {
	provider, protocol := identity.ParseProtocolKey(r.ID)
	o.text("id", protocol)
	o.member(r.Members, "mapping_id", "null")
	base := c.link(federationFolder, providers.plural, provider)
	o.begin("links")
	o.text("self", base+"/protocols/"+escape(protocol))
	o.text("identity_provider", base)
	o.end()
}

func (c *call) listProtocols() error {
	if err := c.may("list_protocols", nil); err != nil {
		return err
	}
	provider := c.Params.At(0) // as in Keystone, an unknown one has no protocols
	of, err := c.id.Referring(c.Context(), identity.IdentityProvider, provider, identity.Protocol)
	if err != nil {
		return err
	}
	var o object
	list(&o, protocols.plural, of, func(o *object, r *identity.Record) {
		o.text("idp_id", provider)
		o.member(r.Members, "remote_id_attribute", "null")
		c.showProtocol(o, r)
	})
	c.listLinks(&o, "")
	return c.write(http.StatusOK, &o)
}

func (c *call) putProtocol() error {
	if err := c.may("create_protocol", nil); err != nil {
		return err
	}
	m, err := c.read(protocols, true)
	if err != nil {
		return err
	}
	r, err := c.id.PutFederation(c.Context(), identity.Record{Kind: identity.Protocol, ID: identity.ProtocolKey(c.Params.At(0), c.Params.At(1)), Members: m})
	if err != nil {
		return err
	}
	return c.sendProtocol(http.StatusCreated, r)
}

func (c *call) getProtocol() error {
	r, err := c.protocol("get_protocol")
	if err != nil {
		return err
	}
	return c.sendProtocol(http.StatusOK, r)
}

func (c *call) updateProtocol() error {
	old, err := c.protocol("update_protocol")
	if err != nil {
		return err
	}
	m, err := c.read(protocols, false)
	if err != nil {
		return err
	}
	r, err := c.id.Update(c.Context(), identity.Protocol, old.ID, nil, false, func(r *identity.Record) error { return apply(r, m) })
	if err != nil {
		return err
	}
	return c.sendProtocol(http.StatusOK, r)
}

func (c *call) deleteProtocol() error {
	r, err := c.protocol("delete_protocol")
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), identity.Protocol, r.ID); err != nil {
		return err
	}
	return c.done()
}

// Verifier verifies the tokens of identity providers. [oidc.Verifier] implements
// it.
type Verifier interface {
	// Verify returns what a signed token asserts. It fails with [oidc.ErrInvalid]
	// because of the token, and with other errors if the provider cannot be reached.
	Verify(ctx context.Context, token string) (*oidc.Verified, error)
}

// loginFederated answers GET and POST of a protocol's /auth: a login with a token
// of OpenID Connect in the header Authorization. The response has a token without a
// scope.
func (c *call) loginFederated() error {
	c.shownBy = logins.CredentialFederation
	scheme, text, _ := strings.Cut(c.R.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || text == "" || !c.id.Offers(identity.MethodMapped) {
		return unauthorized("no bearer token, or the method mapped is off")
	}
	if c.options.Providers == nil {
		return &statusError{http.StatusNotImplemented, "This server trusts no identity provider. Start it with --keystone-oidc to name one."}
	}
	verified, err := c.options.Providers.Verify(c.Context(), strings.TrimSpace(text))
	switch {
	case errors.Is(err, oidc.ErrInvalid):
		return unauthorized(err.Error())
	case err != nil:
		c.warnProvider(err)
		return &statusError{http.StatusServiceUnavailable, "The keys of the identity provider cannot be read now."}
	}
	t, err := c.id.LoginFederated(c.Context(), identity.Assertion{ProviderID: c.Params.At(0), ProtocolID: c.Params.At(1), Issuer: verified.Issuer, Attributes: verified.Attributes})
	if err != nil {
		return err
	}
	return c.sendNewToken(t)
}

// providerWarning is the shortest time between two warnings about identity providers,
// because callers without authentication can cause them.
const providerWarning = time.Minute

// warnProvider warns that an identity provider cannot be reached.
func (s *service) warnProvider(err error) {
	now, last := time.Now().UnixNano(), s.warned.Load()
	if now-last >= int64(providerWarning) && s.warned.CompareAndSwap(last, now) {
		s.options.Warn(fmt.Errorf("federated logins fail: %w", err))
	}
}

// showFederated appends how a federated token was made.
func showFederated(o *object, t *identity.Token) {
	o.begin("OS-FEDERATION")
	list(o, "groups", t.GroupIDs, func(o *object, id string) { o.text("id", id) })
	for _, m := range [][2]string{{"identity_provider", t.Payload.IdentityProvider}, {"protocol", t.Payload.Protocol}} {
		o.begin(m[0])
		o.text("id", m[1])
		o.end()
	}
	o.end()
}

// showFederatedUser appends the identity provider of a user.
func showFederatedUser(o *object, f *identity.Federated) {
	list(o, "federated", []*identity.Federated{f}, func(o *object, f *identity.Federated) {
		o.text("idp_id", f.ProviderID)
		list(o, "protocols", []*identity.Federated{f}, func(o *object, f *identity.Federated) {
			o.text("protocol_id", f.ProtocolID)
			o.text("unique_id", f.UniqueID)
		})
	})
}

// showServiceProviders appends the enabled service providers to a token, if there
// are any.
func (c *call) showServiceProviders(o *object) error {
	all, _, err := c.id.List(c.Context(), identity.ListRequest{Kind: identity.ServiceProvider, Match: enabled})
	if err != nil || len(all) == 0 {
		return err
	}
	list(o, serviceProviders.plural, all, func(o *object, r *identity.Record) {
		o.text("auth_url", r.Members.Text("auth_url"))
		o.text("id", r.ID)
		o.text("sp_url", r.Members.Text("sp_url"))
	})
	return nil
}

// withoutSAML answers the routes of SAML, and those of logins in a browser.
func (c *call) withoutSAML() error {
	return &statusError{http.StatusNotImplemented, "This server has neither SAML nor logins in a browser. Federated users log in with a token of OpenID Connect."}
}

// absentRoutes are the routes of federation that the door answers with 501.
var absentRoutes = []route{
	{method: http.MethodGet, path: "/" + federationFolder + "/saml2/metadata", name: "Metadata", anonymous: true, serve: (*call).withoutSAML},
	{method: http.MethodPost, path: "/auth/" + federationFolder + "/saml2", name: "Assertion", reads: true, anonymous: true, serve: (*call).withoutSAML},
	{method: http.MethodPost, path: "/auth/" + federationFolder + "/saml2/ecp", name: "ProxyAssertion", reads: true, anonymous: true, serve: (*call).withoutSAML},
	{method: http.MethodGet, path: "/auth/" + federationFolder + "/websso/{protocol}", name: "BrowserLogin", anonymous: true, serve: (*call).withoutSAML},
	{method: http.MethodPost, path: "/auth/" + federationFolder + "/websso/{protocol}", name: "BrowserLoginByPost", reads: true, anonymous: true, serve: (*call).withoutSAML},
	{method: http.MethodGet, path: "/auth/" + federationFolder + "/identity_providers/{provider}/protocols/{protocol}/websso", name: "BrowserLoginAt", anonymous: true, serve: (*call).withoutSAML},
	{method: http.MethodPost, path: "/auth/" + federationFolder + "/identity_providers/{provider}/protocols/{protocol}/websso", name: "BrowserLoginAtByPost", reads: true, anonymous: true, serve: (*call).withoutSAML},
}
