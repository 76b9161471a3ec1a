package identity_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// signedBy returns a request that is signed with the secrets.
func (d *deployment) signedBy(consumer *identity.Record, secret, token, tokenSecret, verifier string) *oauth1.Request {
	d.t.Helper()
	d.signed++
	params := []string{"oauth_consumer_key=" + consumer.ID, fmt.Sprintf("oauth_nonce=%d", d.signed), "oauth_signature_method=HMAC-SHA1",
		fmt.Sprintf("oauth_timestamp=%d", d.clock.read().Unix()), "oauth_token=" + token, "oauth_verifier=" + verifier}
	mac := hmac.New(sha1.New, []byte(secret+"&"+tokenSecret))
	mac.Write([]byte("POST&http%3A%2F%2Fk%2F&" + oauth1.Escape(strings.Join(params, "&"))))
	header := "OAuth oauth_signature=\"" + oauth1.Escape(base64.StdEncoding.EncodeToString(mac.Sum(nil))) + `"`
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		header += fmt.Sprintf(", %s=%q", name, value)
	}
	r, err := oauth1.Parse("POST", &url.URL{Scheme: "http", Host: "k", Path: "/"}, header)
	d.ok(err)
	return r
}

// consumer makes a consumer.
func (d *deployment) consumer() (*identity.Record, string) {
	d.t.Helper()
	c, secret, err := d.CreateConsumer(d.t.Context(), identity.Members{}.With("description", "d"))
	d.ok(err)
	return c, secret
}

// requestToken makes a request token.
func (d *deployment) requestToken(c *identity.Record, secret, project string) (*identity.Record, string) {
	d.t.Helper()
	r, requested, err := d.CreateRequestToken(d.t.Context(), d.signedBy(c, secret, "", "", ""), project)
	d.ok(err)
	return r, requested
}

// accessToken makes an access token for the role member of a user on a project.
func (d *deployment) accessToken(user, project string) (*identity.Record, string) {
	d.t.Helper()
	member := d.find(identity.Role, "member")
	d.ok(d.Grant(d.t.Context(), identity.Grant{UserID: user, Target: project, RoleID: member.ID}))
	by, err := d.Issue(d.t.Context(), user, identity.Scope{ProjectID: project}, []string{"password"}, nil)
	d.ok(err)
	c, secret := d.consumer()
	r, requested := d.requestToken(c, secret, project)
	verifier, err := d.AuthorizeRequestToken(d.t.Context(), by, r.ID, []string{member.ID})
	d.ok(err)
	a, accessSecret, err := d.CreateAccessToken(d.t.Context(), d.signedBy(c, secret, r.ID, requested, verifier))
	d.ok(err)
	return a, accessSecret
}

// TestTokensOfOAuth1End checks that neither a request token, nor an access token,
// nor a token that was made with it lives longer than what it is made from.
func TestTokensOfOAuth1End(t *testing.T) {
	d := deploy(t)
	user, project := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.Project, Name: "p"})
	a, _ := d.accessToken(user.ID, project.ID)
	d.clock.move(24*time.Hour - 10*time.Minute)
	scope := identity.Scope{AccessTokenID: a.ID}
	x, err := d.Issue(t.Context(), user.ID, scope, []string{"oauth1"}, nil)
	d.ok(err)
	if !x.Payload.Expires.Equal(*a.Delegation.Expires) {
		t.Errorf("the token ends at %s, the access token at %s", x.Payload.Expires, a.Delegation.Expires)
	}
	_, err = d.Validate(t.Context(), x.Payload, x.Issued, 0)
	d.ok(err)
	d.clock.move(10 * time.Minute)
	_, err = d.Issue(t.Context(), user.ID, scope, []string{"oauth1"}, nil)
	d.fails(err, identity.Unauthorized, "Access token not found")

	c, secret := d.consumer()
	r, requested := d.requestToken(c, secret, project.ID)
	by, err := d.Issue(t.Context(), user.ID, identity.Scope{ProjectID: project.ID}, []string{"password"}, nil)
	d.ok(err)
	role := d.find(identity.Role, "member").ID
	verifier, err := d.AuthorizeRequestToken(t.Context(), by, r.ID, []string{role})
	d.ok(err)
	d.clock.move(8 * time.Hour)
	_, err = d.AuthorizeRequestToken(t.Context(), by, r.ID, []string{role})
	d.fails(err, identity.Unauthorized, "expired")
	_, _, err = d.CreateAccessToken(t.Context(), d.signedBy(c, secret, r.ID, requested, verifier))
	d.fails(err, identity.Unauthorized, "expired")
	// The next request token of the consumer removes it.
	d.requestToken(c, secret, project.ID)
	_, err = d.Get(t.Context(), identity.RequestToken, r.ID)
	d.fails(err, identity.NotFound, "Request token not found")
}

// TestOAuth1TokensOfOthers validates tokens whose access token belongs to another user
// or project, as a program with the keys could make them.
func TestOAuth1TokensOfOthers(t *testing.T) {
	d := deploy(t)
	user, project := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.Project, Name: "p"})
	a, _ := d.accessToken(user.ID, project.ID)
	x, err := d.Issue(t.Context(), user.ID, identity.Scope{AccessTokenID: a.ID}, []string{"oauth1"}, nil)
	d.ok(err)
	admin, other := d.find(identity.User, "admin"), d.find(identity.Project, "admin")
	c, secret := d.consumer()
	r, _ := d.requestToken(c, secret, project.ID)
	_, err = d.AuthorizeRequestToken(t.Context(), x, r.ID, a.Delegation.RoleIDs)
	d.fails(err, identity.Forbidden, "delegation") // it would live longer than the access token
	p := *x.Payload
	p.UserID = admin.ID
	_, err = d.Validate(t.Context(), &p, x.Issued, 0)
	d.fails(err, identity.NotFound, "Access token not found")
	p = *x.Payload
	p.ProjectID = other.ID
	_, err = d.Validate(t.Context(), &p, x.Issued, 0)
	d.fails(err, identity.NotFound, "Access token not found")
	for _, s := range []identity.Scope{{AccessTokenID: a.ID, TrustID: "t"}, {AccessTokenID: a.ID, ApplicationCredentialID: "c"}} {
		_, err = d.Issue(t.Context(), user.ID, s, []string{"oauth1"}, nil)
		d.fails(err, identity.Unauthorized, "two of")
	}
	_, err = d.Issue(t.Context(), admin.ID, identity.Scope{AccessTokenID: a.ID}, []string{"oauth1"}, nil)
	d.fails(err, identity.Unauthorized, "Access token not found")
}

// TestRequestTokensMax makes the largest number of request tokens of a consumer,
// and one more.
func TestRequestTokensMax(t *testing.T) {
	d := deploy(t)
	project := d.make(identity.Record{Kind: identity.Project, Name: "p"})
	c, secret := d.consumer()
	for range 1000 {
		d.requestToken(c, secret, project.ID)
	}
	_, _, err := d.CreateRequestToken(t.Context(), d.signedBy(c, secret, "", "", ""), project.ID)
	d.fails(err, identity.Forbidden, "maximum of 1000")
	other, otherSecret := d.consumer()
	d.requestToken(other, otherSecret, project.ID)
	d.clock.move(8 * time.Hour)
	d.requestToken(c, secret, project.ID)
	left, err := d.Referring(t.Context(), identity.Consumer, c.ID, identity.RequestToken)
	d.ok(err)
	if len(left) != 901 {
		t.Errorf("%d request tokens are left, want 901: a write removes 100", len(left))
	}
}
