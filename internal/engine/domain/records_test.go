package domain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// describe returns all fields of a domain's Info as text.
func describe(i domain.Info) string {
	text := fmt.Sprintf("%s, name %q, alias %q, relations %q, revision %d, %d policies, %d bytes", i.Store, i.Name, i.Alias, i.Relations, i.Revision, i.Policies, i.Bytes)
	if i.Root != nil {
		text += ", root " + policyText(*i.Root)
	}
	return text + fmt.Sprintf(", unbound %q, broken %q", i.Unbound, i.Broken)
}

// policyText returns the description of a stored policy as text.
func policyText(p domain.Stored) string {
	return fmt.Sprintf("%q %s %s %s of revision %d, set %v", p.Name, p.Language, p.ID, p.Version, p.Revision, p.Set)
}

// documentsOf returns the documents that the log of a store has put.
func documentsOf(t testing.TB, s *ostiary.Store) (lines []string) {
	t.Helper()
	page := must(s.Changes(context.Background(), authz.ChangesRequest{}))(t)
	for _, e := range page.Entries {
		for _, c := range e.Changes {
			lines = append(lines, fmt.Sprintf("%d %v %s %q %v %s%s", e.Revision, c.Kind, c.Document.Kind, c.Document.Key, c.Document.Secondary, c.Document.Body, c.Filter.DocumentKind))
		}
	}
	return lines
}

