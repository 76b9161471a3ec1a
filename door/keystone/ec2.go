package keystone

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/ec2"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// ec2Routes are the routes of EC2 credentials, and of the requests that were
// signed with them.
var ec2Routes = []route{
	{method: http.MethodGet, path: "/users/{user}/credentials/OS-EC2", name: "ListEC2Credentials", serve: (*call).listEC2},
	{method: http.MethodPost, path: "/users/{user}/credentials/OS-EC2", name: "CreateEC2Credential", serve: (*call).createEC2},
	{method: http.MethodGet, path: "/users/{user}/credentials/OS-EC2/{access}", name: "GetEC2Credential", serve: (*call).getEC2},
	{method: http.MethodDelete, path: "/users/{user}/credentials/OS-EC2/{access}", name: "DeleteEC2Credential", serve: (*call).deleteEC2},
	{method: http.MethodPost, path: "/ec2tokens", name: "IssueEC2Token", login: true, mayWrite: true, serve: (*call).ec2Token},
	{method: http.MethodPost, path: "/s3tokens", name: "IssueS3Token", login: true, mayWrite: true, serve: (*call).s3Token},
}

// mayUseEC2 checks the rule of an operation on the EC2 credentials of a user, and
// that the user exists.
func (c *call) mayUseEC2(operation, user string) error {
	if err := c.may(operation, target{"user_id": user, "target.credential.user_id": user}); err != nil {
		return err
	}
	if err := c.notDelegated("Delegated tokens cannot access EC2 credentials"); err != nil {
		return err
	}
	_, err := c.id.Get(c.Context(), identity.User, user)
	return err
}

// showEC2 appends an EC2 credential in the form of its own API.
func (c *call) showEC2(o *object, r *identity.Record, b *identity.EC2Blob) {
	o.text("user_id", r.Owner)
	o.textOrNull("tenant_id", r.Members.Text("project_id"))
	o.text("access", b.Access)
	o.text("secret", b.Secret)
	if b.TrustID == nil {
		o.raw("trust_id", []byte("null"))
	} else {
		o.text("trust_id", *b.TrustID)
	}
	o.links(c.link("users", r.Owner, "credentials", "OS-EC2", b.Access))
}

func (c *call) sendEC2(status int, r *identity.Record, b *identity.EC2Blob) error {
	var o object
	o.begin("credential")
	c.showEC2(&o, r, b)
	o.end()
	return c.write(status, &o)
}

// ec2Blob returns the parsed content of an EC2 credential.
func (c *call) ec2Blob(r *identity.Record) (*identity.EC2Blob, error) {
	text, err := c.id.Blob(c.Context(), r)
	if err != nil {
		return nil, err
	}
	return identity.ParseEC2(text)
}

func (c *call) listEC2() error {
	user := c.Params.At(0)
	if err := c.mayUseEC2("ec2_list_credentials", user); err != nil {
		return err
	}
	owned, err := c.id.Referring(c.Context(), identity.User, user, identity.Credential)
	if err != nil {
		return err
	}
	var records []*identity.Record
	blobs := map[string]*identity.EC2Blob{}
	for _, r := range owned {
		if r.Members.Text("type") != identity.TypeEC2 {
			continue
		}
		b, err := c.ec2Blob(r)
		if errors.Is(err, &identity.Error{Reason: identity.NotFound}) { // deleted meanwhile
			continue
		}
		if err != nil {
			return err
		}
		records, blobs[r.ID] = append(records, r), b
	}
	var o object
	list(&o, "credentials", records, func(o *object, r *identity.Record) { c.showEC2(o, r, blobs[r.ID]) })
	c.listLinks(&o, "")
	return c.write(http.StatusOK, &o)
}

func (c *call) createEC2() error {
	user := c.Params.At(0)
	if err := c.mayUseEC2("ec2_create_credential", user); err != nil {
		return err
	}
	m, err := c.bodyMembers()
	if err != nil {
		return err
	}
	if extra := m.Without("tenant_id"); len(extra) > 0 {
		return unexpected(extra[0].Name)
	}
	project := m.Text("tenant_id")
	if project == "" {
		return expecting("tenant_id", "request body")
	}
	r, b, err := c.id.CreateEC2(c.Context(), user, project)
	if err != nil {
		return err
	}
	return c.sendEC2(http.StatusCreated, r, b)
}

// ec2Credential returns the EC2 credential of the path, if the caller may call
// the operation on it. The rule is about the owner of the credential; the user of
// the path must only exist, as in Keystone.
func (c *call) ec2Credential(operation string) (*identity.Record, error) {
	user, id := c.Params.At(0), identity.EC2ID(c.Params.At(1))
	r, err := c.id.Get(c.Context(), identity.Credential, id)
	if err == nil && r.Members.Text("type") != identity.TypeEC2 {
		err = &statusError{http.StatusNotFound, "Could not find credential: " + id + "."}
	}
	if err != nil {
		return nil, err
	}
	if err := c.mayUseEC2(operation, r.Owner); err != nil {
		return nil, err
	}
	_, err = c.id.Get(c.Context(), identity.User, user)
	return r, err
}

