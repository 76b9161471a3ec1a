package domain_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// indexed returns a policy that permits a role an action on one resource.
func indexed(n int) domain.Source {
	match := func(category, id, value string) string {
		return fmt.Sprintf(`<AnyOf><AllOf><Match MatchId="%sstring-equal">%s<AttributeDesignator Category=%q AttributeId=%q DataType=%q MustBePresent="false"/></Match></AllOf></AnyOf>`,
			function1, literal(value), category, id, xsString)
	}
	return domain.Source{Language: domain.XML, Text: fmt.Appendf(nil,
		`<Policy %s PolicyId="p%d" Version="1.0" RuleCombiningAlgId=%q><Target>%s</Target><Rule RuleId="r" Effect="Permit"><Target>%s%s</Target></Rule></Policy>`, namespace, n, firstRule,
		match(policy.CategoryResource, policy.AttributeResourceID, fmt.Sprint("document:", n)),
		match(policy.CategorySubject, policy.AttributeSubjectID, "user:anne"), match(policy.CategoryAction, policy.AttributeActionID, "read"))}
}

// fillDomain puts n policies of [indexed] and a root that refers to all of them.
func fillDomain(b *testing.B, d *domain.Domain, n int) {
	b.Helper()
	var names []string
	put := texts{}
	for i := range n {
		names = append(names, fmt.Sprint("p", i))
		put[fmt.Sprint("policy-", i)] = indexed(i)
		if len(put) == 900 || i == n-1 {
			change(b, d, domain.Change{Put: put})
			put = texts{}
		}
	}
	root := set("root", names...)
	change(b, d, domain.Change{Root: &root})
}

// BenchmarkDomain measures a domain with 10,000 policies on two drivers: opening it,
// changing one policy, and deciding with the policy in the middle. A change ends
// when the new plan decides. Pebble writes it to the disk.
func BenchmarkDomain(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkDomain(b, memory.New()) })
	b.Run("pebble", func(b *testing.B) {
		driver, err := pebble.Open(b.TempDir(), pebble.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = driver.Close() })
		benchmarkDomain(b, driver)
	})
}

func benchmarkDomain(b *testing.B, driver storage.Driver) {
	ctx := context.Background()
	const n = 10_000
	r, e := registryOn(b, ostiary.Options{Driver: driver}, domain.Options{})
	d := defaultDomain(b, r)
	fillDomain(b, d, n)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			fresh, err := domain.NewRegistry(e, domain.Options{})
			if err != nil {
				b.Fatal(err)
			}
			opened := defaultDomain(b, fresh)
			if got := decide(b, opened, "user:anne", "document:5000", "read"); got.Decision != policy.Permitted {
				b.Fatal(got)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			src := indexed(5000)
			src.Text = append(src.Text, fmt.Sprintf("<!-- %d -->", i)...)
			change(b, d, domain.Change{Put: texts{"policy-5000": src}})
			if got := decide(b, d, "user:anne", "document:5000", "read"); got.Decision != policy.Permitted {
				b.Fatal(got)
			}
		}
	})
	b.Run("change of the target", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			src := indexed(5000)
			src.Text = bytes.ReplaceAll(src.Text, []byte("document:5000"), fmt.Append(nil, "new:", i))
			change(b, d, domain.Change{Put: texts{"policy-5000": src}})
			if got := decide(b, d, "user:anne", fmt.Sprint("new:", i), "read"); got.Decision != policy.Permitted {
				b.Fatal(got)
			}
		}
		change(b, d, domain.Change{Put: texts{"policy-5000": indexed(5000)}})
	})
	b.Run("decide", func(b *testing.B) {
		q := request("user:anne", "document:5000", "read")
		b.ReportAllocs()
		for b.Loop() {
			if got, err := d.Decide(ctx, q); err != nil || got[0].Decision != policy.Permitted {
				b.Fatal(got, err)
			}
		}
	})
}

// BenchmarkRelated measures a decision that asks one relation.
func BenchmarkRelated(b *testing.B) {
	ctx := context.Background()
	r, e := newRegistry(b, domain.Options{})
	s := newRelations(b, e, "document:1#viewer@group:eng#member", "group:eng#member@user:bob")
	d := must(r.FindOrMake(ctx, s.ID().String()))(b)
	root := effect("root", "Permit", related("viewer"))
	change(b, d, domain.Change{Root: &root})
	q := request("user:bob", "document:1")
	b.ReportAllocs()
	for b.Loop() {
		if got, err := d.Decide(ctx, q); err != nil || got[0].Decision != policy.Permitted {
			b.Fatal(got, err)
		}
	}
}
