package keystone

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/identity"
)

// resource describes one kind of records of the API.
type resource struct {
	kind     identity.Kind
	singular string // name in bodies and operations, for example "user"
	plural   string // name in paths and lists, for example "users"
	folder   string // part of the path before plural, for example "OS-OAUTH1"; "" for none
	below    string // last part of a further link, for example "protocols"; "" for none
	// fields are the members that the record itself keeps, or that are checked. All
	// other members of a body are kept as they are.
	fields []field
	// closed refuses members that are no fields.
	closed bool
	// domains is true for domains, which are records of kind Project.
	domains bool
	// target adds the attributes of a record that rules use.
	target func(t target, r *identity.Record)
	// show appends the members of a record, without links.
	show func(o *object, r *identity.Record)
	// extra selects the members that the response to an update repeats in "extra"; nil if
	// it has no such object.
	extra func(identity.Members) identity.Members
	// filters are the parameters of the query that select records.
	filters []string
}

// field describes a member of a body.
type field struct {
	name     string
	form     form
	required bool
	null     bool     // null is allowed
	max      int      // largest number of characters of a text; 0 means no bound
	oneOf    []string // texts that are allowed; nil allows all
}

// form is the type of a member.
type form uint8

const (
	formText        form = iota // a string; the default
	formName                    // a string that is not empty
	formBoolean                 // true or false
	formOptions                 // an object of resource options
	formTexts                   // a list of strings
	formTags                    // the tags of a project
	formAny                     // a value of any type, which is checked where it is read
	formFilters                 // the filters of an endpoint group
	formLimit                   // a whole number from -1 to limitMax
	formNull                    // nothing but null
	formURL                     // a string that begins with a scheme
	formEndpointURL             // a URL that may have placeholders
)

// formNames are the types as errors name them.
var formNames = [...]string{formText: "string", formName: "string", formBoolean: "boolean", formOptions: "object", formTexts: "array", formTags: "array",
	formLimit: "integer", formNull: "null", formURL: "string", formEndpointURL: "string"}

// check validates a value.
func (f *field) check(value json.RawMessage) error {
	if string(value) == "null" && f.null {
		return nil
	}
	var err error
	var s string
	switch f.form {
	case formText, formName, formURL, formEndpointURL:
		err = json.Unmarshal(value, &s)
		if err == nil && string(value) == "null" {
			err = strconv.ErrSyntax
		}
	case formBoolean:
		if v := string(value); v != "true" && v != "false" {
			err = strconv.ErrSyntax
		}
	case formOptions:
		_, err = identity.ParseMembers(value)
	case formFilters:
		return checkFilters(value)
	case formTexts:
		_, err = textsOf(value)
	case formTags:
		var tags []string
		if tags, err = textsOf(value); err == nil {
			return checkTags(tags)
		}
	case formNull:
		err = strconv.ErrSyntax
	case formLimit:
		var n int64
		if n, err = strconv.ParseInt(string(value), 10, 64); err == nil && (n < -1 || n > limitMax) {
			return invalidField(f.name, string(value), "expected a number from -1, which means no limit, to "+strconv.Itoa(limitMax))
		}
	}
	switch {
	case err != nil:
		return invalidField(f.name, string(value), shorten(string(value))+" is not of type '"+formNames[f.form]+"'")
	case f.form == formName && strings.TrimSpace(s) == "":
		return invalidField(f.name, s, "'"+s+"' should be non-empty")
	case (f.form == formURL || f.form == formEndpointURL) && !hasScheme(s):
		return invalidField(f.name, s, "'"+shorten(s)+"' does not begin with a scheme, for example https:")
	case f.oneOf != nil && !slices.Contains(f.oneOf, s):
		return notOneOf(f.name, s, f.oneOf)
	case f.max > 0 && utf8.RuneCountInString(strings.TrimSpace(s)) > f.max:
		return invalidField(f.name, s, "the value is too long: at most "+strconv.Itoa(f.max)+" characters are allowed")
	case f.form == formEndpointURL:
		return checkEndpointURL(s)
	}
	return nil
}

// hasScheme returns whether a URL has a scheme and something after it.
func hasScheme(url string) bool {
	scheme, rest, ok := strings.Cut(url, ":")
	return ok && scheme != "" && rest != "" && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") == ""
}

