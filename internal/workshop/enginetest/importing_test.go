package enginetest

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// A store with the mark of an unfinished import answers no question at the revisions
// that have the mark: not before and not after a restart or a compaction, whatever
// kind of write removed the mark.
func TestImporting(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		for _, end := range []authz.WriteRequest{
			{RemoveDocuments: []authz.DocumentKey{{Kind: authz.ImportKind, Key: authz.ImportKey}}},
			{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: authz.ImportKind}}},
		} {
			ctx := context.Background()
			x := start(t, d, ostiary.Options{})
			s := newStore(t, x.engine, documents())
			asks := func(c authz.Consistency) map[string]error {
				q, o := tup(t, "document:1#viewer@user:anne"), authz.QueryOptions{Consistency: c}
				_, check := s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: o})
				_, list := s.ListObjects(ctx, authz.ListObjectsRequest{Type: "document", Relation: "viewer", Subject: q.Subject, QueryOptions: o})
				_, read := s.Read(ctx, authz.ReadRequest{Consistency: c})
				var export error
				for _, err := range s.Export(ctx, c) {
					export = errors.Join(export, err)
				}
				return map[string]error{"check": check, "list": list, "read": read, "export": export}
			}
			expect := func(when string, c authz.Consistency, refused bool) {
				t.Helper()
				for call, err := range asks(c) {
					if errors.Is(err, authz.ErrImporting) != refused || err != nil && !refused {
						t.Errorf("%s: %s: error %v, want refused: %v", when, call, err, refused)
					}
				}
			}
			before := must(s.Head(ctx))(t)
			mark := []authz.Document{{Kind: authz.ImportKind, Key: authz.ImportKey, Body: []byte("1")}}
			first := must(s.Write(ctx, authz.WriteRequest{Documents: mark, Add: tups(t, "document:1#owner@user:anne")}))(t)
			again := must(s.Write(ctx, authz.WriteRequest{Documents: mark, Add: tups(t, "document:2#owner@user:anne")}))(t)
			other := must(s.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: authz.ImportKind, Key: "other", Body: []byte("1")}}}))(t)
			for range 2 {
				expect("newest", authz.MinimizeLatency(), true)
				expect("head", authz.FullyConsistent(), true)
				expect("exactly", authz.AtExactly(first), true)
				expect("before the mark", authz.AtExactly(before), false)
				must(struct{}{}, s.Compact(ctx))(t)
				expect("compacted", authz.MinimizeLatency(), true)
				s = x.again(s)
			}
			after := must(s.Write(ctx, end))(t)
			for range 2 {
				want(t, s, "document:2#viewer@user:anne", "true")
				expect("after", authz.MinimizeLatency(), false)
				expect("before the mark", authz.AtExactly(before), false)
				for _, token := range []authz.Token{first, again, other} {
					expect("the past", authz.AtExactly(token), true)
				}
				expect("the end", authz.AtExactly(after), false)
				must(struct{}{}, s.Compact(ctx))(t)
				expect("compacted", authz.MinimizeLatency(), false)
				s = x.again(s)
			}
			x.end()
		}
	})
}