func (c *call) getEC2() error {
	r, err := c.ec2Credential("ec2_get_credential")
	if err != nil {
		return err
	}
	b, err := c.ec2Blob(r)
	if err != nil {
		return err
	}
	return c.sendEC2(http.StatusOK, r, b)
}

func (c *call) deleteEC2() error {
	r, err := c.ec2Credential("ec2_delete_credential")
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), identity.Credential, r.ID); err != nil {
		return err
	}
	return c.done()
}

// signedRequest is a signed request in the body of a request to /v3/ec2tokens or
// /v3/s3tokens.
type signedRequest struct {
	Access    string           `json:"access"`
	Signature string           `json:"signature"`
	Host      string           `json:"host"`
	Verb      string           `json:"verb"`
	Path      string           `json:"path"`
	Params    identity.Members `json:"params"`
	Headers   identity.Members `json:"headers"`
	BodyHash  string           `json:"body_hash"`
	Token     string           `json:"token"` // the signed text, for S3
}

// signed reads the signed request in a body. The member has one of three names.
func (c *call) signed() (*signedRequest, error) {
	m, err := c.bodyMembers()
	if err != nil {
		return nil, err
	}
	if len(m) == 0 {
		return nil, expecting("credentials", "request body")
	}
	r := &signedRequest{}
	for _, name := range []string{"credentials", "credential", "ec2Credentials"} {
		value, ok := m.Get(name)
		if !ok {
			continue
		}
		if _, err := identity.ParseMembers(value); err != nil || jsonread.Unmarshal(value, r) != nil {
			return nil, &statusError{http.StatusBadRequest, "Invalid input for field/attribute " + name + ". expected a signed request"}
		}
		break
	}
	if r.Access == "" {
		return nil, unauthorized("no access key")
	}
	return r, nil
}

// texts returns parameters or headers as texts. Numbers and booleans have the
// form that a Python program signs.
func texts(m identity.Members) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for _, x := range m {
		var s string
		switch value := string(x.Value); {
		case json.Unmarshal(x.Value, &s) == nil && value != "null":
		case value == "true" || value == "false":
			s = strings.ToUpper(value[:1]) + value[1:]
		case strings.IndexByte("-0123456789", value[0]) >= 0:
			s = value
		default:
			return nil, invalidField(shorten(x.Name), "", "expected a string, a number or a boolean")
		}
		out[x.Name] = s
	}
	return out, nil
}

// ec2Token answers POST /v3/ec2tokens: a service asks for the token of the user
// who signed a request.
func (c *call) ec2Token() error {
	if err := c.may("ec2tokens_validate", nil); err != nil {
		return err
	}
	c.shownBy = logins.CredentialEC2
	s, err := c.signed()
	if err != nil {
		return err
	}
	r := ec2.Request{Signature: s.Signature, Host: s.Host, Verb: s.Verb, Path: s.Path, BodyHash: s.BodyHash}
	if r.Params, err = texts(s.Params); err != nil {
		return err
	}
	if r.Headers, err = texts(s.Headers); err != nil {
		return err
	}
	t, err := c.id.LoginEC2(c.Context(), s.Access, func(secret string) error { return r.Verify(secret, c.now()) })
	if err != nil {
		return err
	}
	text, err := c.encode(t)
	if err != nil {
		return err
	}
	return c.sendToken(http.StatusOK, t, text)
}

// s3Token answers POST /v3/s3tokens. Its response has no token that could be used
// elsewhere.
func (c *call) s3Token() error {
	if err := c.may("s3tokens_validate", nil); err != nil {
		return err
	}
	c.shownBy = logins.CredentialEC2
	s, err := c.signed()
	if err != nil {
		return err
	}
	t, err := c.id.LoginEC2(c.Context(), s.Access, func(secret string) error {
		if err := s.checkTimes(c.now()); err != nil {
			return err
		}
		return ec2.VerifyS3(secret, s.Token, s.Signature)
	})
	if err != nil {
		return err
	}
	var o object
	if err := c.tokenBody(&o, t); err != nil {
		return err
	}
	return c.write(http.StatusOK, &o)
}

// checkTimes checks the times that a service passes on with a request to S3.
func (s *signedRequest) checkTimes(now time.Time) error {
	for _, text := range []string{s.Params.Text("Timestamp"), s.Headers.Text("X-Amz-Date"), s.Params.Text("X-Amz-Date")} {
		if text == "" {
			continue
		}
		if err := ec2.CheckTime(text, now); err != nil {
			return err
		}
	}
	return nil
}
