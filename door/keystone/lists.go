package keystone

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/internal/identity"
)

// pageMax is the largest page of a list with a limit.
const pageMax = 1000

// listAll answers a list of records, selected by the query.
func (x *resource) listAll(c *call) error {
	operation := "list_" + x.plural
	if x.kind == identity.Role && c.query.Has("domain_id") {
		operation = "list_domain_roles"
	}
	if err := c.may(operation, c.listTarget()); err != nil {
		return err
	}
	match, err := c.filter(x)
	if err != nil {
		return err
	}
	return c.sendPage(x, match)
}

// listTarget returns the target of a list, which is filtered to the domain of the token's
// scope: that domain. It is empty for another scope.
func (c *call) listTarget() target {
	domain := c.credentials.DomainID
	if domain == "" {
		return nil
	}
	return target{"target.domain_id": domain, "target.domain.id": domain, "target.group.domain_id": domain}
}

// sendPage answers with the selected records: all of them, or a page if the query
// has a limit or a marker. All are of one revision.
func (c *call) sendPage(x *resource, match func(*identity.Record) bool) error {
	r, err := c.page(x, match)
	if err != nil {
		return err
	}
	view, err := c.id.View(c.Context())
	if err != nil {
		return err
	}
	limit := r.Limit
	out := c.beginRecords(x)
	for record, err := range view.Records(lasting{c.Context(), c}, r) {
		if err != nil {
			return err
		}
		if limit > 0 && out.records == limit {
			return out.end(true)
		}
		out.add(record)
	}
	return out.end(false)
}

// page returns the request for the records that sendPage sends.
func (c *call) page(x *resource, match func(*identity.Record) bool) (identity.ListRequest, error) {
	r := identity.ListRequest{Kind: x.kind, After: c.query.Get("marker"), Match: match}
	if slices.Contains(x.filters, "name") {
		r.Name = c.query.Get("name")
	}
	var err error
	if r.Limit, err = c.limit(); err != nil || r.After == "" {
		return r, err
	}
	marked, err := c.lookup(x.kind, r.After)
	if err == nil && marked == nil {
		err = &statusError{http.StatusNotFound, "Marker " + shorten(r.After) + " could not be found."}
	}
	return r, err
}

func (c *call) limit() (int, error) {
	text, given := c.query["limit"]
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(text[0])
	if err != nil || n < 0 {
		return 0, invalidField("limit", text[0], "expected a number that is not negative")
	}
	if n == 0 || n > pageMax {
		n = pageMax
	}
	return n, nil
}

// sendSelected answers with those of the records that match selects: all of them, or a
// page if the query has a limit or a marker.
func (c *call) sendSelected(x *resource, all []*identity.Record, match func(*identity.Record) bool) error {
	page, err := c.page(x, match)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r *identity.Record) bool { return r.ID <= page.After || !match(r) })
	slices.SortFunc(all, func(a, b *identity.Record) int { return strings.Compare(a.ID, b.ID) })
	more := page.Limit > 0 && len(all) > page.Limit
	if more {
		all = all[:page.Limit]
	}
	return c.sendRecords(x, all, more)
}

// sendRecords answers with a list of records. more adds the link to the next page.
func (c *call) sendRecords(x *resource, records []*identity.Record, more bool) error {
	out := c.beginRecords(x)
	for _, r := range records {
		out.add(r)
	}
	return out.end(more)
}

// recordList is a response with a list of records, in progress.
type recordList struct {
	*call
	*object
	resource *resource
	base     string // URL of the resource
	records  int    // how many were added
	last     string // id of the last one
}

func (c *call) beginRecords(x *resource) *recordList {
	l := &recordList{call: c, object: c.long(), resource: x, base: c.linkTo(x)}
	l.beginList(x.plural)
	return l
}

func (l *recordList) add(r *identity.Record) {
	l.beginElement()
	l.resource.show(l.object, r)
	l.resource.links(l.object, l.base+"/"+escape(r.ID))
	l.endElement()
	l.records, l.last = l.records+1, r.ID
}

// end ends the response. more adds the link to the next page.
func (l *recordList) end(more bool) error {
	l.endList()
	next := ""
	if more {
		q := cloneQuery(l.query)
		q.Set("marker", l.last)
		path, _, _ := strings.Cut(l.self(l.R), "?")
		next = path + "?" + q.Encode()
	}
	l.listLinks(l.object, next)
	if more {
		l.boolean("truncated", true)
	}
	return l.write(http.StatusOK, l.object)
}

// listLinks appends the links of a list.
func (c *call) listLinks(o *object, next string) {
	o.begin("links")
	o.textOrNull("next", next)
	o.text("self", c.self(c.R))
	o.raw("previous", []byte("null"))
	o.end()
}

func cloneQuery(q url.Values) url.Values {
	out := url.Values{}
	for name, values := range q {
		out[name] = values
	}
	return out
}

// filter returns the function that selects the records of a list by the query.
// Parameters that are no filters are ignored. A token with the scope of a domain
// sees users, groups and projects of that domain only.
func (c *call) filter(x *resource) (func(*identity.Record) bool, error) {
	all, err := c.matches(x)
	if err != nil {
		return nil, err
	}
	if d := c.credentials.DomainID; d != "" && (x.kind == identity.User || x.kind == identity.Group || x.kind == identity.Project) {
		all = append(all, func(r *identity.Record) bool { return r.Domain == d || r.IsDomain && r.ID == d })
	}
	if special := c.specialFilter(x); special != nil {
		all = append(all, special)
	}
	return allOf(all), nil
}

