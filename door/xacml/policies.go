package xacml

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/storage"
)

// policyJSON describes a policy of a domain.
type policyJSON struct {
	// Name is the name in the domain; "" for the root.
	Name     string           `json:"name,omitempty"`
	Kind     string           `json:"kind"`
	ID       string           `json:"id"`
	Version  string           `json:"version"`
	Language domain.Language  `json:"language"`
	Revision storage.Revision `json:"revision"`
}

func policyOf(p *domain.Stored) *policyJSON {
	if p == nil {
		return nil
	}
	kind := "policy"
	if p.Set {
		kind = "policy set"
	}
	return &policyJSON{p.Name, kind, p.ID, p.Version, p.Language, p.Revision}
}

// changedJSON is the response to a change.
type changedJSON struct {
	// Revision is the revision of the domain after the change, and Token its token.
	Revision storage.Revision `json:"revision"`
	Token    authz.Token      `json:"token"`
	// Removed is the number of policies that were removed.
	Removed int `json:"removed,omitempty"`
}

// name returns the name of the policy in the path; "" for the root.
func (c *call) name() string { return c.Params.Named("name") }

// readSource reads a policy from the request's body.
func (c *call) readSource() (domain.Source, error) {
	defer c.End() // before the policy is compiled
	f, body, err := c.read(formXML, formJSON, formText)
	if err != nil {
		return domain.Source{}, err
	}
	return domain.Source{Language: f.language(), Text: append([]byte(nil), body...)}, nil
}

// putPolicy serves PUT policies/{name} and PUT root.
func (c *call) putPolicy() error {
	src, err := c.readSource()
	if err != nil {
		return err
	}
	change := domain.Change{Expect: authz.Token(c.query.Get("expect"))}
	if name := c.name(); name != "" {
		change.Put = map[string]domain.Source{name: src}
	} else {
		change.Root = &src
	}
	done, err := c.domain.Change(c.Context(), change)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if done.Created {
		status = http.StatusCreated
		c.W.Header().Set("Location", c.R.URL.EscapedPath())
	}
	writeJSON(c.W, status, changedJSON{done.Revision, done.Token, done.Removed})
	return nil
}

// deletePolicy serves DELETE policies/{name}.
func (c *call) deletePolicy() error {
	return c.remove(domain.Change{Remove: []string{c.name()}, Expect: authz.Token(c.query.Get("expect"))})
}

// deletePolicies serves DELETE policies: it removes all policies and the root.
func (c *call) deletePolicies() error {
	return c.remove(domain.Change{Clear: true, Expect: authz.Token(c.query.Get("expect"))})
}

// remove makes a change that only removes. A policy that the root needs is a
// conflict.
func (c *call) remove(change domain.Change) error {
	done, err := c.domain.Change(c.Context(), change)
	if reasons := reasonsOf(err); reasons != nil {
		return &problem{status: http.StatusConflict, Code: "in_use", Message: "the root needs the policy: " + reasons[0].Message, Reasons: reasons}
	}
	if err != nil {
		return err
	}
	writeJSON(c.W, http.StatusOK, changedJSON{done.Revision, done.Token, done.Removed})
	return nil
}

// getPolicy serves GET policies/{name} and GET root.
func (c *call) getPolicy() error {
	p, src, err := c.domain.Policy(c.Context(), c.name())
	if err != nil {
		return err
	}
	return c.writeSource(src, p.Revision)
}

// writeSource writes the text of a policy. If the client asks for another form, it
// is printed in that form.
func (c *call) writeSource(src domain.Source, at storage.Revision) error {
	as, err := accept(c.R, policyOffers(formOfLanguage(src.Language))...)
	if err != nil {
		return err
	}
	text := src.Text
	if as.form != formOfLanguage(src.Language) {
		if text, err = convert(c.Context(), src, as.form); err != nil {
			return err
		}
	}
	c.W.Header().Set("ETag", `"`+strconv.FormatUint(uint64(at), 10)+`"`)
	writeBody(c.W, http.StatusOK, as.name, text)
	return nil
}

