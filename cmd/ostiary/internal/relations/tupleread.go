package relations

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// readJSON is the JSON form of a page of tuples.
type readJSON struct {
	Tuples   []storedJSON `json:"tuples"`
	Next     string       `json:"next,omitempty"`
	Revision uint64       `json:"revision"`
}

type storedJSON struct {
	tuplefile.Record
	Created string `json:"created,omitempty"`
}

func (a *app) tupleRead() *cobra.Command {
	var filter filterFlags
	var limit int
	var cursor, at string
	cmd := &cobra.Command{Use: "read", Short: "Show tuples", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		selected, err := filter.parse()
		if err != nil {
			return err
		}
		when, err := parseAt("--at", at)
		if err != nil {
			return err
		}
		return a.onStore(cmd.Context(), func(s *found) error {
			if err := s.requireRevision(cmd.Context(), when); err != nil {
				return err
			}
			page, err := s.Read(cmd.Context(), client.Read{Filter: filterOf(selected), At: when, Page: client.Page{Limit: limit, Cursor: cursor}})
			if err != nil {
				return err
			}
			types := []string{selected.SubjectType, selected.ObjectType}
			return s.noteNothing(cmd.Context(), a, a.printRead(&page), "tuples"+typesOf(selected), types, selected.Relation)
		})
	}}
	filter.add(cmd)
	cli.CountVar(cmd.Flags(), &limit, "limit", 1, 100, "maximum number of tuples")
	cmd.Flags().StringVar(&cursor, "cursor", "", "cursor that the page before printed; continues after it")
	cmd.Flags().StringVar(&at, "at", "", "read an earlier point: a revision, a token, or a time (RFC 3339)")
	return cmd
}

// printRead prints the tuples of a page. It returns errNothing if there are none.
func (a *app) printRead(page *client.TuplePage) error {
	out := readJSON{Tuples: []storedJSON{}, Next: page.Next, Revision: page.Revision}
	for i := range page.Tuples {
		t, err := page.Tuples[i].Tuple()
		if err != nil {
			return err
		}
		record, err := tuplefile.RecordOf(t)
		if err != nil {
			return err
		}
		stored := storedJSON{Record: record}
		if created := page.Tuples[i].Created; created != nil {
			stored.Created = cli.Stamp(*created)
		}
		out.Tuples = append(out.Tuples, stored)
	}
	err := a.Print(out, func(w io.Writer) {
		cli.Printf(w, "USER\tRELATION\tOBJECT\tWRITTEN\tCONDITION, EXPIRY\n")
		for _, r := range out.Tuples {
			more := ""
			if t, err := r.Tuple(); err == nil {
				more = strings.TrimPrefix(strings.TrimPrefix(t.String(), t.Key().String()), " ")
			}
			cli.Printf(w, "%s\t%s\t%s\t%s\t%s\n", r.User, r.Relation, r.Object, r.Created, more)
		}
	})
	if out.Next != "" {
		a.Note("more results: --cursor %s", out.Next)
	} else if len(out.Tuples) == 0 && err == nil {
		return errNothing
	}
	return err
}

// typesOf returns the part of a remark that names the types of which a filter selects
// all subjects or objects, or "".
func typesOf(f rel.Filter) string {
	s := ""
	if f.SubjectType != "" && f.SubjectID == "" {
		s += fmt.Sprintf(" of subjects of the type %q", f.SubjectType)
	}
	if f.ObjectType != "" && f.ObjectID == "" {
		s += fmt.Sprintf(" of objects of the type %q", f.ObjectType)
	}
	return s
}