// TestRecords compares with a file what a domain stores, its descriptions of each
// revision, and the errors of changes and of damaged documents.
func TestRecords(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	driver := memory.New()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	eo := ostiary.Options{Driver: driver, Clock: func() time.Time { return now }}
	r, e := registryOn(t, eo, domain.Options{PoliciesMax: 5, BytesMax: 2_000})
	var j journal
	relations := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: storage.StoreID{15: 7}, Name: "tuples"}))(t)
	info := func(what string, d *domain.Domain) {
		i, err := d.Info(ctx)
		j.result(what, describe(i), err)
	}
	plain := defaultDomain(t, r)
	j.name(plain.Store(), "DEFAULT")
	info("the default domain", plain)
	d := must(r.FindOrMake(ctx, relations.ID().String()))(t)
	j.name(d.Store(), "OWN")
	incarnation := relations.Info().Incarnation
	j.names = append(j.names, fmt.Sprintf("%x", incarnation[:]), "INCARNATION")
	info("the domain of a relation store", d)
	named := must(r.Make(ctx, "a name", "an alias", relations))(t)
	j.name(named.Store(), "NAMED")
	info("a domain with a name", named)

	try := func(what string, c domain.Change) {
		done, err := d.Change(ctx, c)
		j.result(what, fmt.Sprintf("revision %d, created %v, removed %d", done.Revision, done.Created, done.Removed), err)
	}
	xml := func(text string) domain.Source { return domain.Source{Language: domain.XML, Text: []byte(text)} }
	rules := func(id string) domain.Source {
		return domain.Source{Language: domain.JSON, Text: fmt.Appendf(nil, `{"policy":{"id":%q,"version":"2.1","algorithm":%q,"rules":[{"id":"r","effect":"Permit"}]}}`, id, firstRule)}
	}
	nested := xml(fmt.Sprintf(`<PolicySet %s PolicySetId="nested" Version="3" PolicyCombiningAlgId=%q><Target/><PolicySet PolicySetId="inner" Version="1" PolicyCombiningAlgId=%q><Target/><PolicyIdReference>a</PolicyIdReference><PolicySetIdReference>more</PolicySetIdReference></PolicySet></PolicySet>`, namespace, firstPolicy, firstPolicy))
	reference := xml(fmt.Sprintf(`<PolicyIdReference %s Version="1.0">a</PolicyIdReference>`, namespace))
	one, two := permitAll("a"), set("root", "a")
	j.line("\nchanges")
	try("put three policies", domain.Change{Put: texts{"a.xml": one, "b/": {}, "ünï.json": rules("b")}})
	try("put two policies", domain.Change{Put: texts{"a.xml": one, "ünï.json": rules("b")}})
	try("put one that exists and one that does not", domain.Change{Put: texts{"a.xml": one, "more": set("more", "a")}})
	try("put a nested root", domain.Change{Root: &nested})
	try("put a reference as the root", domain.Change{Root: &reference})
	try("put a reference as a policy", domain.Change{Put: texts{"reference": reference}})
	try("the same text in another language", domain.Change{Put: texts{"ünï.json": {Language: domain.Text, Text: rules("b").Text}}})
	try("remove and put", domain.Change{Remove: []string{"more"}, Put: texts{"more": one}})
	try("remove one of two", domain.Change{Remove: []string{"more", "none"}})
	try("remove with clear", domain.Change{Clear: true, Remove: []string{"more"}})
	try("the root again", domain.Change{Root: &reference})
	try("expect a wrong token", domain.Change{Expect: "token", Clear: true})
	try("six policies", domain.Change{Put: texts{"c": permitAll("c"), "d": permitAll("d"), "e": permitAll("e")}})
	try("five policies", domain.Change{Put: texts{"c": permitAll("c")}})
	try("too many bytes", domain.Change{Put: texts{"c": xml(string(permitAll("c").Text) + strings.Repeat(" ", 2_000))}})
	try("two mistakes", domain.Change{Root: &domain.Source{Language: domain.XML, Text: []byte(`<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="x" Version="x" RuleCombiningAlgId="y"><Target/></Policy>`)}})
	try("a root without a policy", domain.Change{Root: &domain.Source{Language: domain.XML, Text: set("root", "zzz").Text}})
	for _, name := range []string{".", "..", "a/b", `a\b`, "a\tb", "a\x7fb", "a\x1fb", "a\xffb", "a b", "...", strings.Repeat("x", domain.NameBytesMax+1)} {
		try(fmt.Sprintf("the name %.10q", name), domain.Change{Put: texts{name: one}, Expect: "so that it changes nothing"})
	}
	pinned := must(d.Pin(ctx, domain.PinOptions{}))(t)
	info("now", d)
	j.result("root", policyText(*pinned.Root()), nil)
	for _, after := range []string{"", "a", "a.xml", "b", "ünï.json"} {
		text := ""
		for p := range pinned.Policies(after) {
			text += "\n" + policyText(p)
		}
		j.result(fmt.Sprintf("policies after %q", after), text, nil)
	}
	for p := range pinned.Policies("") {
		j.result("the first", p.Name, nil)
		break
	}
	for _, name := range []string{"", "a.xml", "ünï.json", "none"} {
		p, source, err := d.Policy(ctx, name)
		j.result(fmt.Sprintf("policy %q", name), fmt.Sprintf("%s\n%s %s", policyText(p), source.Language, source.Text), err)
	}
	preview := func(what string, c domain.Change) {
		p, err := d.Preview(ctx, c)
		text := ""
		if err == nil {
			results, failed := p.Decide(ctx, request(), nil)
			if err = failed; err == nil {
				text = fmt.Sprintf("revision %d, token %q, %s", p.Revision(), p.Token(), outcome(results[0]))
			}
		}
		j.result(what, text, err)
	}
	preview("preview of another policy", domain.Change{Put: texts{"a.xml": denyAll("a")}})
	preview("preview of a mistake", domain.Change{Put: texts{"a.xml": denyAll("aa")}})
	preview("preview of too many", domain.Change{Put: texts{"e": denyAll("e"), "d": denyAll("d")}})
	preview("preview with a wrong token", domain.Change{Expect: "token"})
	preview("preview of a removal", domain.Change{Remove: []string{"none"}})
	info("after the previews", d)
	try("remove", domain.Change{Remove: []string{"c"}})
	try("clear", domain.Change{Clear: true})
	try("clear again", domain.Change{Clear: true})
	try("put after clear", domain.Change{Clear: true, Put: texts{"a.xml": one}})
	try("clear and put the same", domain.Change{Clear: true, Put: texts{"a.xml": one}, Root: &two})
	info("now", d)
	p, _, err := d.Policy(ctx, "a.xml")
	j.result("policy", policyText(p), err)
	_, _, err = must(r.Find(ctx, "default"))(t).Policy(ctx, "")
	j.result("the root of the default domain", "", err)
	versions := func(name string, limit int) {
		all, err := d.Versions(ctx, name, limit)
		text := ""
		for _, v := range all {
			text += fmt.Sprintf("\nrevision %d, removed %v, %s, %d bytes at %s", v.Revision, v.Removed, v.Source.Language, len(v.Source.Text), v.Time.Format(time.RFC3339))
		}
		j.result(fmt.Sprintf("%d versions of %q", limit, name), text, err)
	}
	j.line("\nversions")
	for _, name := range []string{"", "a.xml", "c", "more", "none"} {
		versions(name, 0)
	}
	for limit := range 5 {
		versions("a.xml", limit)
	}
	for at := range 10 {
		v, err := d.Version(ctx, "a.xml", storage.Revision(at))
		j.result(fmt.Sprintf("version at revision %d", at), fmt.Sprint(v.Revision), err)
	}
	j.line("\nthe store of the domain")
	for _, line := range documentsOf(t, d.Store()) {
		j.result("", line, nil)
	}
	j.line("\nthe settings of the others")
	j.result("", documentsOf(t, plain.Store())[0], nil)
	j.result("", documentsOf(t, named.Store())[0], nil)
	golden.Equal(t, "testdata/records.txt", j.text.String())
}

