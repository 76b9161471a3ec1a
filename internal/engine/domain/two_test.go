package domain_test

import (
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// two returns the default domains of two engines on one driver.
func two(t *testing.T) (domains [2]*domain.Domain) {
	t.Helper()
	driver := memory.New()
	t.Cleanup(func() { driver.Close() })
	for i := range domains {
		r, _ := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
		domains[i] = defaultDomain(t, r)
	}
	return domains
}

// document returns the document of a policy as a program writes it that does not use
// this package.
func document(kind, key string, revision storage.Revision, s domain.Source) authz.Document {
	return authz.Document{Kind: kind, Key: key, Body: fmt.Appendf(nil, `{"v":1,"language":%q,"revision":%d}`+"\n%s", s.Language, revision, s.Text)}
}

// decideAt returns the decision of a past revision.
func decideAt(t *testing.T, d *domain.Domain, revision storage.Revision) policy.Decision {
	t.Helper()
	p := must(d.Pin(t.Context(), domain.PinOptions{Revision: revision}))(t)
	if p.Revision() != revision {
		t.Errorf("pinned revision %d instead of %d", p.Revision(), revision)
	}
	return must(p.Decide(t.Context(), request(), nil))(t)[0].Decision
}

// TestTwoEngines changes the policies through one engine and decides through the other
// one, in turns, and then decides at each past revision through both.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	domains := two(t)
	root, both := set("root", "a"), set("root", "b", "a")
	one, other := permitAll("root"), denyAll("root")
	type revision struct {
		number storage.Revision
		want   policy.Decision
	}
	var all []revision
	for i, s := range []struct {
		what   string
		change domain.Change
		want   policy.Decision
	}{
		{"added without a root", domain.Change{Put: texts{"a": permitAll("a")}}, policy.NotApplicable},
		{"a root", domain.Change{Root: &root}, policy.Permitted},
		{"changed", domain.Change{Put: texts{"a": denyAll("a")}}, policy.Denied},
		{"another one added", domain.Change{Put: texts{"b": permitAll("b")}, Root: &both}, policy.Permitted},
		{"one removed", domain.Change{Remove: []string{"b"}, Root: &root}, policy.Denied},
		{"a root without references", domain.Change{Root: &one}, policy.Permitted},
		{"all removed", domain.Change{Clear: true}, policy.NotApplicable},
		{"a root alone", domain.Change{Root: &other}, policy.Denied},
		{"a policy that the root does not reach", domain.Change{Put: texts{"c": permitAll("c")}}, policy.Denied},
	} {
		from, to := domains[i%2], domains[(i+1)%2]
		done := change(t, from, s.change)
		if got := decide(t, from).Decision; got != s.want {
			t.Errorf("%s: the engine of the change decides %v, want %v", s.what, got, s.want)
		}
		wait.Until(t, s.what, func() bool { return must(to.Info(t.Context()))(t).Token == done.Token })
		if got := decide(t, to).Decision; got != s.want {
			t.Errorf("%s: the other engine decides %v, want %v", s.what, got, s.want)
		}
		all = append(all, revision{done.Revision, s.want})
	}
	for _, r := range all {
		for i, d := range domains {
			if got := decideAt(t, d, r.number); got != r.want {
				t.Errorf("engine %d decides %v at revision %d, want %v", i, got, r.number, r.want)
			}
		}
	}
}

// TestReload drops the log that continues what an engine has in memory: it reads all
// policies again.
func TestReload(t *testing.T) {
	t.Parallel()
	domains := two(t)
	root := set("root", "a")
	done := change(t, domains[0], domain.Change{Root: &root, Put: texts{"a": permitAll("a"), "b": permitAll("b")}})
	wait.Until(t, "the first policies", func() bool { return must(domains[1].Info(t.Context()))(t).Token == done.Token })
	change(t, domains[0], domain.Change{Put: texts{"a": denyAll("a")}})
	done = change(t, domains[0], domain.Change{Remove: []string{"b"}})
	if err := domains[0].Store().Trim(t.Context(), done.Revision, done.Revision); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a change before a trim", func() bool { return must(domains[1].Info(t.Context()))(t).Token == done.Token })
	if got, info := decide(t, domains[1]).Decision, must(domains[1].Info(t.Context()))(t); got != policy.Denied || info.Policies != 1 || info.Bytes != len(root.Text)+len(denyAll("a").Text) {
		t.Errorf("after a trim the other engine decides %v: %s", got, describe(info))
	}
}

// TestOldDocuments reads policies with the secondary keys of older versions, and
// replaces and removes them.
func TestOldDocuments(t *testing.T) {
	t.Parallel()
	domains := two(t)
	old := document("xacml.policy", "a", 2, permitAll("a"))
	old.Secondary = []string{"bucket 2c"}
	other := document("xacml.policy", "b", 2, permitAll("b"))
	other.Secondary = []string{"bucket 8f"}
	must(domains[0].Store().Write(t.Context(), authz.WriteRequest{Documents: []authz.Document{old, other, document("xacml.root", "root", 2, set("root", "a"))}}))(t)
	for i, d := range domains {
		wait.Until(t, fmt.Sprint("the old policies by engine ", i), func() bool {
			return decide(t, d).Decision == policy.Permitted && must(d.Info(t.Context()))(t).Policies == 2
		})
	}
	change(t, domains[0], domain.Change{Put: texts{"a": denyAll("a")}, Remove: []string{"b"}})
	if got, n := decide(t, domains[0]).Decision, must(domains[0].Info(t.Context()))(t).Policies; got != policy.Denied || n != 1 {
		t.Errorf("after a change of an old policy the decision is %v with %d policies", got, n)
	}
}

// TestOtherPrograms changes documents without this package: a text that has the
// revision of another one, and a removal of the root.
func TestOtherPrograms(t *testing.T) {
	t.Parallel()
	domains := two(t)
	d := domains[0]
	root := set("root", "a")
	change(t, d, domain.Change{Root: &root, Put: texts{"root": permitAll("a"), "b": permitAll("b")}})
	before := must(d.Info(t.Context()))(t)
	decisions := func() (out []policy.Decision) {
		for _, d := range domains {
			must(d.Store().Resolve(t.Context(), authz.FullyConsistent()))(t)
			out = append(out, decide(t, d).Decision)
		}
		return out
	}
	if got := fmt.Sprint(decisions()); got != fmt.Sprint([]policy.Decision{policy.Permitted, policy.Permitted}) {
		t.Errorf("at first the decisions are %s", got)
	}
	must(d.Store().Write(t.Context(), authz.WriteRequest{Documents: []authz.Document{document("xacml.policy", "root", before.Revision, denyAll("a"))}}))(t)
	if got := fmt.Sprint(decisions()); got != fmt.Sprint([]policy.Decision{policy.Denied, policy.Denied}) {
		t.Errorf("after another text with the same revision the decisions are %s", got)
	}
	for i, d := range domains {
		if got := decideAt(t, d, before.Revision); got != policy.Permitted {
			t.Errorf("engine %d decides %v at the revision before", i, got)
		}
	}
	must(d.Store().Write(t.Context(), authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: "xacml.root", Key: "root"}}}))(t)
	if got := fmt.Sprint(decisions()); got != fmt.Sprint([]policy.Decision{policy.NotApplicable, policy.NotApplicable}) {
		t.Errorf("without a root the decisions are %s", got)
	}
	if info := must(d.Info(t.Context()))(t); info.Policies != 2 {
		t.Errorf("the removal of the root removed a policy: %s", describe(info))
	}
}
