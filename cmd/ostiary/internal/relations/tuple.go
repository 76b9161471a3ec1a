package relations

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) tupleCommand() *cobra.Command {
	return cli.Group("tuple", "Write, import, read and export tuples",
		a.tupleWrite(), a.tupleDelete(), a.tupleImport(), a.tupleRead(), a.tupleExport())
}

// writtenJSON is the JSON form of a write's result.
type writtenJSON struct {
	Token    string `json:"token"`
	Revision uint64 `json:"revision"`
	// Tuples is the number of tuples that an import read or a deletion by a filter
	// selected. Changed is the number of tuples that the store got or lost.
	Tuples  int  `json:"tuples,omitempty"`
	Changed *int `json:"changed,omitempty"`
}

// write applies w and prints what it did: did, or unchanged if the store already was as
// requested.
func (a *app) write(ctx context.Context, s *found, w client.Write, did, unchanged string) error {
	out, err := s.Write(ctx, w)
	if err != nil {
		return err
	}
	if out.Unchanged {
		did = unchanged
	}
	return a.Print(writtenJSON{Token: out.Token, Revision: out.Revision}, func(w io.Writer) {
		if out.Revision == 0 { // the server does not report it
			cli.Println(w, did)
			return
		}
		cli.Printf(w, "%s, revision %d\n", did, out.Revision)
	})
}

// count returns the number of tuples that match a filter.
func (f *found) count(ctx context.Context, filter client.Filter) (n int, err error) {
	for r := (client.Read{Filter: filter, Page: client.Page{Limit: 1000}}); ; {
		page, err := f.Read(ctx, r)
		if err != nil {
			return n, err
		}
		n += len(page.Tuples)
		if r.Cursor = page.Next; page.Next == "" {
			return n, nil
		}
	}
}

// filterOf returns a filter for tuples in the form of the API.
func filterOf(f rel.Filter) client.Filter {
	return client.Filter{ObjectType: f.ObjectType, ObjectID: f.ObjectID, Relation: f.Relation,
		SubjectType: f.SubjectType, SubjectID: f.SubjectID, SubjectRelation: f.SubjectRelation, SubjectPlain: f.SubjectPlain}
}

// unchangedMissing is the result of a deletion of a tuple that does not exist.
const unchangedMissing = "unchanged, no such tuple"

// filterFlags select tuples by subject, relation and object.
type filterFlags struct{ user, relation, object string }

func (f *filterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.user, "user", "", "subject: type, type:id, type#relation or type:id#relation")
	cmd.Flags().StringVar(&f.relation, "relation", "", "relation")
	cmd.Flags().StringVar(&f.object, "object", "", "object: type or type:id")
}

func (f *filterFlags) parse() (out rel.Filter, err error) {
	out.Relation = f.relation
	out.ObjectType, out.ObjectID, _ = strings.Cut(f.object, ":")
	typ, id, hasID := strings.Cut(f.user, ":")
	if !hasID {
		typ, out.SubjectRelation, _ = strings.Cut(typ, "#")
		out.SubjectType = typ
	} else if id == "" {
		out.SubjectType = typ
	} else {
		sub, err := rel.ParseSubject(f.user)
		if err != nil {
			return out, err
		}
		out.SubjectType, out.SubjectID, out.SubjectRelation = sub.Type, sub.ID, sub.Relation
		out.SubjectPlain = sub.Relation == ""
	}
	if out.ObjectType == "" && f.object != "" || out.SubjectType == "" && f.user != "" {
		return out, fmt.Errorf("%w: the filter has no type: expected type or type:id", cli.ErrUsage)
	}
	for _, name := range []string{f.object, f.user} {
		if typ, id, found := strings.Cut(name, ":"); found && id == "" { // most often a shell variable without a value
			return out, fmt.Errorf("%w: the filter %q has no id: expected %s:ID, or %s for all of the type", cli.ErrUsage, name, typ, typ)
		}
	}
	return out, nil
}
