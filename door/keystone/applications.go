package keystone

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// applicationRoutes are the routes of application credentials and access rules.
var applicationRoutes = []route{
	{method: http.MethodGet, path: "/users/{user}/application_credentials", name: "ListApplicationCredentials", serve: (*call).listApplications},
	{method: http.MethodPost, path: "/users/{user}/application_credentials", name: "CreateApplicationCredential", serve: (*call).createApplication},
	{method: http.MethodGet, path: "/users/{user}/application_credentials/{id}", name: "GetApplicationCredential", serve: (*call).getApplication},
	{method: http.MethodDelete, path: "/users/{user}/application_credentials/{id}", name: "DeleteApplicationCredential", serve: (*call).deleteApplication},
	{method: http.MethodGet, path: "/users/{user}/access_rules", name: "ListAccessRules", serve: (*call).listAccessRules},
	{method: http.MethodGet, path: "/users/{user}/access_rules/{id}", name: "GetAccessRule", serve: (*call).getAccessRule},
	{method: http.MethodDelete, path: "/users/{user}/access_rules/{id}", name: "DeleteAccessRule", serve: (*call).deleteAccessRule},
}

// applications describes the bodies of application credentials.
var applications = &resource{
	kind: identity.ApplicationCredential, singular: "application_credential", plural: "application_credentials", closed: true,
	filters: []string{"name"},
	fields: []field{
		{name: "name", form: formName, required: true, max: 255}, {name: "description", null: true},
		{name: "secret", null: true}, {name: "expires_at", null: true},
		{name: "unrestricted", form: formBoolean, null: true}, {name: "project_id"},
		// These are read apart.
		{name: "roles", form: formAny}, {name: "access_rules", form: formAny},
	},
}

// accessRules describes access rules. They are made with application credentials.
var accessRules = &resource{
	kind: identity.AccessRule, singular: "access_rule", plural: "access_rules", filters: []string{"service", "path", "method"},
	show: func(o *object, r *identity.Record) {
		o.text("id", r.ID)
		o.members(r.Members)
	},
}

// expiryForm is the form of times that have no zone, as Keystone's.
const expiryForm = "2006-01-02T15:04:05.000000"

// createApplication answers POST /v3/users/{id}/application_credentials.
func (c *call) createApplication() error {
	if err := c.may("create_application_credential", target{"user_id": c.Params.At(0)}); err != nil {
		return err
	}
	if err := c.caller.ManageApplicationCredentials(true); err != nil {
		return err
	}
	m, err := c.read(applications, true)
	if err != nil {
		return err
	}
	n := identity.NewApplicationCredential{By: c.caller, Name: m.Text("name"), Secret: m.Text("secret")}
	if description, given := m.Get("description"); given {
		n.Members = n.Members.With("description", description)
	}
	if n.RoleIDs, err = c.roleIDs(m); err != nil {
		return err
	}
	if n.Expires, err = expiry(m); err != nil {
		return err
	}
	if value, given := m.Get("unrestricted"); given && string(value) != "null" {
		unrestricted := m.Bool("unrestricted", false)
		n.Unrestricted = &unrestricted
	}
	if n.Rules, err = rules(m); err != nil {
		return err
	}
	made, secret, err := c.id.CreateApplicationCredential(c.Context(), n)
	if err != nil {
		return err
	}
	return c.sendApplication(http.StatusCreated, made, secret)
}

// rules reads the access rules of a new application credential.
func rules(m identity.Members) (all []identity.Rule, err error) {
	value, given := m.Get("access_rules")
	if !given {
		return nil, nil
	}
	var list []map[string]string
	if json.Unmarshal(value, &list) != nil {
		return nil, invalidField("access_rules", string(value), "expected a list of objects whose members are strings")
	}
	for _, x := range list {
		all = append(all, identity.Rule{ID: x["id"], Service: x["service"], Method: x["method"], Path: x["path"]})
		for name := range x {
			if name != "id" && name != "service" && name != "method" && name != "path" {
				return nil, unexpected(name)
			}
		}
	}
	return all, nil
}

// sendApplication answers with an application credential. secret is its secret if
// it is new, otherwise "".
func (c *call) sendApplication(status int, r *identity.Record, secret string) error {
	c.shown = r.ID
	var o object
	o.begin("application_credential")
	if err := c.showApplication(&o, r, secret); err != nil {
		return err
	}
	o.end()
	return c.write(status, &o)
}

