package relations

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/tuplefile"
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
			fmt.Fprintln(w, did)
			return
		}
		fmt.Fprintf(w, "%s, revision %d\n", did, out.Revision)
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

func (a *app) tupleWrite() *cobra.Command {
	var condition, context, expires, schemaID string
	var duplicate cli.DuplicateFlag
	cmd := &cobra.Command{Use: "write USER RELATION OBJECT", Short: "Write a tuple", Args: cobra.ExactArgs(3), Long: "Write a tuple. " + subjectHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTriple(args)
			if err != nil {
				return err
			}
			if context != "" && condition == "" {
				return fmt.Errorf("%w: --context has the parameters of --condition, which is missing", cli.ErrUsage)
			}
			if t.Condition = condition; context != "" {
				values, err := parseContext(context)
				if err != nil {
					return err
				}
				if t.Context, err = rel.CanonicalValue(map[string]any(values)); err != nil {
					return err
				}
			}
			if expires != "" {
				now := time.Now()
				if t.Expires, err = cli.ParseExpires(expires, now); err != nil {
					return err
				}
				if t.Expires <= rel.TimeOf(now) {
					a.Note("warning: the tuple has no effect, because %s is in the past", cli.Stamp(t.Expires.Time()))
				}
			}
			w := client.Write{Add: client.TuplesOf(t), Schema: schemaID}
			if w.OnDuplicate, err = duplicate.Action(); err != nil {
				return err
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				return s.hintNames(cmd.Context(), schemaID, t, a.write(cmd.Context(), s, w, "wrote "+t.String(), "unchanged, the tuple exists: "+t.String()))
			})
		}}
	f := cmd.Flags()
	f.StringVar(&condition, "condition", "", "name of a condition in the schema")
	f.StringVar(&context, "context", "", "parameters to store with the condition, a JSON object, or @FILE")
	f.StringVar(&expires, "expires", "", "when the tuple expires: a time (RFC 3339), or a duration from now such as 1h or 7d")
	f.StringVar(&schemaID, "schema", "", "id of the schema that must admit the tuple; default: the current one")
	duplicate.Add(cmd)
	return cmd
}

// deletedMatching is the result of a deletion of n tuples by a filter.
func deletedMatching(n int) string {
	if n == 1 {
		return "deleted 1 tuple that matches the filter"
	}
	return fmt.Sprintf("deleted %d tuples that match the filter", n)
}

// unchangedMissing is the result of a deletion of a tuple that does not exist.
const unchangedMissing = "unchanged, no such tuple"

func (a *app) tupleDelete() *cobra.Command {
	var filter filterFlags
	var missing string
	var yes bool
	cmd := &cobra.Command{Use: "delete USER RELATION OBJECT | delete --yes --user … --relation … --object …", Short: "Delete a tuple, or all tuples that match a filter",
		RunE: func(cmd *cobra.Command, args []string) error {
			selected, err := filter.parse()
			if err != nil {
				return err
			}
			w := client.Write{}
			if missing == "ignore" {
				w.OnMissing = missing
			} else if missing != "error" {
				return fmt.Errorf("%w: invalid --on-missing %q: expected error or ignore", cli.ErrUsage, missing)
			}
			switch all := selected != (rel.Filter{}); {
			case len(args) == 3 && !all:
				t, err := parseTriple(args)
				if err != nil {
					return err
				}
				w.Remove = client.TuplesOf(t)
				return a.onStore(cmd.Context(), func(s *found) error {
					return s.hintNames(cmd.Context(), "", t, a.write(cmd.Context(), s, w, "deleted "+t.Key().String(), unchangedMissing))
				})
			case len(args) == 0 && all && !yes:
				return fmt.Errorf("%w: this deletes every tuple that matches the filter; confirm with --yes", cli.ErrUsage)
			case len(args) == 0 && all && cmd.Flags().Changed("on-missing"):
				return fmt.Errorf("%w: --on-missing is about one tuple: expected none with a filter", cli.ErrUsage)
			case len(args) == 0 && all:
				return a.onStore(cmd.Context(), func(s *found) error { return a.deleteMatching(cmd.Context(), s, selected) })
			}
			return fmt.Errorf("%w: expected USER RELATION OBJECT, or a filter (--user, --relation, --object)", cli.ErrUsage)
		}}
	filter.add(cmd)
	cmd.Flags().StringVar(&missing, "on-missing", "error", "what to do if the tuple does not exist: error or ignore")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion by a filter")
	return cmd
}

// deleteMatching deletes the tuples that match a filter, in one entry of the log.
func (a *app) deleteMatching(ctx context.Context, s *found, f rel.Filter) error {
	filter := filterOf(f)
	n, err := s.count(ctx, filter)
	if err != nil {
		return err
	}
	if err := a.write(ctx, s, client.Write{RemoveMatching: []client.Matching{{Tuples: filter}}}, deletedMatching(n), unchangedMissing); err != nil {
		return err
	}
	if text := s.unknownNames(ctx, []string{f.SubjectType, f.ObjectType}, f.Relation); text != "" {
		a.Note("check the filter%s", text)
	}
	return nil
}

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
		fmt.Fprintln(w, "USER\tRELATION\tOBJECT\tWRITTEN\tCONDITION, EXPIRY")
		for _, r := range out.Tuples {
			more := ""
			if t, err := r.Tuple(); err == nil {
				more = strings.TrimPrefix(strings.TrimPrefix(t.String(), t.Key().String()), " ")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.User, r.Relation, r.Object, r.Created, more)
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
