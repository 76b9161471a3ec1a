package keystone

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// oauth2Routes are the routes of OAuth 2.
var oauth2Routes = []route{
	{method: http.MethodPost, path: "/OS-OAUTH2/token", name: "IssueOAuth2Token", login: true, reads: true, anonymous: true, serve: (*call).oauth2Token},
}

// oauth2Error is an error in the form of RFC 6749, section 5.2.
type oauth2Error struct {
	status     int
	code, text string // members error and error_description
}

func (e *oauth2Error) Error() string { return e.text }

// oauth2Refused is the error of every client that cannot be authenticated.
var oauth2Refused = &oauth2Error{http.StatusUnauthorized, "invalid_client", "Client authentication failed."}

func oauth2Invalid(text string) error {
	return &oauth2Error{http.StatusBadRequest, "invalid_request", text}
}

// oauth2Token answers POST /v3/OS-OAUTH2/token: the client credentials grant of
// RFC 6749, section 4.4. The client is an application credential.
func (c *call) oauth2Token() error {
	t, err := c.oauth2Issue()
	var text string
	if err == nil {
		text, err = c.encode(t)
	}
	c.W.Header().Set("Cache-Control", "no-store")
	if err != nil {
		return c.sendOAuth2Error(err)
	}
	var o object
	o.text("access_token", text)
	o.text("token_type", "Bearer")
	o.number("expires_in", int(t.Payload.Expires.Sub(c.now()).Seconds()))
	return c.write(http.StatusOK, &o)
}

// sendOAuth2Error answers with an error in the form of RFC 6749.
func (c *call) sendOAuth2Error(err error) error {
	var e *oauth2Error
	if !errors.As(err, &e) {
		status, text := describe(err)
		switch e = (&oauth2Error{status, "other_error", text}); status {
		case http.StatusUnauthorized, http.StatusNotFound, http.StatusForbidden:
			e = oauth2Refused
		case http.StatusBadRequest:
			e.code = "invalid_request"
		case http.StatusInternalServerError:
			c.report(c.W, err)
		}
	}
	if e.status == http.StatusUnauthorized {
		logins.Fail(c.Context(), logins.Failure{Credential: logins.CredentialApplication, Reason: logins.Refused})
		c.W.Header().Set("WWW-Authenticate", c.challenge(c.R))
	}
	var o object
	o.text("error", e.code)
	o.text("error_description", e.text)
	return c.write(e.status, &o)
}

// oauth2Issue makes the token that a request asks for.
func (c *call) oauth2Issue() (*identity.Token, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	switch grant := form.Get("grant_type"); grant {
	case "client_credentials":
	case "":
		return nil, oauth2Invalid("The parameter grant_type is required.")
	default:
		return nil, &oauth2Error{http.StatusBadRequest, "unsupported_grant_type", "The parameter grant_type " + shorten(grant) + " is not supported."}
	}
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if name, password, ok := c.R.BasicAuth(); ok {
		id, secret = name, password
	}
	if id == "" || secret == "" || !c.id.Offers(identity.MethodApplicationCredential) {
		return nil, oauth2Refused
	}
	user, credential, err := c.id.LoginByApplicationCredential(c.Context(), id, secret)
	if err != nil {
		return nil, err
	}
	return c.id.Issue(c.Context(), user.ID, identity.Scope{ApplicationCredentialID: credential.ID}, []string{identity.MethodApplicationCredential}, nil)
}

// form reads the parameters of a body of the type
// application/x-www-form-urlencoded. A body of another type has none.
func (c *call) form() (url.Values, error) {
	b, err := c.Body()
	if err != nil {
		return nil, err
	}
	defer c.End()
	if media, err := c.Media("application/x-www-form-urlencoded"); err != nil || media == "" {
		return nil, nil
	}
	v, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, oauth2Invalid("The body is malformed: expected application/x-www-form-urlencoded.")
	}
	for name, values := range v {
		if len(values) > 1 {
			return nil, oauth2Invalid(fmt.Sprintf("The parameter %s occurs more than once.", shorten(name)))
		}
	}
	return v, nil
}