// textsOf reads a list of strings, which may be empty.
func textsOf(value json.RawMessage) (list []string, err error) {
	var given []*string
	if err = json.Unmarshal(value, &given); err == nil && given == nil {
		err = strconv.ErrSyntax
	}
	for _, text := range given {
		if text == nil {
			return nil, strconv.ErrSyntax
		}
		list = append(list, *text)
	}
	return list, err
}

// read reads and validates a body. A new record needs all required fields.
func (c *call) read(x *resource, isNew bool) (identity.Members, error) {
	m, err := c.body(x.singular)
	if err != nil {
		return nil, err
	}
	if len(m) == 0 && !isNew {
		return nil, invalidField(x.singular, "{}", "expected at least one member")
	}
	return m, x.check(m, isNew)
}

// check validates the members of a body. A new record needs all required fields.
func (x *resource) check(m identity.Members, isNew bool) error {
	for i := range x.fields {
		f := &x.fields[i]
		value, given := m.Get(f.name)
		switch {
		case given:
			if err := f.check(value); err != nil {
				return err
			}
		case f.required && isNew:
			text, _ := m.MarshalJSON()
			return invalidField(x.singular, string(text), "'"+f.name+"' is a required property")
		}
	}
	for _, member := range m {
		if x.closed && !slices.ContainsFunc(x.fields, func(f field) bool { return f.name == member.Name }) {
			return unexpected(member.Name)
		}
	}
	return nil
}

// apply sets the fields of a record from a body. A default_project_id that is null
// is removed; other members that are null are stored as null.
func apply(r *identity.Record, m identity.Members) error {
	for _, x := range m {
		s := m.Text(x.Name)
		if r.Kind == identity.Policy && x.Name != "id" && x.Name != "links" { // all members are data
			r.Members = r.Members.With(x.Name, x.Value)
			continue
		}
		switch x.Name {
		case "name":
			r.Name = strings.TrimSpace(s)
		case "domain_id":
			r.Domain = s
		case "parent_id", "parent_region_id", "service_id":
			r.Parent = s
		case "is_domain":
			r.IsDomain = m.Bool("is_domain", false)
		case "enabled":
			r.Disabled = !m.Bool("enabled", true)
		case "id", "password", "links", "explicit_domain_id", "original_password":
		case "federated":
			return invalidField("federated", string(x.Value), "the first login of a federated user makes the record")
		case "default_project_id":
			r.Members = r.Members.Without(x.Name)
			if s != "" {
				r.Members = r.Members.With(x.Name, s)
			}
		case "options":
			if err := applyOptions(r, x.Value); err != nil {
				return err
			}
		default:
			r.Members = r.Members.With(x.Name, x.Value)
		}
	}
	return nil
}

// optionNames are the resource options, by kind.
var optionNames = map[identity.Kind][]string{
	identity.User: {"ignore_change_password_upon_first_use", "ignore_password_expiry", "ignore_lockout_failure_attempts",
		"ignore_user_inactivity", "lock_password", "multi_factor_auth_enabled", optionRules},
	identity.Project: {"immutable"},
	identity.Role:    {"immutable"},
}

// applyOptions merges options: null removes one, others stay.
func applyOptions(r *identity.Record, text json.RawMessage) error {
	given, err := identity.ParseMembers(text)
	if err != nil {
		return invalidField("options", string(text), "expected an object")
	}
	merged := identity.Members{}
	if old, ok := r.Members.Get("options"); ok {
		merged, _ = identity.ParseMembers(old) // it was validated
	}
	for _, o := range given {
		if !slices.Contains(optionNames[r.Kind], o.Name) {
			return invalidField("options", string(text), "'"+shorten(o.Name)+"' is not an option of a "+string(r.Kind))
		}
		if string(o.Value) == "null" {
			merged = merged.Without(o.Name)
			continue
		}
		if err := checkOption(o); err != nil {
			return err
		}
		merged = merged.With(o.Name, o.Value)
	}
	r.Members = r.Members.With("options", merged)
	return nil
}

// optionRules is the only option that is not true or false.
const optionRules = "multi_factor_auth_rules"

