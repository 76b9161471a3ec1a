package keystone

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/oauth1"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// oauth1Routes are the routes of OAuth 1: consumers ask for roles, and users
// delegate them.
var oauth1Routes = []route{
	{method: http.MethodGet, path: "/OS-OAUTH1/consumers", name: "ListConsumers", serve: consumers.listAll},
	{method: http.MethodPost, path: "/OS-OAUTH1/consumers", name: "CreateConsumer", serve: (*call).createConsumer},
	{method: http.MethodGet, path: "/OS-OAUTH1/consumers/{id}", name: "GetConsumer", serve: consumers.getOne},
	{method: http.MethodPatch, path: "/OS-OAUTH1/consumers/{id}", name: "UpdateConsumer", serve: (*call).updateConsumer},
	{method: http.MethodDelete, path: "/OS-OAUTH1/consumers/{id}", name: "DeleteConsumer", serve: consumers.remove},
	{method: http.MethodPost, path: "/OS-OAUTH1/request_token", name: "CreateRequestToken", anonymous: true, serve: (*call).createRequestToken},
	{method: http.MethodPost, path: "/OS-OAUTH1/access_token", name: "CreateAccessToken", login: true, anonymous: true, serve: (*call).createAccessToken},
	{method: http.MethodPut, path: "/OS-OAUTH1/authorize/{id}", name: "AuthorizeRequestToken", serve: (*call).authorizeRequestToken},
	{method: http.MethodGet, path: "/users/{user}/OS-OAUTH1/access_tokens", name: "ListAccessTokens", serve: (*call).listAccessTokens},
	{method: http.MethodGet, path: "/users/{user}/OS-OAUTH1/access_tokens/{id}", name: "GetAccessToken", serve: (*call).getAccessToken},
	{method: http.MethodDelete, path: "/users/{user}/OS-OAUTH1/access_tokens/{id}", name: "DeleteAccessToken", serve: (*call).deleteAccessToken},
	{method: http.MethodGet, path: "/users/{user}/OS-OAUTH1/access_tokens/{id}/roles", name: "ListRolesOfAccessToken", serve: (*call).listAccessRoles},
	{method: http.MethodGet, path: "/users/{user}/OS-OAUTH1/access_tokens/{id}/roles/{role}", name: "GetRoleOfAccessToken", serve: (*call).getAccessRole},
}

// consumers are the programs that users delegate roles to. The secret of a
// consumer is shown once, when it is made.
var consumers = &resource{
	kind: identity.Consumer, singular: "consumer", plural: "consumers", folder: "OS-OAUTH1",
	fields: []field{{name: "description", null: true}},
	target: func(target, *identity.Record) {},
	show: func(o *object, r *identity.Record) {
		o.text("id", r.ID)
		o.member(r.Members, "description", "null")
		o.members(r.Members.Without("description"))
	},
}

func (c *call) createConsumer() error {
	if err := c.may("create_consumer", nil); err != nil {
		return err
	}
	m, err := c.read(consumers, true)
	if err != nil {
		return err
	}
	r, secret, err := c.id.CreateConsumer(c.Context(), m.Without("id", "secret", "links"))
	if err != nil {
		return err
	}
	x := *consumers
	x.show = func(o *object, r *identity.Record) {
		consumers.show(o, r)
		o.text("secret", secret)
	}
	return c.send(http.StatusCreated, &x, r)
}

