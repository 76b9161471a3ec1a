package relations

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
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
			in, err := flags.nativeQuestion(map[string]any{"subject": args[0], "objects": args[1:], "permissions": permissions})
			if err != nil {
				return err
			}
			if relations != nil {
				in["relations"] = relations
			}
			if err := a.requireSubjects(cmd.Context(), &flags, subject); err != nil {
				return err
			}
			text, err := a.Native(cmd.Context(), http.MethodPost, "/entitlements", in)
			if err != nil {
				return err
			}
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
			return a.printPartial(failed, len(out.Objects), text, &out, func(w io.Writer) {
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
		}}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&relations, "relation", nil, "show only this relation; may be repeated")
	cmd.Flags().BoolVar(&permissions, "permissions", false, "show only computed relations")
	return cmd
}

// printPartial prints a response of the native API like PrintNative, and returns
// ErrPartial if some of its results are errors.
func (a *app) printPartial(failed, all int, text []byte, out any, human func(io.Writer)) error {
	if err := a.PrintNative(text, out, human); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%w: %d of %d", cli.ErrPartial, failed, all)
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
func (f *permissionFlags) requireOwnTypes(ctx context.Context, a *app, objectType, subjectType string) error {
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
				if m, err := a.knownModel(ctx, ""); err != nil || relationsOf(m, typ) == nil {
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
			in := map[string]any{"subject_type": typ, "relation": args[1], "object_type": args[2]}
			if relation != "" {
				in["subject_relation"] = relation
			}
			if err := flags.requireOwnTypes(cmd.Context(), a, args[2], args[0]); err != nil {
				return err
			}
			flags.into(in, args[2], args[0])
			values, err := parseContext(context)
			if err != nil {
				return err
			}
			if values != nil {
				in["context"] = values
			}
			if schema != "" {
				in["schema"] = schema
			}
			if limit > 0 {
				in["limit"] = limit
			}
			if in["from"], err = sideOf(from); err == nil {
				in["to"], err = sideOf(to)
			}
			if err != nil {
				return err
			}
			return a.diff(cmd, in, args[1], cursor, limit > 0)
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

// into adds the flags to a request about objects and subjects of two types. The
// type of the subjects may have a relation.
func (f *permissionFlags) into(in map[string]any, objectType, subjectType string) {
	if f.objects != nil {
		in["objects"] = ids(objectType, "", f.objects)
	}
	if f.subjects != nil {
		typ, relation := splitType(subjectType)
		in["subjects"] = ids(typ, relation, f.subjects)
	}
}

func sideOf(s string) (map[string]any, error) {
	if s == "" {
		return map[string]any{"minimize_latency": true}, nil
	}
	return cli.NativeAt("--from or --to", s)
}

// diff prints all pages of a difference, or one page if one is true.
func (a *app) diff(cmd *cobra.Command, in map[string]any, relation, cursor string, one bool) error {
	for shown := 0; ; {
		if cursor != "" {
			in["cursor"] = cursor
		}
		text, err := a.Native(cmd.Context(), http.MethodPost, "/difference", in)
		if err != nil {
			return err
		}
		var page struct {
			Changes   []permissionChange
			Next      string
			Undecided int
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		if err := a.PrintNative(text, &page, func(w io.Writer) {
			for i := range page.Changes {
				page.Changes[i].print(w, relation, a.Colored())
			}
		}); err != nil {
			return err
		}
		if page.Undecided > 0 {
			a.Note("%d unknown before and after", page.Undecided)
		}
		shown += len(page.Changes) + page.Undecided
		if cursor = page.Next; cursor == "" {
			if shown == 0 {
				a.Note("no differences")
			}
			return nil
		}
		if one {
			a.Note("more results: --cursor %s", cursor)
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
			if err := flags.requireOwnTypes(cmd.Context(), a, args[2], args[0]); err != nil {
				return err
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
			if r := a.remote(); r != nil && from == "" {
				if from, err = r.head(cmd.Context()); err != nil {
					return err
				}
			}
			if from != "" {
				query.Set("after", from)
			}
			body, err := a.NativeStream(cmd.Context(), http.MethodGet, "/watch-permission?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			defer body.Close()
			last, err := a.showEvents(body, args[1])
			return a.endOfStream(cmd.Context(), cmp.Or(last, from), err)
		}}
	flags.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "show what changes after the revision of this token; default: after the newest revision")
	cmd.Flags().StringVar(&context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	return cmd
}

// showEvents prints each update of an event stream as it arrives.
func (a *app) showEvents(body io.Reader, relation string) (last string, err error) {
	return eachEvent(body, func(data []byte) error {
		var update struct{ Changes []permissionChange }
		return a.PrintNative(data, &update, func(w io.Writer) {
			for i := range update.Changes {
				update.Changes[i].print(w, relation, a.Colored())
			}
		})
	})
}

// errEnded means that a server ended a stream, which has no end of its own.
var errEnded = errors.New("the server ended the stream")

// endOfStream returns the error of a command whose stream of events ended with err
// after the event with the token last. An interrupt is the normal end.
func (a *app) endOfStream(ctx context.Context, last string, err error) error {
	cut := err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case ctx.Err() != nil:
		return nil
	case a.Server == "" || !cut:
		return err
	}
	return fmt.Errorf("%w: it stops, or no longer accepts the key; to continue, run the command again with --from %s", errEnded, last)
}

// eachEvent calls f with the data of each event of a stream, and returns the token
// of the last event. An event named "error" ends the stream with its error.
func eachEvent(body io.Reader, f func(data []byte) error) (last string, err error) {
	in := bufio.NewScanner(body)
	in.Buffer(nil, cli.ResponseBytesMax)
	name, id := "", ""
	for in.Scan() {
		line := in.Text()
		if token, ok := strings.CutPrefix(line, "id: "); ok {
			id = token
		}
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if name == "error" {
			e := &cli.RemoteError{}
			if err := json.Unmarshal([]byte(data), e); err != nil {
				return last, err
			}
			return last, e
		}
		if err := f([]byte(data)); err != nil {
			return last, err
		}
		last = id
	}
	return last, in.Err()
}