// TestDamaged compares the errors of documents that another program has written
// with a file, when the domain is open, and when it is opened afterwards.
func TestDamaged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var j journal
	const policyDocument, rootDocument, settingsDocument = "xacml.policy", "xacml.root", "xacml.domain"
	good := string(permitAll("root").Text)
	for _, c := range []struct{ what, kind, key, body string }{
		{"a good root", rootDocument, "root", `{"v":1,"language":"xml","revision":9}` + "\n" + good},
		{"a good policy", policyDocument, "a", `{"v":1,"language":"xml","revision":9}` + "\n" + string(permitAll("a").Text)},
		{"a root of a later version", rootDocument, "root", `{"v":2,"language":"xml","revision":9}` + "\n" + good},
		{"a root without a text", rootDocument, "root", `{"v":1,"language":"xml","revision":9}`},
		{"a root with a malformed line", rootDocument, "root", `{"v":1` + "\n" + good},
		{"a root in an unknown language", rootDocument, "root", `{"v":1,"language":"prolog","revision":9}` + "\n" + good},
		{"a root that refers to no policy", rootDocument, "root", `{"v":1,"language":"xml","revision":9}` + "\n" + string(set("root", "missing").Text)},
		{"a policy that is no XML", policyDocument, "a", `{"v":1,"language":"xml","revision":9}` + "\nnothing"},
		{"a policy of a later version", policyDocument, "a", `{"v":2,"language":"xml","revision":9}` + "\n" + good},
		{"settings of a later version", settingsDocument, "settings", `{"v":2}`},
		{"malformed settings", settingsDocument, "settings", `{"v":1`},
		{"settings with a malformed id", settingsDocument, "settings", `{"v":1,"relations":"x"}`},
		{"settings with an unknown store", settingsDocument, "settings", `{"v":1,"relations":"00000000000000000000000009","incarnation":"00"}`},
		{"settings with another incarnation", settingsDocument, "settings", `{"v":1,"relations":"00000000000000000000000007","incarnation":"00"}`},
		{"a document of another kind", "note", "root", `text`},
	} {
		driver := memory.New()
		r, e := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
		relations := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: storage.StoreID{15: 7}}))(t)
		d := must(r.Default(ctx, relations))(t)
		j.name(d.Store(), "DOMAIN")
		root := set("root", "a")
		change(t, d, domain.Change{Root: &root, Put: texts{"a": denyAll("a")}})
		document := authz.Document{Kind: c.kind, Key: c.key, Body: []byte(c.body)}
		if c.kind == policyDocument {
			document.Secondary = []string{"bucket 2c"} // that of the name "a"
		}
		must(d.Store().Write(ctx, authz.WriteRequest{Documents: []authz.Document{document}}))(t)
		j.line("\n%s", c.what)
		look := func(how string, r *domain.Registry) {
			d, err := r.Find(ctx, "default")
			if err != nil {
				j.result(how, "", err)
				return
			}
			i, err := d.Info(ctx)
			j.result(how, describe(i), err)
			if err == nil {
				j.result("  decision", outcome(decide(t, d)), nil)
				_, err = d.Search(ctx, &domain.SearchRequest{Known: request("user:anne"), Category: policy.CategoryResource, Candidates: []string{"document:1"}})
				j.result("  search", "found", err)
			}
			p, source, err := d.Policy(ctx, strings.TrimPrefix(c.key, "root"))
			j.result("  policy", fmt.Sprintf("%s, %s of %d bytes", policyText(p), source.Language, len(source.Text)), err)
			_, err = d.Versions(ctx, strings.TrimPrefix(c.key, "root"), 0)
			j.result("  versions", "found", err)
			_, err = d.Pin(ctx, domain.PinOptions{Revision: 3})
			j.result("  at revision 3", "found", err)
		}
		look("open", r)
		fresh, _ := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
		look("opened", fresh)
		d, err := r.Find(ctx, "default")
		if err == nil {
			_, err = d.Change(ctx, domain.Change{Root: &root, Put: texts{"a": permitAll("a")}})
		}
		j.result("repaired", "yes", err)
	}
	golden.Equal(t, "testdata/damaged.txt", j.text.String())
}

// TestLockEnds checks that a change that waits for another one ends with its
// context.
func TestLockEnds(t *testing.T) {
	t.Parallel()
	r, _ := newRegistry(t, domain.Options{})
	d := defaultDomain(t, r)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Change(ctx, domain.Change{Clear: true}); !errors.Is(err, authz.ErrCanceled) {
		t.Errorf("a canceled change: %v", err)
	}
	change(t, d, domain.Change{Put: texts{"a": permitAll("a")}})
	if got := slices.Collect(must(d.Pin(context.Background(), domain.PinOptions{}))(t).Policies("")); len(got) != 1 {
		t.Errorf("policies: %v", got)
	}
}