// checkOption refuses an option of the wrong type. Such an option would have no
// effect, although its record seems to be protected by it.
func checkOption(o identity.Member) error {
	switch value := string(o.Value); {
	case o.Name == optionRules && !validFactorRules(o.Value):
		return invalidField(o.Name, value, "expected a list of different lists of methods, each with one method at least and none twice")
	case o.Name != optionRules && value != "true" && value != "false":
		return invalidField(o.Name, value, "expected true or false")
	}
	return nil
}

// validFactorRules returns whether a value is a list of lists of methods. A list
// without a method is refused, because every login would satisfy it. As in Keystone,
// a list may occur once only.
func validFactorRules(value json.RawMessage) bool {
	var rules []json.RawMessage
	if json.Unmarshal(value, &rules) != nil || rules == nil {
		return false
	}
	var lists [][]string
	for _, text := range rules {
		methods, err := textsOf(text)
		if err != nil || len(methods) == 0 || len(slices.Compact(slices.Sorted(slices.Values(methods)))) < len(methods) {
			return false
		}
		if slices.ContainsFunc(lists, func(l []string) bool { return slices.Equal(l, methods) }) {
			return false
		}
		lists = append(lists, methods)
	}
	return true
}

// operation returns the name of a rule, for example "get_user". Roles of domains
// have rules of their own.
func (x *resource) operation(verb string, r *identity.Record) string {
	if x.kind == identity.Role && r != nil && r.Domain != "" {
		return verb + "_domain_role"
	}
	return verb + "_" + x.singular
}

// get returns the record that the path names, if the caller may call the
// operation on it. Without the record the rule decides between 403 and 404.
func (c *call) get(x *resource, operation, id string) (*identity.Record, error) {
	return c.getFor(x, id, func(*identity.Record) string { return operation })
}

// getFor is like get. operationOf returns the operation for the record, or for nil
// if there is none.
func (c *call) getFor(x *resource, id string, operationOf func(*identity.Record) string) (*identity.Record, error) {
	r, err := c.byID(x, id)
	operation := operationOf(r)
	status, _ := describe(err)
	if err != nil && status != http.StatusNotFound {
		return nil, err
	}
	if err != nil && foundFirst(operation) {
		return nil, err
	}
	t := x.targetOf(r)
	if r != nil && r.Kind == identity.Limit {
		c.addLimited(t, r)
	}
	if refused := c.may(operation, t); refused != nil {
		return nil, refused
	}
	return r, err
}

// byID returns a record. A project that is no domain does not exist as a domain.
func (c *call) byID(x *resource, id string) (*identity.Record, error) {
	r, err := c.id.Get(c.Context(), x.kind, id)
	if x.domains && (err == nil && !r.IsDomain || errors.Is(err, &identity.Error{Reason: identity.NotFound})) {
		return nil, &statusError{http.StatusNotFound, "Could not find domain: " + shorten(id) + "."}
	}
	return r, err
}

// foundFirst returns whether Keystone looks for the record of an operation before
// it asks the rule, so that every caller gets 404 if there is none.
func foundFirst(operation string) bool {
	switch operation {
	case "get_role", "update_role", "delete_role", "update_domain", "delete_domain", "delete_group", "update_limit", "delete_limit":
		return true
	}
	return false
}

// named returns the record of the path for one of the operations that every
// resource has.
func (c *call) named(x *resource, verb string) (*identity.Record, error) {
	return c.getFor(x, c.Params.At(0), func(r *identity.Record) string { return x.operation(verb, r) })
}

// path returns the segments of the resource's path.
func (x *resource) path() []string {
	if x.folder == "" {
		return []string{x.plural}
	}
	return []string{x.folder, x.plural}
}

// linkTo returns the URL of the resource and of what is below it.
func (c *call) linkTo(x *resource, below ...string) string {
	return c.link(append(x.path(), below...)...)
}

// send answers with one record.
func (c *call) send(status int, x *resource, r *identity.Record) error {
	c.shown = r.ID
	var o object
	o.begin(x.singular)
	x.show(&o, r)
	x.links(&o, c.linkTo(x, r.ID))
	o.end()
	return c.write(status, &o)
}

// links appends the links of a record.
func (x *resource) links(o *object, self string) {
	o.begin("links")
	o.text("self", self)
	if x.below != "" {
		o.text(x.below, self+"/"+x.below)
	}
	o.end()
}

