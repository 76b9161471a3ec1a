package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) entitlementsCommand() *cobra.Command {
	var flags queryFlags
	var relations []string
	var permissions bool
	cmd := &cobra.Command{Use: "entitlements USER OBJECT…", Short: "Show every relation that a subject has on some objects", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := rel.ParseSubject(args[0])
			if err != nil {
				return err
			}
			for _, object := range args[1:] {
				o, err := rel.ParseObject(object)
				if err == nil {
					err = requireNoWildcard(o)
				}
				if err != nil {
					return err
				}
			}
			return a.ask(cmd.Context(), &flags, rel.Tuple{Subject: subject}, func(s *found, q client.Query) error {
				text, err := s.ask(cmd.Context(), "/entitlements", entitlementsRequest{args[0], args[1:], permissions, relations, q})
				if err != nil {
					return err
				}
				if err := a.printEntitlements(text); err != nil {
					return err
				}
				a.noteObjects(cmd.Context(), s, &flags, args[1:])
				return nil
			})
		}}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&relations, "relation", nil, "show only this relation; may be repeated")
	cmd.Flags().BoolVar(&permissions, "permissions", false, "show only computed relations")
	return cmd
}

// noteObjects prints a note if a type of the objects has no relations, as that of a
// user: the arguments are then most often in the wrong order.
func (a *app) noteObjects(ctx context.Context, s *found, f *queryFlags, objects []string) {
	sc, err := s.Schema(ctx, f.schema)
	if err != nil || f.at != "" || sc.Model.Namespace != "" {
		return
	}
	for _, object := range objects {
		if typ, _, _ := strings.Cut(object, ":"); len(relationsOf(sc.Model, typ)) == 0 {
			a.Note("the type %q has no relations: the arguments are USER OBJECT…", typ)
			return
		}
	}
}

// entitlementsRequest is the body of a request for entitlements.
type entitlementsRequest struct {
	Subject     string   `json:"subject"`
	Objects     []string `json:"objects"`
	Permissions bool     `json:"permissions,omitempty"`
	Relations   []string `json:"relations,omitempty"`
	client.Query
}

