package keystone

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/internal/identity"
)

// credentialRoutes are the routes of credentials of all types.
var credentialRoutes = []route{
	{method: http.MethodGet, path: "/credentials", name: "ListCredentials", serve: (*call).listCredentials},
	{method: http.MethodPost, path: "/credentials", name: "CreateCredential", serve: (*call).createCredential},
	{method: http.MethodGet, path: "/credentials/{id}", name: "GetCredential", serve: (*call).getCredential},
	{method: http.MethodPatch, path: "/credentials/{id}", name: "UpdateCredential", serve: (*call).updateCredential},
	{method: http.MethodDelete, path: "/credentials/{id}", name: "DeleteCredential", serve: (*call).deleteCredential},
}

// userCredentials are the secrets that users keep in the service. The content, the
// member "blob", is a secret of the store and no member of the record.
var userCredentials = &resource{
	kind: identity.Credential, singular: "credential", plural: "credentials", filters: []string{"user_id", "type"},
	fields: []field{
		{name: "blob", required: true}, {name: "type", required: true}, {name: "user_id", required: true},
		{name: "project_id", null: true},
	},
	target: func(t target, r *identity.Record) {
		t["target.credential.id"], t["target.credential.user_id"] = r.ID, r.Owner
		t["target.credential.type"], t["target.credential.project_id"] = r.Members.Text("type"), r.Members.Text("project_id")
	},
	show: func(o *object, r *identity.Record) {
		o.text("id", r.ID)
		o.text("user_id", r.Owner)
		o.member(r.Members, "type", `""`)
		o.member(r.Members, "project_id", "null")
		o.members(r.Members.Without("type", "project_id"))
	},
}

// credentialUpdate is what a PATCH of a credential may contain.
var credentialUpdate = &resource{singular: "credential", closed: true, fields: []field{{name: "blob"}}}

// notDelegated fails with 403 if the caller's token was made with delegated
// rights. action describes what such a token may not do.
func (c *call) notDelegated(action string) error {
	if c.caller.Delegated() {
		return forbidden(action)
	}
	return nil
}

func (c *call) mayUseCredentials() error {
	return c.notDelegated("Delegated tokens cannot access credentials directly")
}

// credential returns the credential of the path, if the caller may call the
// operation on it.
func (c *call) credential(operation string) (*identity.Record, error) {
	r, err := c.get(userCredentials, operation, c.Params.At(0))
	if err != nil {
		return nil, err
	}
	return r, c.mayUseCredentials()
}

// sendCredential answers with a credential and its content.
func (c *call) sendCredential(status int, r *identity.Record) error {
	blob, err := c.id.Blob(c.Context(), r)
	if err != nil {
		return err
	}
	return c.send(status, withBlob(map[string]string{r.ID: blob}), r)
}

// withBlob returns the resource of credentials that shows their contents, by id.
func withBlob(blobs map[string]string) *resource {
	x := *userCredentials
	x.show = func(o *object, r *identity.Record) {
		userCredentials.show(o, r)
		o.text("blob", blobs[r.ID])
	}
	return &x
}

func (c *call) getCredential() error {
	r, err := c.credential("get_credential")
	if err != nil {
		return err
	}
	return c.sendCredential(http.StatusOK, r)
}

// listCredentials answers GET /v3/credentials with the credentials that the
// caller may get: none with a delegated token.
func (c *call) listCredentials() error {
	t := target{}
	if !c.credentials.System {
		t["target.credential.user_id"] = c.credentials.UserID
	}
	if err := c.may("list_credentials", t); err != nil {
		return err
	}
	hidden := c.mayUseCredentials() != nil // as in Keystone, the list is empty
	selected, err := c.filter(userCredentials)
	if err != nil {
		return err
	}
	page, err := c.page(userCredentials, func(r *identity.Record) bool {
		return !hidden && selected(r) && c.may("get_credential", userCredentials.targetOf(r)) == nil
	})
	if err != nil {
		return err
	}
	records, more, err := c.id.List(c.Context(), page)
	if err != nil {
		return err
	}
	records, blobs, err := c.blobs(records)
	switch {
	case err != nil:
		return err
	case more && len(records) == 0: // the link to the next page would have no marker
		return &statusError{http.StatusServiceUnavailable, "The credentials of this page were deleted during the request. Please send it again."}
	}
	return c.sendRecords(withBlob(blobs), records, more)
}

// blobs returns the contents of credentials by their ids. It leaves out
// credentials that were deleted meanwhile.
func (c *call) blobs(records []*identity.Record) (kept []*identity.Record, blobs map[string]string, err error) {
	blobs = make(map[string]string, len(records))
	for _, r := range records {
		blob, err := c.id.Blob(c.Context(), r)
		if errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		kept, blobs[r.ID] = append(kept, r), blob
	}
	return kept, blobs, nil
}

func (c *call) createCredential() error {
	m, err := c.read(userCredentials, true)
	if err != nil {
		return err
	}
	if strings.EqualFold(m.Text("type"), identity.TypeEC2) && m.Text("project_id") == "" {
		return invalidField("credential", "", "'project_id' is a required property of the type ec2")
	}
	r := identity.Record{Kind: identity.Credential, Owner: m.Text("user_id"), Members: m.Without("blob", "user_id", "id", "links")}
	if err := c.may("create_credential", userCredentials.targetOfNew(&r, m.Without("blob"))); err != nil {
		return err
	}
	if err := c.mayUseCredentials(); err != nil {
		return err
	}
	made, err := c.id.CreateCredential(c.Context(), r, m.Text("blob"))
	if err != nil {
		return err
	}
	return c.sendCredential(http.StatusCreated, made)
}

func (c *call) updateCredential() error {
	r, err := c.credential("update_credential")
	if err != nil {
		return err
	}
	m, err := c.read(credentialUpdate, false)
	if err != nil {
		return err
	}
	if r, err = c.id.UpdateCredential(c.Context(), r.ID, m.Text("blob")); err != nil {
		return err
	}
	return c.sendCredential(http.StatusOK, r)
}

func (c *call) deleteCredential() error {
	r, err := c.credential("delete_credential")
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), identity.Credential, r.ID); err != nil {
		return err
	}
	return c.done()
}