// showApplication appends the members of an application credential. Roles that do
// not exist any more are left out.
func (c *call) showApplication(o *object, r *identity.Record, secret string) error {
	delegated, err := c.rolesOf(r)
	if err != nil {
		return err
	}
	permitted, err := c.lookupAll(identity.AccessRule, r.Delegation.AccessRuleIDs)
	if err != nil {
		return err
	}
	o.text("id", r.ID)
	o.text("name", r.Name)
	o.member(r.Members, "description", "null")
	o.text("user_id", r.Owner)
	o.text("project_id", r.Delegation.ProjectID)
	o.raw("system", []byte("null"))
	o.timeOrNull("expires_at", r.Delegation.Expires, expiryForm)
	if u := r.Delegation.Unrestricted; u != nil {
		o.boolean("unrestricted", *u)
	} else {
		o.raw("unrestricted", []byte("null"))
	}
	c.showRoles(o, delegated, false)
	if len(permitted) > 0 {
		list(o, "access_rules", permitted, accessRules.show)
	}
	if secret != "" {
		o.text("secret", secret)
	}
	o.links(c.link("users", r.Owner, "application_credentials", r.ID))
	return nil
}

// listApplications answers GET /v3/users/{id}/application_credentials.
func (c *call) listApplications() error {
	if err := c.may("list_application_credentials", target{"user_id": c.Params.At(0)}); err != nil {
		return err
	}
	all, err := c.owned(applications)
	if err != nil {
		return err
	}
	var o object
	list(&o, applications.plural, all, func(o *object, r *identity.Record) {
		err = errors.Join(err, c.showApplication(o, r, ""))
	})
	if err != nil {
		return err
	}
	c.listLinks(&o, "")
	return c.write(http.StatusOK, &o)
}

// owned returns the records of the user in the path that the query selects, if the
// caller's token may read application credentials.
func (c *call) owned(x *resource) (selected []*identity.Record, err error) {
	if err := c.caller.ManageApplicationCredentials(false); err != nil {
		return nil, err
	}
	match, err := c.filter(x)
	if err != nil {
		return nil, err
	}
	all, err := c.id.Referring(c.Context(), identity.User, c.Params.At(0), x.kind)
	for _, r := range all {
		if match(r) {
			selected = append(selected, r)
		}
	}
	return selected, err
}

// application returns the application credential in the path, if the caller may
// call the operation on it. The rule gets the owner of the credential. The user in
// the path counts only if there is no such credential.
func (c *call) application(operation string, change bool) (*identity.Record, error) {
	r, err := c.lookup(identity.ApplicationCredential, c.Params.At(1))
	if err != nil {
		return nil, err
	}
	owner := c.Params.At(0)
	if r != nil {
		owner = r.Owner
	}
	if err := c.may(operation, target{"user_id": owner}); err != nil {
		return nil, err
	}
	if err := c.caller.ManageApplicationCredentials(change); err != nil {
		return nil, err
	}
	return c.id.Get(c.Context(), identity.ApplicationCredential, c.Params.At(1))
}

// getApplication answers GET /v3/users/{id}/application_credentials/{id}.
func (c *call) getApplication() error {
	r, err := c.application("get_application_credential", false)
	if err != nil {
		return err
	}
	return c.sendApplication(http.StatusOK, r, "")
}

// deleteApplication answers DELETE /v3/users/{id}/application_credentials/{id}.
func (c *call) deleteApplication() error {
	r, err := c.application("delete_application_credential", true)
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), identity.ApplicationCredential, r.ID); err != nil {
		return err
	}
	return c.done()
}

// accessRuleOwner returns the attributes for the rules of access rules.
func (c *call) accessRuleOwner() (target, error) {
	u, err := c.lookup(identity.User, c.Params.At(0))
	return users.targetOf(u), err
}

// listAccessRules answers GET /v3/users/{id}/access_rules.
func (c *call) listAccessRules() error {
	t, err := c.accessRuleOwner()
	if err != nil {
		return err
	}
	if err := c.may("list_access_rules", t); err != nil {
		return err
	}
	all, err := c.owned(accessRules)
	if err != nil {
		return err
	}
	var o object
	list(&o, accessRules.plural, all, c.showAccessRule)
	c.listLinks(&o, "")
	return c.write(http.StatusOK, &o)
}

func (c *call) showAccessRule(o *object, r *identity.Record) {
	accessRules.show(o, r)
	o.links(c.link("users", r.Owner, "access_rules", r.ID))
}

// accessRule returns the access rule in the path, if the caller may call the
// operation on it.
func (c *call) accessRule(operation string) (*identity.Record, error) {
	t, err := c.accessRuleOwner()
	if err != nil {
		return nil, err
	}
	if err := c.may(operation, t); err != nil {
		return nil, err
	}
	if err := c.caller.ManageApplicationCredentials(false); err != nil {
		return nil, err
	}
	r, err := c.lookup(identity.AccessRule, c.Params.At(1))
	if err == nil && (r == nil || r.Owner != c.Params.At(0)) {
		err = &statusError{http.StatusNotFound, "Could not find Access Rule: " + shorten(c.Params.At(1)) + "."}
	}
	return r, err
}