// printEntitlements prints the response to a request for entitlements. It returns
// errPartial if some of its results are errors.
func (a *app) printEntitlements(text json.RawMessage) error {
	var out struct {
		Objects []struct {
			Object    string
			Relations []string
			Undecided []struct{ Relation string }
			Error     *struct{ Message string }
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return err
	}
	failed := 0
	for _, o := range out.Objects {
		if o.Error != nil {
			failed++
		}
	}
	err := a.printNative(text, &out, func(w io.Writer) {
		for _, o := range out.Objects {
			line := strings.Join(o.Relations, " ")
			for _, u := range o.Undecided {
				line += " " + u.Relation + "?"
			}
			if o.Error != nil {
				line = "error: " + o.Error.Message
			}
			if line = strings.TrimSpace(line); line == "" {
				line = "nothing"
			}
			fmt.Fprintf(w, "%s\t%s\n", o.Object, line)
		}
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%w: %d of %d", cli.ErrPartial, failed, len(out.Objects))
	}
	return err
}

// permissionChange is one change in the output of diff and watch.
type permissionChange struct {
	Object, Subject string
	Before, After   string
	Except          []string
	ExceptCount     int `json:"except_count"`
}

// print writes one line: + for a gain, - for a loss, and ? if the decision before
// or after is unknown.
func (c *permissionChange) print(w io.Writer, relation string, color bool) {
	sign := "?"
	switch {
	case c.After == "true":
		sign = "+"
	case c.Before == "true":
		sign = "-"
	}
	line := fmt.Sprintf("%s %s %s %s", sign, c.Subject, relation, c.Object)
	if c.ExceptCount > 0 {
		line += fmt.Sprintf(" (except %s", strings.Join(c.Except, " "))
		if more := c.ExceptCount - len(c.Except); more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		line += ")"
	}
	if sign == "?" {
		line += fmt.Sprintf(" (%s, was %s)", c.After, c.Before)
	}
	if begin := map[string]string{"+": cli.ColorGreen, "-": cli.ColorRed}[sign]; color && begin != "" {
		line = begin + line + cli.ColorOff
	}
	fmt.Fprintln(w, line)
}

// permissionFlags restrict diff and watch to some objects and subjects.
type permissionFlags struct{ objects, subjects []string }

func (f *permissionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.objects, "object", nil, "show only this object, by its id with or without its type; may be repeated")
	cmd.Flags().StringSliceVar(&f.subjects, "subject", nil, "show only this subject, by its id with or without its type; may be repeated")
}

// ids returns the ids of subjects of a type, or type#relation, or of objects of a
// type. A name may have the type before its id.
func ids(typ, relation string, names []string) (out []string) {
	for _, name := range names {
		id, typed := strings.CutPrefix(name, typ+":")
		if typed && relation != "" {
			id = strings.TrimSuffix(id, "#"+relation)
		}
		out = append(out, id)
	}
	return out
}

// requireOwnTypes fails if the names of --object or --subject have another type than
// the objects of a type, or the subjects of TYPE[#RELATION].
func (f *permissionFlags) requireOwnTypes(ctx context.Context, s *found, objectType, subjectType string) error {
	for _, x := range [...]struct {
		flag, what, typ string
		names           []string
	}{{"--object", "objects", objectType, f.objects}, {"--subject", "subjects", subjectType, f.subjects}} {
		want, relation := splitType(x.typ)
		for _, name := range x.names {
			typ, id, typed := strings.Cut(name, ":")
			if !typed {
				continue
			}
			_, has, _ := strings.Cut(id, "#")
			if typ == want && (has == "" || has == relation) {
				continue
			}
			if typ != want { // an id may have a colon
				if sc, err := s.Schema(ctx, ""); err != nil || relationsOf(sc.Model, typ) == nil {
					continue
				}
			}
			return fmt.Errorf("%w: invalid %s %q: the %s are of the type %s: expected an id, or %s:ID", cli.ErrUsage, x.flag, name, x.what, x.typ, want)
		}
	}
	return nil
}

// requireTypeNames fails if the arguments TYPE[#RELATION] RELATION TYPE name an object
// or a subject.
func requireTypeNames(args []string) error {
	for i, flag := range map[int]string{0: "--subject", 2: "--object"} {
		if typ, _, ok := strings.Cut(args[i], ":"); ok {
			return fmt.Errorf("%w: invalid type %q: expected %s; to select one, add %s %s", cli.ErrUsage, args[i], typ, flag, args[i])
		}
	}
	return nil
}

// splitType parses TYPE[#RELATION].
func splitType(s string) (typ, relation string) {
	typ, relation, _ = strings.Cut(s, "#")
	return typ, relation
}

func (a *app) diffCommand() *cobra.Command {
	var flags permissionFlags
	var from, to, schema, context, cursor string
	var limit int
	cmd := &cobra.Command{Use: "diff TYPE[#RELATION] RELATION TYPE", Short: "Show which subjects gained or lost a relation between two revisions", Args: cobra.ExactArgs(3),
		Long: "Show which subjects of the first type gained (+) or lost (-) a relation on objects of the second type between two revisions.\n" +
			"--from and --to are a revision, a token, or a time (RFC 3339).",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireTypeNames(args); err != nil {
				return err
			}
			typ, relation := splitType(args[0])
			in := &differenceRequest{SubjectType: typ, SubjectRelation: relation, Relation: args[1], ObjectType: args[2],
				Objects: ids(args[2], "", flags.objects), Subjects: ids(typ, relation, flags.subjects), Schema: schema, Page: client.Page{Limit: limit, Cursor: cursor}}
			var err error
			if in.Context, err = parseContext(context); err != nil {
				return err
			}
			if in.From, err = parseAt("--from", from); err != nil {
				return err
			}
			if in.To, err = parseAt("--to", to); err != nil {
				return err
			}
			if in.To == nil {
				in.To = &client.At{}
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				if err := flags.requireOwnTypes(cmd.Context(), s, args[2], args[0]); err != nil {
					return err
				}
				if err := s.requireRevision(cmd.Context(), in.From, in.To); err != nil {
					return err
				}
				return a.diff(cmd.Context(), s, in, limit > 0)
			})
		}}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&from, "from", "0", "show what changed after this revision, token or time")
	f.StringVar(&to, "to", "", "show what changed up to this revision, token or time (included); default: the newest revision")
	f.StringVar(&schema, "schema", "", "id of the schema to use for both; default: the schema that was current at each")
	f.StringVar(&context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	cli.CountVar(f, &limit, "limit", 0, 0, "maximum number of changes; default: all")
	f.StringVar(&cursor, "cursor", "", "cursor that a diff with --limit printed; continues that diff")
	return cmd
}

// differenceRequest is the body of a request for a difference.
type differenceRequest struct {
	SubjectType     string         `json:"subject_type"`
	SubjectRelation string         `json:"subject_relation,omitempty"`
	Relation        string         `json:"relation"`
	ObjectType      string         `json:"object_type"`
	Objects         []string       `json:"objects,omitempty"`
	Subjects        []string       `json:"subjects,omitempty"`
	Schema          string         `json:"schema,omitempty"`
	Context         map[string]any `json:"context,omitempty"`
	From            *client.At     `json:"from"`
	To              *client.At     `json:"to"`
	client.Page
}

