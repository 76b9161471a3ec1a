package enginetest

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

// A store with the mark of an unfinished import answers no question at the revisions
// that have the mark: not before and not after a restart or a compaction, whatever
// kind of write removed the mark.
func TestImporting(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		for _, end := range []ostiary.WriteRequest{
			{RemoveDocuments: []ostiary.DocumentKey{{Kind: ostiary.ImportKind, Key: ostiary.ImportKey}}},
			{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: ostiary.ImportKind}}},
		} {
			ctx := context.Background()
			x := start(t, d, ostiary.Options{})
			s := newStore(t, x.engine, documents())
			asks := func(c ostiary.Consistency) map[string]error {
				q, o := tup(t, "document:1#viewer@user:anne"), ostiary.QueryOptions{Consistency: c}
				_, check := s.Check(ctx, ostiary.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: o})
				_, list := s.ListObjects(ctx, ostiary.ListObjectsRequest{Type: "document", Relation: "viewer", Subject: q.Subject, QueryOptions: o})
				_, read := s.Read(ctx, ostiary.ReadRequest{Consistency: c})
				var export error
				for _, err := range s.Export(ctx, c) {
					export = errors.Join(export, err)
				}
				return map[string]error{"check": check, "list": list, "read": read, "export": export}
			}
			expect := func(when string, c ostiary.Consistency, refused bool) {
				t.Helper()
				for call, err := range asks(c) {
					if errors.Is(err, ostiary.ErrImporting) != refused || err != nil && !refused {
						t.Errorf("%s: %s: error %v, want refused: %v", when, call, err, refused)
					}
				}
			}
			before := must(s.Head(ctx))(t)
			mark := []ostiary.Document{{Kind: ostiary.ImportKind, Key: ostiary.ImportKey, Body: []byte("1")}}
			first := must(s.Write(ctx, ostiary.WriteRequest{Documents: mark, Add: tups(t, "document:1#owner@user:anne")}))(t)
			again := must(s.Write(ctx, ostiary.WriteRequest{Documents: mark, Add: tups(t, "document:2#owner@user:anne")}))(t)
			other := must(s.Write(ctx, ostiary.WriteRequest{Documents: []ostiary.Document{{Kind: ostiary.ImportKind, Key: "other", Body: []byte("1")}}}))(t)
			for range 2 {
				expect("newest", ostiary.MinimizeLatency(), true)
				expect("head", ostiary.FullyConsistent(), true)
				expect("exactly", ostiary.AtExactly(first), true)
				expect("before the mark", ostiary.AtExactly(before), false)
				must(struct{}{}, s.Compact(ctx))(t)
				expect("compacted", ostiary.MinimizeLatency(), true)
				s = x.again(s)
			}
			after := must(s.Write(ctx, end))(t)
			for range 2 {
				want(t, s, "document:2#viewer@user:anne", "true")
				expect("after", ostiary.MinimizeLatency(), false)
				expect("before the mark", ostiary.AtExactly(before), false)
				for _, token := range []ostiary.Token{first, again, other} {
					expect("the past", ostiary.AtExactly(token), true)
				}
				expect("the end", ostiary.AtExactly(after), false)
				must(struct{}{}, s.Compact(ctx))(t)
				expect("compacted", ostiary.MinimizeLatency(), false)
				s = x.again(s)
			}
			x.end()
		}
	})
}
