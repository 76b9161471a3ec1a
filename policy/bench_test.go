package policy

import (
	"fmt"
	"testing"
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
			if p, err = Compile(&changed, nil, CompileOptions{Previous: p}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		library := world(n).Children
		root := &PolicySet{ID: "root", Version: "1.0", Algorithm: AlgorithmDenyUnlessPermit}
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
			if p, err = Compile(root, library, CompileOptions{Previous: p}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