// convert prints a policy in another form.
func convert(ctx context.Context, src domain.Source, to form) ([]byte, error) {
	e, err := src.Parse(ctx, "policy")
	if err != nil {
		return nil, err
	}
	var out []byte
	switch to {
	case formJSON:
		out, err = language.PrintJSON(e)
	case formText:
		out, err = language.PrintText(e)
	default:
		out, err = language.PrintXML(e)
	}
	if err != nil {
		return nil, &problem{status: http.StatusNotAcceptable, Code: "not_acceptable", Message: "the policy cannot be printed in this form: " + err.Error()}
	}
	return out, nil
}

// policiesMax is the largest number of policies of one page.
const policiesMax = 10_000

// listPolicies serves GET policies, in the order of the names.
func (c *call) listPolicies() error {
	limit, err := c.number("limit", 1_000, policiesMax)
	if err != nil {
		return err
	}
	o, err := c.pinOptions()
	if err != nil {
		return err
	}
	pinned, err := c.domain.Pin(c.Context(), o)
	if err != nil {
		return err
	}
	out := struct {
		Policies []*policyJSON    `json:"policies"`
		Root     *policyJSON      `json:"root,omitempty"`
		Next     string           `json:"next,omitempty"`
		Revision storage.Revision `json:"revision"`
		Token    authz.Token      `json:"token"`
	}{Policies: []*policyJSON{}, Root: policyOf(pinned.Root()), Revision: pinned.Revision(), Token: pinned.Token()}
	for p := range pinned.Policies(c.query.Get("after")) {
		if len(out.Policies) == limit {
			out.Next = out.Policies[limit-1].Name
			break
		}
		out.Policies = append(out.Policies, policyOf(&p))
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}

// versionJSON describes a version of a policy.
type versionJSON struct {
	Revision storage.Revision `json:"revision"`
	Time     time.Time        `json:"time"`
	Removed  bool             `json:"removed,omitempty"`
	Language domain.Language  `json:"language,omitempty"`
	Bytes    int              `json:"bytes,omitempty"`
}

// listVersions serves the versions of a policy or of the root, the newest first.
func (c *call) listVersions() error {
	limit, err := c.number("limit", 100, domain.VersionsMax)
	if err != nil {
		return err
	}
	versions, err := c.domain.Versions(c.Context(), c.name(), limit)
	if err != nil {
		return err
	}
	out := struct {
		Versions []versionJSON `json:"versions"`
	}{}
	for _, v := range versions {
		out.Versions = append(out.Versions, versionJSON{v.Revision, v.Time.UTC(), v.Removed, v.Source.Language, len(v.Source.Text)})
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}

// getVersion serves the text that a policy or the root had at a revision.
func (c *call) getVersion() error {
	at, err := revision(c.Params.Named("revision"))
	if err != nil {
		return err
	}
	v, err := c.domain.Version(c.Context(), c.name(), at)
	if err != nil {
		return err
	}
	return c.writeSource(v.Source, v.Revision)
}

// validate serves POST validate: it checks the policy in the body as PUT would,
// and changes nothing. The parameter name names the policy that it would replace;
// without one it is checked as the root.
func (c *call) validate() error {
	src, err := c.readSource()
	if err != nil {
		return err
	}
	change := domain.Change{Root: &src}
	if name := c.query.Get("name"); name != "" {
		change = domain.Change{Put: map[string]domain.Source{name: src}}
	}
	if err := c.domain.Validate(c.Context(), change); err != nil {
		return err
	}
	writeJSON(c.W, http.StatusOK, map[string]bool{"valid": true})
	return nil
}

// changePolicies serves POST policies: several changes that take effect together.
func (c *call) changePolicies() error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	r := jsonread.New(body)
	change := readChange(r)
	if err := r.End(); err != nil {
		return err
	}
	done, err := c.domain.Change(c.Context(), change)
	if err != nil {
		return err
	}
	writeJSON(c.W, http.StatusOK, changedJSON{done.Revision, done.Token, done.Removed})
	return nil
}

// readChange reads a change from JSON.
func readChange(r *jsonread.Reader) (change domain.Change) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "clear":
			change.Clear = r.Bool()
		case "remove":
			for r.Array(); r.Item(); {
				change.Remove = append(change.Remove, r.String())
			}
		case "put":
			change.Put = map[string]domain.Source{}
			r.Object()
			for name, ok := r.Entry(); ok; name, ok = r.Entry() {
				if _, twice := change.Put[name]; twice {
					r.Fail("the policy comes twice")
				}
				change.Put[name] = readNamedSource(r)
			}
		case "root":
			src := readNamedSource(r)
			change.Root = &src
		case "expect":
			change.Expect = authz.Token(r.String())
		default:
			r.Unknown()
		}
	}
	return change
}