// allOf returns the function that selects the records that all of some functions select.
func allOf(all []func(*identity.Record) bool) func(*identity.Record) bool {
	return func(r *identity.Record) bool {
		for _, match := range all {
			if !match(r) {
				return false
			}
		}
		return true
	}
}

// matches returns a function for each parameter of the query that is a filter of the
// resource. Each selects records.
func (c *call) matches(x *resource) (all []func(*identity.Record) bool, err error) {
	for parameter, values := range c.query {
		name, comparator, _ := strings.Cut(parameter, "__")
		if !slices.Contains(x.filters, name) {
			if x.kind == identity.Region { // as in Keystone, which ignores it elsewhere
				return nil, &statusError{http.StatusBadRequest, "Additional properties are not allowed ('" + shorten(parameter) + "' was unexpected)"}
			}
			continue
		}
		match, err := filterOf(name, comparator, values[0])
		if err != nil {
			return nil, err
		}
		if match != nil {
			all = append(all, match)
		}
	}
	return all, nil
}

// specialFilter returns the function that leaves domains out of the list of
// projects, and roles of domains out of the list of roles, unless the query
// selects them; nil if a list needs neither.
func (c *call) specialFilter(x *resource) func(*identity.Record) bool {
	switch {
	case x.kind == identity.Project && x.domains:
		return func(r *identity.Record) bool { return r.IsDomain }
	case x.kind == identity.Project:
		domains := c.query.Has("is_domain") && truth(c.query.Get("is_domain"))
		return func(r *identity.Record) bool { return r.IsDomain == domains }
	case x.kind == identity.Role && !c.query.Has("domain_id"):
		return func(r *identity.Record) bool { return r.Domain == "" }
	}
	return nil
}

// truth is the value of a parameter that is a flag.
func truth(value string) bool {
	return value == "" || value == "1" || strings.EqualFold(value, "true") || strings.EqualFold(value, "yes")
}

// filterOf returns the function that selects records by one parameter; nil if the
// comparator is unknown.
func filterOf(name, comparator, want string) (func(*identity.Record) bool, error) {
	if name == "enabled" {
		enabled := truth(want)
		if !enabled && want != "0" && !strings.EqualFold(want, "false") && !strings.EqualFold(want, "no") {
			return nil, invalidField("enabled", want, "expected true or false")
		}
		return func(r *identity.Record) bool { return r.Disabled != enabled }, nil
	}
	if name == "password_expires_at" {
		return expiryFilter(want)
	}
	if name == "name" && want == "" && comparator == "" {
		return nil, invalidField("name", "", "'' should be non-empty")
	}
	if name == "parent_id" && !hexadecimal(want) && want != identity.DefaultDomain {
		return nil, invalidField("parent_id", want, "expected an id")
	}
	if name == "tags" || name == "tags-any" || name == "not-tags" || name == "not-tags-any" {
		return tagFilter(name, strings.Split(want, ",")), nil
	}
	compare := comparators[comparator]
	if compare == nil {
		return nil, nil
	}
	return func(r *identity.Record) bool { return compare(memberOf(r, name), want) }, nil
}

// comparators are the ends of inexact filters, for example name__contains. Those
// that begin with i ignore case.
var comparators = map[string]func(value, want string) bool{
	"":            func(value, want string) bool { return value == want },
	"contains":    strings.Contains,
	"startswith":  strings.HasPrefix,
	"endswith":    strings.HasSuffix,
	"icontains":   ignoringCase(strings.Contains),
	"istartswith": ignoringCase(strings.HasPrefix),
	"iendswith":   ignoringCase(strings.HasSuffix),
	"iexact":      strings.EqualFold,
}

func ignoringCase(f func(string, string) bool) func(string, string) bool {
	return func(a, b string) bool { return f(strings.ToLower(a), strings.ToLower(b)) }
}

func hexadecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// memberOf returns the value of a member as the API shows it.
func memberOf(r *identity.Record, name string) string {
	switch name {
	case "id":
		return r.ID
	case "idp_id", "protocol_id", "unique_id":
		return federatedMember(r.Federated, name)
	case "name":
		return r.Name
	case "domain_id":
		if r.Kind == identity.Limit && r.Members.Text("project_id") != "" {
			return "" // the limit of a project shows its project only
		}
		return r.Domain
	case "parent_id", "parent_region_id", "service_id":
		return r.Parent
	case "user_id":
		return r.Owner
	}
	return r.Members.Text(name)
}

// federatedMember returns a member of the element of "federated" of a user.
func federatedMember(f *identity.Federated, name string) string {
	switch {
	case f == nil:
		return ""
	case name == "idp_id":
		return f.ProviderID
	case name == "protocol_id":
		return f.ProtocolID
	}
	return f.UniqueID
}

// tagFilter selects records by their tags: all of them, any, not all, or none.
func tagFilter(name string, wanted []string) func(*identity.Record) bool {
	return func(r *identity.Record) bool {
		tags := tagsOf(r)
		found := 0
		for _, t := range wanted {
			if slices.Contains(tags, t) {
				found++
			}
		}
		switch name {
		case "tags":
			return found == len(wanted)
		case "tags-any":
			return found > 0
		case "not-tags":
			return found < len(wanted)
		}
		return found == 0
	}
}
