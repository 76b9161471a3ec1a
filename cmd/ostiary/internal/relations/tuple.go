package relations

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/openfga/tuplefile"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
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

// printWritten prints a write's result with the revision of token.
func (a *app) printWritten(what string, token ostiary.Token) error {
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	return a.printRevision(what, token, uint64(revision))
}

// write applies w and prints what it did: did, or unchanged if the store already
// was as requested.
func (a *app) write(ctx context.Context, s *ostiary.Store, w ostiary.WriteRequest, did, unchanged string) error {
	before, err := s.Head(ctx)
	if err != nil {
		return err
	}
	token, err := s.Write(ctx, w)
	if err != nil {
		return err
	}
	if token == before {
		did = unchanged
	}
	return a.printWritten(did, token)
}

// countTuples returns the number of tuples that match a filter.
func countTuples(ctx context.Context, s *ostiary.Store, f rel.Filter) (n int, err error) {
	for r := (ostiary.ReadRequest{Filter: f, Limit: 1000}); ; {
		page, err := s.Read(ctx, r)
		if err != nil {
			return n, err
		}
		n += len(page.Tuples)
		if r.Cursor = page.Next; page.Next == "" {
			return n, nil
		}
	}
}

// printRevision prints a write's result. Revision 0 means that the server does not
// report revisions.
func (a *app) printRevision(what string, token ostiary.Token, revision uint64) error {
	out := writtenJSON{Token: string(token), Revision: revision}
	return a.Print(out, func(w io.Writer) {
		if revision == 0 {
			fmt.Fprintln(w, what)
			return
		}
		fmt.Fprintf(w, "%s, revision %d\n", what, revision)
	})
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
			policy, err := duplicate.Policy()
			if err != nil {
				return err
			}
			if r := a.remote(); r != nil {
				err = r.writeTuple(cmd.Context(), t, duplicate, schemaID)
			} else {
				err = a.WithStore(cmd.Context(), func(s *ostiary.Store) error {
					w := ostiary.WriteRequest{Add: []rel.Tuple{t}, OnDuplicate: policy, SchemaID: schemaID}
					return a.write(cmd.Context(), s, w, "wrote "+t.String(), unchangedTuple(t))
				})
			}
			return a.hintNames(cmd.Context(), schemaID, t, err)
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

// unchangedTuple is the result of a write of a tuple that exists.
func unchangedTuple(t rel.Tuple) string { return "unchanged, the tuple exists: " + t.String() }

func (a *app) tupleDelete() *cobra.Command {
	var filter filterFlags
	var missing string
	var yes bool
	cmd := &cobra.Command{Use: "delete USER RELATION OBJECT | delete --yes --user … --relation … --object …", Short: "Delete a tuple, or all tuples that match a filter",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := deletion(args, &filter, yes)
			if err != nil {
				return err
			}
			if missing == "ignore" {
				w.OnMissing = ostiary.Ignore
			} else if missing != "error" {
				return fmt.Errorf("%w: invalid --on-missing %q: expected error or ignore", cli.ErrUsage, missing)
			}
			if len(w.RemoveMatching) > 0 && cmd.Flags().Changed("on-missing") {
				return fmt.Errorf("%w: --on-missing is about one tuple: expected none with a filter", cli.ErrUsage)
			}
			if r := a.remote(); r != nil {
				err = r.deleteTuple(cmd.Context(), w)
			} else {
				err = a.WithStore(cmd.Context(), func(s *ostiary.Store) error { return a.deleteTuples(cmd.Context(), s, w) })
			}
			if err == nil && len(w.RemoveMatching) > 0 {
				f := w.RemoveMatching[0].Tuple
				if text := a.unknownNames(cmd.Context(), []string{f.SubjectType, f.ObjectType}, f.Relation); text != "" {
					a.Note("check the filter%s", text)
				}
			}
			if len(w.Remove) == 1 {
				err = a.hintNames(cmd.Context(), "", rel.Tuple{Object: w.Remove[0].Object, Relation: w.Remove[0].Relation, Subject: w.Remove[0].Subject}, err)
			}
			return err
		}}
	filter.add(cmd)
	cmd.Flags().StringVar(&missing, "on-missing", "error", "what to do if the tuple does not exist: error or ignore")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion by a filter")
	return cmd
}

// deletion returns the write that deletes the tuple of the arguments, or the tuples
// that match a filter.
func deletion(args []string, filter *filterFlags, yes bool) (w ostiary.WriteRequest, err error) {
	selected, err := filter.parse()
	if err != nil {
		return w, err
	}
	switch {
	case len(args) == 3 && selected == rel.Filter{}:
		t, err := parseTriple(args)
		w.Remove = []rel.Key{t.Key()}
		return w, err
	case len(args) == 0 && selected != rel.Filter{} && !yes:
		return w, fmt.Errorf("%w: this deletes every tuple that matches the filter; confirm with --yes", cli.ErrUsage)
	case len(args) == 0 && selected != rel.Filter{}:
		w.RemoveMatching = []storage.Filter{{Target: storage.FilterTuples, Tuple: selected}}
		return w, nil
	}
	return w, fmt.Errorf("%w: expected USER RELATION OBJECT, or a filter (--user, --relation, --object)", cli.ErrUsage)
}

// deleteTuples applies a write of [deletion] and prints what it deleted.
func (a *app) deleteTuples(ctx context.Context, s *ostiary.Store, w ostiary.WriteRequest) error {
	if len(w.RemoveMatching) == 0 {
		return a.write(ctx, s, w, "deleted "+w.Remove[0].String(), unchangedMissing)
	}
	n, err := countTuples(ctx, s, w.RemoveMatching[0].Tuple)
	if err != nil {
		return err
	}
	return a.write(ctx, s, w, deletedMatching(n), unchangedMissing)
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

// storedOf returns a tuple in the form of the output, without Created.
func storedOf(t rel.Tuple) (storedJSON, error) {
	record, err := tuplefile.RecordOf(t)
	return storedJSON{Record: record}, err
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
		when, err := cli.ParseAt("--at", at)
		if err != nil {
			return err
		}
		types := []string{selected.SubjectType, selected.ObjectType}
		if r := a.remote(); r != nil {
			err := r.readTuples(cmd.Context(), filter, selected, limit, cursor, at)
			return a.noteNothing(cmd.Context(), err, "tuples"+typesOf(selected), types, selected.Relation)
		}
		err = a.WithStore(cmd.Context(), func(s *ostiary.Store) error {
			page, err := s.Read(cmd.Context(), ostiary.ReadRequest{Filter: selected, Limit: limit, Cursor: cursor, Consistency: when})
			if err != nil {
				return err
			}
			out := readJSON{Tuples: []storedJSON{}, Next: page.Next, Revision: uint64(page.Revision)}
			for _, t := range page.Tuples {
				stored, err := storedOf(t.Tuple)
				if err != nil {
					return err
				}
				stored.Created = cli.Stamp(t.Created)
				out.Tuples = append(out.Tuples, stored)
			}
			return a.printRead(out)
		})
		return a.noteNothing(cmd.Context(), err, "tuples"+typesOf(selected), types, selected.Relation)
	}}
	filter.add(cmd)
	cli.CountVar(cmd.Flags(), &limit, "limit", 1, 100, "maximum number of tuples")
	cmd.Flags().StringVar(&cursor, "cursor", "", "cursor that the page before printed; continues after it")
	cmd.Flags().StringVar(&at, "at", "", "read an earlier point: a revision, a token, or a time (RFC 3339)")
	return cmd
}

// printRead prints the tuples of a page. It returns errNothing if there are none.
func (a *app) printRead(out readJSON) error {
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
