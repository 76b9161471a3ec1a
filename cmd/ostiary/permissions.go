package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/rel"
)

func (a *app) entitlementsCommand() *cobra.Command {
	var flags askFlags
	var relations []string
	var permissions bool
	cmd := &cobra.Command{Use: "entitlements USER OBJECT…", Short: "Show all that a subject may do to some objects", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := rel.ParseSubject(args[0]); err != nil {
				return err
			}
			in, err := flags.nativeQuestion(map[string]any{"subject": args[0], "objects": args[1:], "permissions": permissions})
			if err != nil {
				return err
			}
			if relations != nil {
				in["relations"] = relations
			}
			text, err := a.native(cmd.Context(), http.MethodPost, "/entitlements", in)
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
			return a.printNative(text, &out, func(w io.Writer) {
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
	cmd.Flags().StringSliceVar(&relations, "relation", nil, "only this relation; may be repeated")
	cmd.Flags().BoolVar(&permissions, "permissions", false, "only relations that are computed")
	return cmd
}

// permissionChange is a line of diff and watch.
type permissionChange struct {
	Object, Subject string
	Before, After   string
	Except          []string
	ExceptCount     int `json:"except_count"`
}

// print shows a gain as +, a loss as -, and what is not known on a side as ?.
func (c *permissionChange) print(w io.Writer, relation string) {
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
	fmt.Fprintln(w, line)
}

// permissionFlags say which permission diff and watch are about.
type permissionFlags struct{ objects, subjects []string }

func (f *permissionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.objects, "object", nil, "only the object of this id; may be repeated")
	cmd.Flags().StringSliceVar(&f.subjects, "subject", nil, "only the subject of this id; may be repeated")
}

// splitType reads TYPE[#RELATION].
func splitType(s string) (typ, relation string) {
	typ, relation, _ = strings.Cut(s, "#")
	return typ, relation
}

func (a *app) diffCommand() *cobra.Command {
	var flags permissionFlags
	var from, to, schema, context, cursor string
	var limit int
	cmd := &cobra.Command{Use: "diff TYPE[#RELATION] RELATION TYPE", Short: "Show who gained and who lost a relation between two revisions", Args: cobra.ExactArgs(3),
		Long: "Show who gained (+) and who lost (-) a relation between two revisions: of all subjects of the first type, on all objects of the second one.\n" +
			"Each side is a revision, a token, or a time (RFC 3339).",
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, relation := splitType(args[0])
			in := map[string]any{"subject_type": typ, "relation": args[1], "object_type": args[2]}
			if relation != "" {
				in["subject_relation"] = relation
			}
			flags.into(in)
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
	f.StringVar(&from, "from", "0", "the earlier side")
	f.StringVar(&to, "to", "", "the later side; the newest revision by default")
	f.StringVar(&schema, "schema", "", "ask both sides under this schema; each under its own by default")
	f.StringVar(&context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	f.IntVar(&limit, "limit", 0, "show at most this many; all by default")
	f.StringVar(&cursor, "cursor", "", "continue where a difference with --limit ended")
	return cmd
}

func (f *permissionFlags) into(in map[string]any) {
	if f.objects != nil {
		in["objects"] = f.objects
	}
	if f.subjects != nil {
		in["subjects"] = f.subjects
	}
}

func sideOf(s string) (map[string]any, error) {
	if s == "" {
		return map[string]any{"minimize_latency": true}, nil
	}
	return nativeAt(s)
}

// diff prints a difference, all pages of it or one.
func (a *app) diff(cmd *cobra.Command, in map[string]any, relation, cursor string, one bool) error {
	for {
		if cursor != "" {
			in["cursor"] = cursor
		}
		text, err := a.native(cmd.Context(), http.MethodPost, "/difference", in)
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
		if err := a.printNative(text, &page, func(w io.Writer) {
			for i := range page.Changes {
				page.Changes[i].print(w, relation)
			}
		}); err != nil {
			return err
		}
		if page.Undecided > 0 {
			a.note("%d undecided on both sides", page.Undecided)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
		if one {
			a.note("there is more: --cursor %s", cursor)
			return nil
		}
	}
}

func (a *app) watchCommand() *cobra.Command {
	var flags permissionFlags
	var from string
	cmd := &cobra.Command{Use: "watch TYPE[#RELATION] RELATION TYPE", Short: "Show who gains and who loses a relation, as it happens", Args: cobra.ExactArgs(3),
		Long: "Show who gains (+) and who loses (-) a relation, as it happens, until it is interrupted: for the objects or subjects that are named.\n" +
			"A folder has one process at a time, so that this is of use with --server, and with --from. With --json each line is an update.",
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, relation := splitType(args[0])
			query := url.Values{"subject_type": {typ}, "relation": {args[1]}, "object_type": {args[2]}, "object": flags.objects, "subject": flags.subjects}
			if relation != "" {
				query.Set("subject_relation", relation)
			}
			if from != "" {
				query.Set("after", from)
			}
			body, err := a.nativeStream(cmd.Context(), http.MethodGet, "/watch-permission?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			defer body.Close()
			err = a.showEvents(body, args[1])
			if cmd.Context().Err() != nil {
				return nil // interrupted, as it is meant to end
			}
			return err
		}}
	flags.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "begin after this token; at the newest revision by default")
	return cmd
}

// showEvents prints a stream of updates as they come.
func (a *app) showEvents(body io.Reader, relation string) error {
	in := bufio.NewScanner(body)
	in.Buffer(nil, answerBytesMax)
	name := ""
	for in.Scan() {
		line := in.Text()
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if name == "error" {
			e := &remoteError{}
			if err := json.Unmarshal([]byte(data), e); err != nil {
				return err
			}
			return e
		}
		var update struct{ Changes []permissionChange }
		if err := a.printNative([]byte(data), &update, func(w io.Writer) {
			for i := range update.Changes {
				update.Changes[i].print(w, relation)
			}
		}); err != nil {
			return err
		}
	}
	return in.Err()
}