func (c *call) updateConsumer() error {
	old, err := c.named(consumers, "update")
	if err != nil {
		return err
	}
	m, err := c.read(consumers, false)
	if err != nil {
		return err
	}
	if _, given := m.Get("secret"); given {
		return invalidField("secret", "", "the secret of a consumer cannot be changed")
	}
	if id := m.Text("id"); id != "" && id != old.ID {
		return &statusError{http.StatusBadRequest, "Cannot change consumer ID"}
	}
	r, err := c.id.Update(c.Context(), identity.Consumer, old.ID, nil, false, func(r *identity.Record) error {
		for _, x := range m.Without("id", "links") {
			r.Members = r.Members.With(x.Name, x.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, consumers, r)
}

// signedOAuth reads the request as one that a consumer has signed.
func (c *call) signedOAuth() (*oauth1.Request, error) {
	c.shownBy = logins.CredentialOAuth1
	u, err := url.Parse(c.base(c.R) + "/v3" + pathBelow(c.R.URL.EscapedPath()))
	if err != nil {
		return nil, err
	}
	u.RawQuery = c.R.URL.RawQuery
	req, err := oauth1.Parse(c.R.Method, u, c.R.Header.Get("Authorization"))
	if errors.Is(err, oauth1.ErrMalformed) {
		return nil, &statusError{http.StatusBadRequest, "The Authorization header is invalid: " + err.Error()}
	}
	return req, err
}

// pathBelow returns the part of a path below the prefix of the API.
func pathBelow(path string) string {
	for _, prefix := range prefixes {
		if len(path) > len(prefix) && path[:len(prefix)] == prefix {
			return path[len(prefix):]
		}
	}
	return ""
}

// sendSigned answers with a token of OAuth 1 and its secret.
func (c *call) sendSigned(r *identity.Record, secret string) error {
	c.W.Header().Set("Content-Type", "application/x-www-form-urlencoded")
	c.W.WriteHeader(http.StatusCreated)
	_, _ = c.W.Write([]byte("oauth_token=" + r.ID + "&oauth_token_secret=" + secret + "&oauth_expires_at=" + r.Delegation.Expires.UTC().Format(timeForm)))
	return nil
}

// loginByOAuth1 verifies a request for a token that was signed with an access
// token.
func (c *call) loginByOAuth1() (user, access *identity.Record, err error) {
	req, err := c.signedOAuth()
	if err != nil {
		return nil, nil, err
	}
	if req.Get(oauth1.Token) == "" {
		return nil, nil, expecting(oauth1.Token, "request")
	}
	return c.id.LoginOAuth1(c.Context(), req)
}

// createRequestToken answers POST /v3/OS-OAUTH1/request_token, which a consumer
// signs.
func (c *call) createRequestToken() error {
	req, err := c.signedOAuth()
	if err != nil {
		return err
	}
	project := c.R.Header.Get("Requested-Project-Id")
	switch {
	case project == "":
		return expecting("Requested-Project-Id", "request")
	case req.Get(oauth1.Callback) == "":
		return expecting(oauth1.Callback, "request")
	}
	r, secret, err := c.id.CreateRequestToken(c.Context(), req, project)
	if err != nil {
		return err
	}
	return c.sendSigned(r, secret)
}

// createAccessToken answers POST /v3/OS-OAUTH1/access_token, which a consumer
// signs with its request token.
func (c *call) createAccessToken() error {
	req, err := c.signedOAuth()
	if err != nil {
		return err
	}
	for _, name := range []string{oauth1.Token, oauth1.Verifier} {
		if req.Get(name) == "" {
			return expecting(name, "request")
		}
	}
	r, secret, err := c.id.CreateAccessToken(c.Context(), req)
	if err != nil {
		return err
	}
	return c.sendSigned(r, secret)
}

// authorizeRequestToken answers PUT /v3/OS-OAUTH1/authorize/{id}: the caller gives
// roles to a request token.
func (c *call) authorizeRequestToken() error {
	if err := c.may("authorize_request_token", nil); err != nil {
		return err
	}
	m, err := c.bodyMembers()
	if err != nil {
		return err
	}
	if extra := m.Without("roles"); len(extra) > 0 {
		return unexpected(extra[0].Name)
	}
	roles, err := c.roleIDs(m)
	if err != nil {
		return err
	}
	verifier, err := c.id.AuthorizeRequestToken(c.Context(), c.caller, c.Params.At(0), roles)
	if err != nil {
		return err
	}
	var o object
	o.begin("token")
	o.text("oauth_verifier", verifier)
	o.end()
	return c.write(http.StatusOK, &o)
}

// accessToken returns the access token of the path, if the caller may call the
// operation.
func (c *call) accessToken(operation string) (*identity.Record, error) {
	if err := c.mayUseAccessTokens(operation); err != nil {
		return nil, err
	}
	r, err := c.id.Get(c.Context(), identity.AccessToken, c.Params.At(1))
	if err == nil && r.Owner != c.Params.At(0) {
		err = &statusError{http.StatusNotFound, "Access token not found"}
	}
	return r, err
}

func (c *call) mayUseAccessTokens(operation string) error {
	if err := c.may(operation, target{"user_id": c.Params.At(0)}); err != nil {
		return err
	}
	return c.notDelegated("Delegated tokens cannot access OAuth1 access tokens")
}

// showAccessToken appends an access token without its secret.
func (c *call) showAccessToken(o *object, r *identity.Record) {
	o.text("id", r.ID)
	o.text("consumer_id", r.Parent)
	o.text("authorizing_user_id", r.Owner)
	o.text("project_id", r.Delegation.ProjectID)
	o.timeOrNull("expires_at", r.Delegation.Expires, timeForm)
	path := []string{"users", r.Owner, "OS-OAUTH1", "access_tokens", r.ID}
	o.begin("links")
	o.text("roles", c.link(append(path, "roles")...))
	o.text("self", c.link(path...))
	o.end()
}

func (c *call) listAccessTokens() error {
	if err := c.mayUseAccessTokens("list_access_tokens"); err != nil {
		return err
	}
	all, err := c.id.Referring(c.Context(), identity.User, c.Params.At(0), identity.AccessToken)
	if err != nil {
		return err
	}
	var o object
	list(&o, "access_tokens", all, c.showAccessToken)
	c.listLinks(&o, "")
	return c.write(http.StatusOK, &o)
}

func (c *call) getAccessToken() error {
	r, err := c.accessToken("get_access_token")
	if err != nil {
		return err
	}
	var o object
	o.begin("access_token")
	c.showAccessToken(&o, r)
	o.end()
	return c.write(http.StatusOK, &o)
}

func (c *call) deleteAccessToken() error {
	r, err := c.accessToken("delete_access_token")
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), identity.AccessToken, r.ID); err != nil {
		return err
	}
	return c.done()
}

func (c *call) listAccessRoles() error {
	r, err := c.accessToken("list_access_token_roles")
	if err != nil {
		return err
	}
	all, err := c.rolesOf(r)
	if err != nil {
		return err
	}
	return c.sendRecords(roles, all, false)
}

func (c *call) getAccessRole() error {
	r, err := c.accessToken("get_access_token_role")
	if err != nil {
		return err
	}
	return c.sendDelegatedRole(r, c.Params.At(2))
}