// diff prints all pages of a difference, or one page if one is true.
func (a *app) diff(ctx context.Context, s *found, in *differenceRequest, one bool) error {
	for shown := 0; ; {
		text, err := s.ask(ctx, "/difference", in)
		if err != nil {
			return s.hintOrder(ctx, in.SubjectType, in.Relation, in.ObjectType, err)
		}
		var page struct {
			Changes   []permissionChange
			Next      string
			Undecided int
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		if err := a.printNative(text, &page, func(w io.Writer) {
			for i := range page.Changes {
				page.Changes[i].print(w, in.Relation, a.Colored())
			}
		}); err != nil {
			return err
		}
		if page.Undecided > 0 {
			a.Note("%d unknown before and after", page.Undecided)
		}
		shown += len(page.Changes) + page.Undecided
		if in.Cursor = page.Next; in.Cursor == "" {
			if shown == 0 {
				a.Note("no differences")
			}
			return nil
		}
		if one {
			a.Note("more results: --cursor %s", in.Cursor)
			return nil
		}
	}
}

func (a *app) watchCommand() *cobra.Command {
	var flags permissionFlags
	var from, context string
	cmd := &cobra.Command{Use: "watch TYPE[#RELATION] RELATION TYPE", Short: "Show which subjects gain or lose a relation, as it happens", Args: cobra.ExactArgs(3),
		Long: "Show which subjects gain (+) or lose (-) a relation, as it happens, until the command is interrupted.\n" +
			"Name the objects or the subjects to watch. Only one process can have a folder open, so use --server to see the writes of others;\n" +
			"on a folder, --from shows past changes. With --json each line is one update.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireTypeNames(args); err != nil {
				return err
			}
			if len(flags.objects)+len(flags.subjects) == 0 {
				return fmt.Errorf("%w: expected what to watch: --object or --subject", cli.ErrUsage)
			}
			values, err := parseContext(context)
			if err != nil {
				return err
			}
			if _, err := ostiary.Token(from).Revision(); from != "" && err != nil {
				return fmt.Errorf("%w: invalid --from %q: expected a token, for example one that \"ostiary changes --json\" prints", cli.ErrUsage, from)
			}
			if a.Server == "" {
				a.Note("no other process can write to the folder while this command has it open: use --server to see changes as they happen")
			}
			typ, relation := splitType(args[0])
			query := url.Values{"subject_type": {typ}, "relation": {args[1]}, "object_type": {args[2]}, "object": ids(args[2], "", flags.objects), "subject": ids(typ, relation, flags.subjects)}
			if relation != "" {
				query.Set("subject_relation", relation)
			}
			if values != nil {
				text, err := json.Marshal(values)
				if err != nil {
					return err
				}
				query.Set("context", string(text))
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				if err := flags.requireOwnTypes(cmd.Context(), s, args[2], args[0]); err != nil {
					return err
				}
				own, err := s.native()
				if err != nil {
					return err
				}
				if a.Server != "" && from == "" {
					now, err := own.Get(cmd.Context())
					if err != nil {
						return err
					}
					from = now.Token
				}
				if from != "" {
					query.Set("after", from)
				}
				err = a.eachEvent(cmd.Context(), own.Watch(cmd.Context(), "/watch-permission", query), from, func(data json.RawMessage) error {
					var update struct{ Changes []permissionChange }
					return a.printNative(data, &update, func(w io.Writer) {
						for i := range update.Changes {
							update.Changes[i].print(w, args[1], a.Colored())
						}
					})
				})
				return s.hintOrder(cmd.Context(), typ, args[1], args[2], err)
			})
		}}
	flags.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "show what changes after the revision of this token; default: after the newest revision")
	cmd.Flags().StringVar(&context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	return cmd
}

// errEnded means that a server ended a stream, which has no end of its own.
var errEnded = errors.New("the server ended the stream")

// eachEvent calls f with the data of each event of a watch that begins after a token.
// An interrupt is the normal end. If a server ends the watch, the error has the token
// from which to continue.
func (a *app) eachEvent(ctx context.Context, events iter.Seq2[client.Event, error], last string, f func(json.RawMessage) error) error {
	for e, err := range events {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (a.Server == "" || isResponse(err) || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET)):
			return err
		case err != nil:
			return ended(last)
		}
		if err := f(e.Data); err != nil {
			return err
		}
		last = e.Token
	}
	if ctx.Err() != nil || a.Server == "" {
		return nil
	}
	return ended(last)
}

// ended returns the error of a watch that a server ended after the event with a token.
func ended(last string) error {
	return fmt.Errorf("%w: it stops, or no longer accepts the key; to continue, run the command again with --from %s", errEnded, last)
}