func (x *resource) getOne(c *call) error {
	r, err := c.named(x, "get")
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, x, r)
}

func (x *resource) create(c *call) error {
	m, err := c.read(x, true)
	if err != nil {
		return err
	}
	return c.add(x, m)
}

// add creates the record of a body, and answers with it.
func (c *call) add(x *resource, m identity.Members) error {
	r, err := c.newRecord(x, m)
	if err != nil {
		return err
	}
	if err := c.may(x.operation("create", r), x.targetOfNew(r, m)); err != nil {
		return err
	}
	c.place(r)
	if x.kind == identity.Endpoint {
		if r.Members, err = c.regionOfEndpoint(r.Members); err != nil {
			return err
		}
	}
	made, err := c.id.Create(c.Context(), *r, password(m))
	if x.kind == identity.Project && errors.Is(err, &identity.Error{Reason: identity.NotFound}) { // the domain or the parent
		err = &statusError{http.StatusBadRequest, err.Error()}
	}
	if err != nil {
		return err
	}
	return c.send(http.StatusCreated, x, made)
}

// place sets the domain of a new user, group or project that names none. The rule
// that admits the caller has seen the record without it, as in Keystone: a manager
// of a domain names the domain.
func (c *call) place(r *identity.Record) {
	switch {
	case r.Domain != "" || r.IsDomain || r.Parent != "":
	case r.Kind == identity.User, r.Kind == identity.Group, r.Kind == identity.Project:
		r.Domain = c.defaultDomain()
	}
}

// newRecord returns the record of a body.
func (c *call) newRecord(x *resource, m identity.Members) (*identity.Record, error) {
	r := &identity.Record{Kind: x.kind, IsDomain: x.domains}
	if err := apply(r, m); err != nil {
		return nil, err
	}
	switch x.kind {
	case identity.Project:
		if x.domains {
			r.IsDomain, r.Domain, r.Parent = true, "", ""
			r.ID = m.Text("explicit_domain_id")
		}
	case identity.Region:
		r.ID = m.Text("id")
	case identity.EndpointGroup:
		if filters, _ := m.Get("filters"); emptyObject(filters) {
			return nil, &statusError{http.StatusBadRequest, "filters field is required and cannot be empty"}
		}
	}
	return r, nil
}

// defaultDomain returns the domain of a new record that names none: the domain of
// the token's scope, or else the default domain. The domain of a project in the
// scope does not count.
func (c *call) defaultDomain() string {
	if c.credentials.DomainID != "" {
		return c.credentials.DomainID
	}
	return identity.DefaultDomain
}

// password returns the member "password" of a body, or nil.
func password(m identity.Members) *string {
	value, ok := m.Get("password")
	if !ok || string(value) == "null" {
		return nil
	}
	s := m.Text("password")
	return &s
}

func (x *resource) update(c *call) error {
	old, err := c.named(x, "update")
	if err != nil {
		return err
	}
	m, err := c.read(x, false)
	if err != nil {
		return err
	}
	if id := m.Text("id"); id != "" && id != old.ID {
		return &statusError{http.StatusBadRequest, "Cannot change " + x.singular + " ID"}
	}
	if x.kind == identity.Endpoint {
		if m, err = c.regionOfEndpoint(m); err != nil {
			return err
		}
	}
	r, err := c.id.Update(c.Context(), x.kind, old.ID, password(m), false, func(r *identity.Record) error { return apply(r, m) })
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, x.updated(), r)
}

// updated returns the resource that shows a record after an update, which repeats some
// members in "extra".
func (x *resource) updated() *resource {
	if x.extra == nil {
		return x
	}
	y := *x
	y.show = func(o *object, r *identity.Record) {
		x.show(o, r)
		if _, given := r.Members.Get("extra"); !given {
			o.begin("extra")
			o.members(x.extra(r.Members))
			o.end()
		}
	}
	return &y
}

func (x *resource) remove(c *call) error {
	r, err := c.named(x, "delete")
	if err != nil {
		return err
	}
	if err := c.id.Delete(c.Context(), x.kind, r.ID); err != nil {
		return err
	}
	return c.done()
}
