package relations

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// listFlags select a page of a list. Without a limit the command reads all pages.
type listFlags struct {
	queryFlags
	limit  int
	cursor string
}

func (f *listFlags) add(cmd *cobra.Command) {
	f.queryFlags.add(cmd)
	cli.CountVar(cmd.Flags(), &f.limit, "limit", 0, 0, "maximum number of results; default: all")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "cursor that a list with --limit printed; continues that list")
}

// eachPage reads pages into out, from the cursor of the flags, until the list
// ends or a bound cuts it; with --limit it reads one. read adds the page at a
// cursor to out and returns the cursor of the next page.
func (f *listFlags) eachPage(out *listJSON, read func(cursor string) (string, error)) (err error) {
	for out.Next = f.cursor; ; {
		if out.Next, err = read(out.Next); err != nil || out.Next == "" || f.limit > 0 || out.Incomplete != "" {
			return err
		}
	}
}

// listJSON is the JSON form of a list.
type listJSON struct {
	// Objects is nil for a list of subjects, and Subjects for a list of objects.
	Objects  []string `json:"objects,omitzero"`
	Subjects []string `json:"subjects,omitzero"`
	// Excluded are the subjects that a wildcard in Subjects does not include.
	Excluded       []string `json:"excluded,omitempty"`
	Next           string   `json:"next,omitempty"`
	Undecided      []string `json:"undecided,omitempty"`
	UndecidedCount int      `json:"undecided_count,omitempty"`
	bound          string   // that left entries undecided
	Reason         string   `json:"reason,omitempty"`
	Incomplete     string   `json:"incomplete,omitempty"`
	Revision       uint64   `json:"revision"`
}

func (a *app) listCommand() *cobra.Command {
	return cli.Group("list", "List objects or subjects", a.listObjects(), a.listSubjects())
}

func (a *app) listObjects() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "objects USER RELATION TYPE", Short: "List the objects of a type that a subject has a relation on",
		Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := rel.ParseSubject(args[0])
			if err != nil {
				return err
			}
			remote := func(r *remote) error { return r.listObjects(cmd.Context(), subject, args[1], args[2], &flags) }
			err = a.ask(cmd.Context(), &flags.queryFlags, subject, remote, func(s *ostiary.Store, query ostiary.QueryOptions) error {
				r := ostiary.ListObjectsRequest{Type: args[2], Relation: args[1], Subject: subject, Limit: flags.limit, QueryOptions: query}
				name := func(id string) string { return r.Type + ":" + id }
				out := listJSON{Objects: []string{}}
				err := flags.eachPage(&out, func(cursor string) (string, error) {
					r.Cursor = cursor
					page, err := s.ListObjects(cmd.Context(), r)
					if err != nil {
						return "", err
					}
					out.Objects = append(out.Objects, named(page.IDs, name)...)
					out.add(named(page.Unknown, name), page.UnknownCount, page.Reasons, page.Bound, uint64(page.Revision))
					return page.Next, nil
				})
				if err != nil {
					return err
				}
				return a.printList(&out, out.Objects)
			})
			return a.hintNames(cmd.Context(), flags.schema, rel.Tuple{Object: rel.Object{Type: args[2]}, Relation: args[1], Subject: rel.Subject{Type: subject.Type}}, err)
		}}
	flags.add(cmd)
	return cmd
}

func named(ids []string, name func(string) string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = name(id)
	}
	return out
}

func (l *listJSON) add(undecided []string, count int, why *authz.Reasons, bound string, revision uint64) {
	l.Undecided = append(l.Undecided, undecided...)
	l.UndecidedCount += count
	if why != nil {
		l.Reason, l.bound = why.String(), cmp.Or(why.Bound, l.bound)
	}
	l.Incomplete, l.Revision = bound, revision
}

// firstUndecided names the first undecided entries.
func (l *listJSON) firstUndecided() string {
	names := strings.Join(l.Undecided[:min(len(l.Undecided), 5)], " ")
	if l.UndecidedCount > 5 {
		names += " …"
	}
	return names
}

func (a *app) listSubjects() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "subjects TYPE[#RELATION] RELATION OBJECT", Short: "List the subjects of a type that have a relation on an object",
		Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			object, err := rel.ParseObject(args[2])
			if err == nil {
				err = requireNoWildcard(object)
			}
			if err != nil {
				return err
			}
			typ, relation, _ := strings.Cut(args[0], "#")
			remote := func(r *remote) error { return r.listSubjects(cmd.Context(), typ, relation, args[1], object, &flags) }
			err = a.ask(cmd.Context(), &flags.queryFlags, rel.Subject{}, remote, func(s *ostiary.Store, query ostiary.QueryOptions) error {
				r := ostiary.ListSubjectsRequest{Object: object, Relation: args[1], SubjectType: typ, SubjectRelation: relation,
					Limit: flags.limit, QueryOptions: query}
				name := func(id string) string { return rel.Subject{Type: typ, ID: id, Relation: relation}.String() }
				out := listJSON{Subjects: []string{}}
				err := flags.eachPage(&out, func(cursor string) (string, error) {
					r.Cursor = cursor
					page, err := s.ListSubjects(cmd.Context(), r)
					if err != nil {
						return "", err
					}
					if page.Wildcard == expr.True && relation == "" && len(out.Subjects) == 0 {
						out.Subjects = append(out.Subjects, typ+":"+rel.Wildcard)
					}
					out.Subjects = append(out.Subjects, named(page.IDs, name)...)
					out.Excluded = append(out.Excluded, named(page.Excluded, name)...)
					out.add(named(page.Unknown, name), page.UnknownCount, page.Reasons, page.Bound, uint64(page.Revision))
					return page.Next, nil
				})
				if err != nil {
					return err
				}
				return a.printList(&out, out.Subjects)
			})
			return a.hintNames(cmd.Context(), flags.schema, rel.Tuple{Object: object, Relation: args[1], Subject: rel.Subject{Type: typ}}, err)
		}}
	flags.add(cmd)
	return cmd
}

// printList prints one name per line, and remarks to stderr. It returns ErrBound
// if a bound cut the list, and prints nothing if a bound left an entry undecided.
func (a *app) printList(out *listJSON, names []string) error {
	if out.bound != "" {
		return fmt.Errorf("%w: %s: %d undecided: %s", cli.ErrBound, out.bound, out.UndecidedCount, out.firstUndecided())
	}
	err := a.Print(out, func(w io.Writer) {
		for _, n := range names {
			fmt.Fprintln(w, n)
		}
		for _, n := range out.Excluded {
			fmt.Fprintln(w, "except "+n)
		}
	})
	if err != nil {
		return err
	}
	if out.UndecidedCount > 0 {
		a.Note("%d undecided (%s): %s", out.UndecidedCount, out.Reason, out.firstUndecided())
	}
	if out.Next != "" {
		a.Note("more results: --cursor %s", out.Next)
	}
	if out.Incomplete != "" {
		return fmt.Errorf("%w: %s: the list is incomplete", cli.ErrBound, out.Incomplete)
	}
	return nil
}