// readNamedSource reads the text of a policy and its language, which is XML unless
// it is given.
func readNamedSource(r *jsonread.Reader) domain.Source {
	src := domain.Source{Language: domain.XML}
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "language":
			src.Language = domain.Language(r.String())
		case "text":
			src.Text = []byte(r.String())
		default:
			r.Unknown()
		}
	}
	return src
}

// domainJSON describes a policy domain.
type domainJSON struct {
	Store     string           `json:"store"`
	Name      string           `json:"name,omitempty"`
	Alias     string           `json:"alias,omitempty"`
	Relations string           `json:"relations,omitempty"`
	Unbound   string           `json:"unbound,omitempty"`
	Revision  storage.Revision `json:"revision"`
	Token     authz.Token      `json:"token"`
	Policies  int              `json:"policies"`
	Bytes     int              `json:"bytes"`
	Root      *policyJSON      `json:"root,omitempty"`
	Broken    string           `json:"broken,omitempty"`
}

// getDomain serves GET domain.
func (c *call) getDomain() error {
	out, err := c.describeDomain(c.domain)
	if err != nil {
		return err
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}

func (c *call) describeDomain(d *domain.Domain) (domainJSON, error) {
	i, err := d.Info(c.Context())
	return domainJSON{i.Store.String(), i.Name, i.Alias, i.Relations, i.Unbound, i.Revision, i.Token, i.Policies, i.Bytes, policyOf(i.Root), i.Broken}, err
}

// makeDomain serves POST domains: it makes a domain with an alias, which may ask
// one relation store.
func (c *call) makeDomain() error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	var name, alias, relations string
	r := jsonread.New(body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "name":
			name = r.String()
		case "alias":
			alias = r.String()
		case "relations":
			relations = r.String()
		default:
			r.Unknown()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	var s *ostiary.Store
	if relations != "" {
		if s, err = door.FindStore(c.Context(), c.engine, Name, relations); err != nil {
			return err
		}
	}
	d, err := c.options.Domains.Make(c.Context(), name, alias, s)
	if err != nil {
		return err
	}
	out, err := c.describeDomain(d)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", "/stores/"+url.PathEscape(out.Store)+prefix+"/domain")
	writeJSON(c.W, http.StatusCreated, out)
	return nil
}

// listedDomain is a domain in a list.
type listedDomain struct {
	Store string `json:"store"`
	Name  string `json:"name,omitempty"`
	Alias string `json:"alias"`
}

// listDomains serves GET domains: the stores with an alias for this door, in the
// order of these aliases.
func (c *call) listDomains() error {
	limit, err := c.number("limit", 100, 1_000)
	if err != nil {
		return err
	}
	out := struct {
		Domains []listedDomain `json:"domains"`
		Next    string         `json:"next,omitempty"`
	}{Domains: []listedDomain{}}
	for info, err := range c.engine.StoresByAlias(c.Context(), Name, c.query.Get("after")) {
		if err != nil {
			return err
		}
		if len(out.Domains) == limit {
			out.Next = out.Domains[limit-1].Alias
			break
		}
		out.Domains = append(out.Domains, listedDomain{info.ID.String(), info.Name, info.Aliases[Name]})
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}
