package policy

import (
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/policy/value"
)

// BenchmarkDecide asks for a decision at a number of policies, the hit in the
// middle.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			p := compiled(b, world(n))
			r := ask("anne", n/2)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if got := p.Decide(b.Context(), r, Options{}); got[0].Decision != Permitted {
					b.Fatal(got)
				}
			}
		})
	}
}

// BenchmarkCompile compiles a number of policies.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		root := world(n)
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compiled(b, root)
			}
		})
	}
}

// BenchmarkRecompile changes one policy of many, inline and in the library.
func BenchmarkRecompile(b *testing.B) {
	const n = 10_000
	b.Run("inline", func(b *testing.B) {
		root := world(n)
		p := compiled(b, root)
		b.ReportAllocs()
		b.ResetTimer()
		for b.Loop() {
			changed := *root
			changed.Children = append([]Element(nil), root.Children...)
			changed.Children[n/2] = onePolicy(n / 2)
			var err error
			if p, err = Compile(b.Context(), &changed, nil, CompileOptions{Previous: p}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		library := world(n).Children
		root := &PolicySet{Header: Header{ID: "root", Version: "1.0", Algorithm: AlgorithmDenyUnlessPermit}}
		for i := range n {
			root.Children = append(root.Children, &Reference{ID: "policy-" + itoa(i)})
		}
		p := compiled(b, root, library...)
		b.ReportAllocs()
		b.ResetTimer()
		for b.Loop() {
			library = append([]Element(nil), library...)
			library[n/2] = onePolicy(n / 2)
			var err error
			if p, err = Compile(b.Context(), root, library, CompileOptions{Previous: p}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkNarrow asks about many resources with a condition that no index helps:
// with the full plan, and with one that is narrowed to what anne may do. The
// narrowing itself is not measured.
func BenchmarkNarrow(b *testing.B) {
	const n = 1000
	root := world(n)
	for i, child := range root.Children {
		p := child.(*Policy)
		p.Target, p.Rules[0].Target = nil, nil
		p.Rules[0].Condition = &Apply{Function: function1 + "and", Arguments: []Expression{
			isIn("user-"+itoa(i/10), attribute(CategorySubject, AttributeSubjectID, false)),
			isIn("resource-"+itoa(i), attribute(CategoryResource, AttributeResourceID, false))}}
	}
	p := compiled(b, root)
	known := request(CategorySubject, AttributeSubjectID, "user-50", CategoryAction, AttributeActionID, "read")
	resource := request(CategoryResource, AttributeResourceID, "resource-505").Categories[0]
	b.Run("full", func(b *testing.B) {
		full := *known
		full.Categories = append(full.Categories, resource)
		for b.Loop() {
			if got := p.Decide(b.Context(), &full, Options{})[0]; got.Decision != Permitted {
				b.Fatal(got)
			}
		}
	})
	b.Run("narrowed", func(b *testing.B) {
		narrowed, err := p.Narrow(b.Context(), known, CategoryResource, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if got := narrowed.Decide(b.Context(), resource.Attributes); got.Decision != Permitted {
				b.Fatal(got)
			}
		}
	})
}

// isIn returns whether a word is among the values of an attribute.
func isIn(word string, a *Designator) Expression {
	return &Apply{Function: function1 + "string-is-in", Arguments: []Expression{&Literal{Value: value.NewString(word)}, a}}
}
