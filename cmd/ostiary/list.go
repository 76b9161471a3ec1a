package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/eval"
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
	cmd.Flags().IntVar(&f.limit, "limit", 0, "maximum number of results; default: all")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "cursor that a list with --limit printed; continues that list")
}

// listJSON is the JSON form of a list.
type listJSON struct {
	Objects  []string `json:"objects,omitempty"`
	Subjects []string `json:"subjects,omitempty"`
	// Excluded are the subjects that a wildcard in Subjects does not include.
	Excluded       []string `json:"excluded,omitempty"`
	Next           string   `json:"next,omitempty"`
	Undecided      []string `json:"undecided,omitempty"`
	UndecidedCount int      `json:"undecided_count,omitempty"`
	Reason         string   `json:"reason,omitempty"`
	Incomplete     string   `json:"incomplete,omitempty"`
	Revision       uint64   `json:"revision"`
}

func (a *app) listCommand() *cobra.Command {
	return group("list", "List objects or subjects", a.listObjects(), a.listSubjects())
}

func (a *app) listObjects() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "objects USER RELATION TYPE", Short: "List the objects of a type that a subject has a relation on",
		Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := rel.ParseSubject(args[0])
			if err != nil {
				return err
			}
			query, err := flags.options()
			if err != nil {
				return err
			}
			if r := a.remote(); r != nil {
				return r.listObjects(cmd.Context(), subject, args[1], args[2], &flags)
			}
			r := ostiary.ListObjectsRequest{Type: args[2], Relation: args[1], Subject: subject, Limit: flags.limit, Cursor: flags.cursor, QueryOptions: query}
			return a.withStore(cmd.Context(), func(s *ostiary.Store) error {
				if err := requireSubjectType(cmd.Context(), s, &flags.queryFlags, subject.Type); err != nil {
					return err
				}
				var out listJSON
				for {
					page, err := s.ListObjects(cmd.Context(), r)
					if err != nil {
						return err
					}
					name := func(id string) string { return r.Type + ":" + id }
					out.Objects = append(out.Objects, named(page.IDs, name)...)
					out.add(named(page.Unknown, name), page.UnknownCount, page.Reasons, page.Bound, uint64(page.Revision))
					if r.Cursor = page.Next; r.Cursor == "" || flags.limit > 0 || page.Bound != "" {
						break
					}
				}
				out.Next = r.Cursor
				return a.printList(&out, out.Objects)
			})
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

func (l *listJSON) add(undecided []string, count int, why *eval.Reasons, bound string, revision uint64) {
	l.Undecided = append(l.Undecided, undecided...)
	l.UndecidedCount += count
	if why != nil {
		l.Reason = why.String()
	}
	l.Incomplete, l.Revision = bound, revision
}

func (a *app) listSubjects() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "subjects TYPE[#RELATION] RELATION OBJECT", Short: "List the subjects of a type that have a relation on an object",
		Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			object, err := rel.ParseObject(args[2])
			if err != nil {
				return err
			}
			query, err := flags.options()
			if err != nil {
				return err
			}
			typ, relation, _ := strings.Cut(args[0], "#")
			if r := a.remote(); r != nil {
				return r.listSubjects(cmd.Context(), typ, relation, args[1], object, &flags)
			}
			r := ostiary.ListSubjectsRequest{Object: object, Relation: args[1], SubjectType: typ, SubjectRelation: relation,
				Limit: flags.limit, Cursor: flags.cursor, QueryOptions: query}
			name := func(id string) string { return rel.Subject{Type: typ, ID: id, Relation: relation}.String() }
			return a.withStore(cmd.Context(), func(s *ostiary.Store) error {
				var out listJSON
				for {
					page, err := s.ListSubjects(cmd.Context(), r)
					if err != nil {
						return err
					}
					if page.Wildcard == expr.True && relation == "" && len(out.Subjects) == 0 {
						out.Subjects = append(out.Subjects, typ+":"+rel.Wildcard)
					}
					out.Subjects = append(out.Subjects, named(page.IDs, name)...)
					out.Excluded = append(out.Excluded, named(page.Excluded, name)...)
					out.add(named(page.Unknown, name), page.UnknownCount, page.Reasons, page.Bound, uint64(page.Revision))
					if r.Cursor = page.Next; r.Cursor == "" || flags.limit > 0 || page.Bound != "" {
						break
					}
				}
				out.Next = r.Cursor
				return a.printList(&out, out.Subjects)
			})
		}}
	flags.add(cmd)
	return cmd
}

// printList prints one name per line, and remarks to stderr. It returns errBound
// if a bound cut the list.
func (a *app) printList(out *listJSON, names []string) error {
	err := a.print(out, func(w io.Writer) {
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
		a.note("%d undecided (%s): %s%s", out.UndecidedCount, out.Reason, strings.Join(out.Undecided[:min(len(out.Undecided), 5)], " "),
			map[bool]string{true: " …"}[out.UndecidedCount > 5])
	}
	if out.Next != "" {
		a.note("more results: --cursor %s", out.Next)
	}
	if out.Incomplete != "" {
		return fmt.Errorf("%w: %s: the list is incomplete", errBound, out.Incomplete)
	}
	return nil
}