// getAccessRule answers GET /v3/users/{id}/access_rules/{id}.
func (c *call) getAccessRule() error {
	r, err := c.accessRule("get_access_rule")
	if err != nil {
		return err
	}
	var o object
	o.begin("access_rule")
	c.showAccessRule(&o, r)
	o.end()
	return c.write(http.StatusOK, &o)
}

// deleteAccessRule answers DELETE /v3/users/{id}/access_rules/{id}.
func (c *call) deleteAccessRule() error {
	r, err := c.accessRule("delete_access_rule")
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), identity.AccessRule, r.ID); err != nil {
		return err
	}
	return c.done()
}

// applicationRequest is the part "application_credential" of a request for a
// token.
type applicationRequest struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	User   *reference `json:"user"`
	Secret string     `json:"secret"`
}

// loginByApplication reads and verifies the part "application_credential" of a
// request. It returns the owner and the credential.
func (c *call) loginByApplication(text json.RawMessage) (user, credential *identity.Record, err error) {
	var a applicationRequest
	if err := jsonread.Unmarshal(text, &a); err != nil {
		return nil, nil, invalidField("application_credential", "", "expected an object with an id or a name")
	}
	if a.ID == "" {
		if a.ID, err = c.namedApplication(&a); err != nil {
			return nil, nil, err
		}
	}
	return c.id.LoginByApplicationCredential(c.Context(), a.ID, a.Secret)
}

// namedApplication returns the id of the application credential that a request
// names by its name and its user.
func (c *call) namedApplication(a *applicationRequest) (string, error) {
	const part = "application credential"
	switch {
	case a.Name == "":
		return "", expecting("name or ID", part)
	case a.User == nil:
		return "", expecting("user", part)
	case a.User.ID == "" && a.User.Name == "":
		return "", expecting("id or name", "user")
	}
	user, err := c.referencedUser(a.User)
	if err != nil {
		return "", err
	}
	if user == nil {
		return "", unauthorized("no such user")
	}
	found, err := orNil(c.id.Find(c.Context(), identity.ApplicationCredential, user.ID, a.Name))
	if err == nil && found == nil {
		err = unauthorized("no such application credential")
	}
	if err != nil {
		return "", err
	}
	return found.ID, nil
}

// referencedUser returns the user that a request names; nil if there is none.
func (c *call) referencedUser(ref *reference) (*identity.Record, error) {
	if ref.ID != "" {
		return c.lookup(identity.User, ref.ID)
	}
	if ref.Domain == nil {
		return nil, expecting("domain", "user")
	}
	d, err := c.find(identity.Project, ref.Domain, "")
	if err != nil || d == nil {
		return nil, err
	}
	return c.find(identity.User, ref, d.ID)
}

// accessRulesHeader is the header with which a caller declares that it checks the
// access rules of tokens. Its value is a version.
const accessRulesHeader = "OpenStack-Identity-Access-Rules"

// checksAccessRules returns whether the caller checks the access rules of tokens.
func (c *call) checksAccessRules() bool {
	version, err := strconv.ParseFloat(c.R.Header.Get(accessRulesHeader), 64)
	return err == nil && version >= 1
}

// identityType is the type of the identity service in catalogs and access rules.
const identityType = "identity"

// checkAccessRules fails with 401 unless the access rules of the caller's token
// permit the request, and its catalog has a service of type identity. They are
// compared with the path as the client sent it, so that no other text is compared
// than the one that chose the route, without a slash at its end. Any token may be
// validated. A request on behalf of a service comes with the token of one.
func (c *call) checkAccessRules() error {
	if len(c.caller.AccessRules) == 0 {
		return nil
	}
	path, method := strings.TrimSuffix(c.R.URL.EscapedPath(), "/"), c.R.Method
	for _, prefix := range prefixes {
		if method == http.MethodGet && path == prefix+"/auth/tokens" {
			return nil
		}
	}
	offered, _, err := c.offered(c.caller)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(offered, func(s *identity.Record) bool { return s.Members.Text("type") == identityType }) {
		return unauthorized("the catalog has no service of type " + identityType)
	}
	for _, r := range c.caller.AccessRules {
		if r.Permits(identityType, method, path) {
			return nil
		}
	}
	if text := c.R.Header.Get("X-Service-Token"); text != "" {
		if service, err := c.validate(text, 0); err == nil && len(service.AccessRules) == 0 && hasRole(service, serviceRole) {
			return nil
		}
	}
	return unauthorized("the access rules of the application credential do not allow the request")
}

// serviceRole is the name of the role of the users of services.
const serviceRole = "service"

func hasRole(t *identity.Token, name string) bool {
	for _, r := range t.Roles {
		if r.Name == name {
			return true
		}
	}
	return false
}
