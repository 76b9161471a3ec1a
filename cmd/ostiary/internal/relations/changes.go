package relations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
)

// entryJSON is the JSON form of a log entry. The command prints one per line.
type entryJSON struct {
	Revision uint64 `json:"revision"`
	Time     string `json:"time"`
	Token    string `json:"token"`
	native.OriginJSON
	Changes []changeJSON `json:"changes"`
}

type changeJSON struct {
	// Do is the operation: "add", "remove" or "set".
	Do string `json:"do"`
	// What is the kind of data: "tuple", "attribute", "schema", "document" or
	// "secret", or "every" for a removal by a filter.
	What string `json:"what"`
	// Text is the tuple, attribute, id of a schema, document name or filter. It is hidden for a
	// secret.
	Text string `json:"text"`
}

func (a *app) changesCommand() *cobra.Command {
	var from string
	var types []string
	var limit int
	var follow bool
	cmd := &cobra.Command{Use: "changes", Short: "Show the store's log", Args: cobra.NoArgs,
		Long: "Show the store's log. Each accepted write is one entry, with its revision and time.\n" +
			"With --follow the command waits for new entries until it is interrupted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			start, err := parseFrom(from)
			if err != nil {
				return err
			}
			if follow && limit > 0 {
				return fmt.Errorf("%w: --follow shows all entries from --from on, until it is interrupted: expected no --limit", cli.ErrUsage)
			}
			start.request.Types = types
			return a.onStore(cmd.Context(), func(s *found) error {
				own, err := s.native()
				if err != nil {
					return err
				}
				last, err := a.showChanges(cmd.Context(), own, start, limit, follow)
				if err != nil || !follow {
					return s.noteNothing(cmd.Context(), a, err, "entries", types, "")
				}
				query := url.Values{"after": {last}}
				if len(types) > 0 {
					query.Set("types", strings.Join(types, ","))
				}
				return a.eachEvent(cmd.Context(), own.Watch(cmd.Context(), "/watch", query), last, func(data json.RawMessage) error {
					var e client.Entry
					if err := json.Unmarshal(data, &e); err != nil {
						return err
					}
					return a.printEntry(&e)
				})
			})
		}}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "first entry to show: from revision N (included), from a time (RFC 3339, included), or after a token; default: the first entry of the log")
	f.StringSliceVar(&types, "type", nil, "show only changes of objects of this type; may be repeated")
	cli.CountVar(f, &limit, "limit", 0, 0, "maximum number of entries; default: all")
	f.BoolVar(&follow, "follow", false, "wait for new entries")
	return cmd
}

// changesFrom is the parsed value of --from.
type changesFrom struct {
	request  client.Changes
	revision uint64 // the first revision to print
}

func parseFrom(s string) (from changesFrom, err error) {
	if s == "" {
		return from, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		from.revision = n
		return from, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		from.request.Since = &t
		return from, nil
	}
	from.request.After = s
	if _, err := authz.Token(s).Revision(); err != nil {
		return from, fmt.Errorf("%w: invalid --from %q: expected a revision, a time (RFC 3339) or a token", cli.ErrUsage, s)
	}
	return from, nil
}

// errNothing means that nothing matches what a command was to show, which is no
// failure.
var errNothing = errors.New("nothing matches")

// noteNothing prints a remark in place of errNothing: that there is no such thing,
// and which of the types and the relation the schema lacks. It returns other errors.
func (f *found) noteNothing(ctx context.Context, a *app, err error, what string, types []string, relation string) error {
	if !errors.Is(err, errNothing) {
		return err
	}
	if !a.JSON {
		a.Note("no %s%s", what, f.unknownNames(ctx, types, relation))
	}
	return nil
}

// showChanges prints the existing entries. It returns the token after the last
// one, from which the caller can follow the log; with follow there is no limit. It fails with ErrFuture if the
// first entry to show is not there, unless follow is true and it is the next one,
// and with errNothing if it shows no entry and follow is false.
func (a *app) showChanges(ctx context.Context, s *client.Store, from changesFrom, limit int, follow bool) (string, error) {
	shown := 0
	for {
		page, err := s.Changes(ctx, from.request)
		if err != nil {
			return "", err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if e.Revision < from.revision {
				continue
			}
			if limit > 0 && shown == limit {
				a.Note("more entries: --from %d", e.Revision)
				return "", nil
			}
			shown++
			if err := a.printEntry(e); err != nil {
				return "", err
			}
		}
		if from.request.After = page.Next; !page.More {
			newest, err := authz.Token(page.Next).Revision()
			switch {
			case err != nil || shown > 0:
				return page.Next, err
			case from.revision > uint64(newest) && !(follow && from.revision == uint64(newest)+1):
				return "", fmt.Errorf("%w: revision %d, the newest is %d", authz.ErrFuture, from.revision, newest)
			case !follow:
				return "", errNothing
			}
			return page.Next, nil
		}
	}
}

// entryLinesMax bounds the lines of an entry in text output. JSON output has no
// such bound.
const entryLinesMax = 100

func (a *app) printEntry(e *client.Entry) error {
	out := entryJSON{Revision: e.Revision, Time: cli.Stamp(e.Time), Token: e.Token, OriginJSON: e.OriginJSON, Changes: []changeJSON{}}
	for i := range e.Changes {
		one, err := changeOf(&e.Changes[i])
		if err != nil {
			return err
		}
		out.Changes = append(out.Changes, one)
	}
	if a.JSON {
		return cli.WriteJSON(a.Out, out)
	}
	var b strings.Builder
	cli.Printf(&b, "%d  %s%s\n", out.Revision, out.Time, cli.OriginText(&out.OriginJSON))
	for i, c := range out.Changes {
		if i == entryLinesMax {
			cli.Printf(&b, "  … and %d more\n", len(out.Changes)-i)
			break
		}
		mark := map[string]string{"add": "+", "set": "+", "remove": "-"}[c.Do]
		cli.Printf(&b, "  %s %s %s\n", mark, c.What, c.Text)
	}
	_, err := io.WriteString(a.Out, b.String())
	return err
}

// changeOf returns a change in the form of the output.
func changeOf(c *client.Change) (out changeJSON, err error) {
	out.Do, _, _ = strings.Cut(c.Op, "_")
	if out.Do == "put" {
		out.Do = "set"
	}
	any := func(s string) string { return cmp.Or(s, "*") }
	switch {
	case c.Tuple != nil:
		t, err := c.Tuple.Tuple()
		if out.What, out.Text = "tuple", t.String(); out.Do == "remove" {
			out.Text = t.Key().String()
		}
		return out, err
	case c.Attribute != nil:
		if out.What, out.Text = "attribute", c.Attribute.Object+"."+c.Attribute.Name; out.Do == "set" {
			out.Text += " = " + string(c.Attribute.Value)
		}
	case c.Tuples != nil:
		f := c.Tuples
		out.What, out.Text = "every", fmt.Sprintf("tuple %s:%s#%s@%s:%s", any(f.ObjectType), any(f.ObjectID), any(f.Relation), any(f.SubjectType), any(f.SubjectID))
		if f.SubjectRelation != "" {
			out.Text += "#" + f.SubjectRelation
		}
	case c.Attributes != nil:
		f := c.Attributes
		out.What, out.Text = "every", fmt.Sprintf("attribute %s:%s.%s", any(f.ObjectType), any(f.ObjectID), any(f.Name))
	case strings.HasSuffix(c.Op, "_secret"):
		out.What, out.Text = "secret", "[not shown]"
	case c.Document != nil && c.Op == "remove_matching":
		out.What, out.Text = "every", fmt.Sprintf("document %s/%s*", c.Document.Kind, c.Document.Key)
	case c.Document != nil && c.Document.Kind == "schema": // named as such, so that it does not look like an object
		out.What, out.Text = "schema", c.Document.Key
	case c.Document != nil:
		out.What, out.Text = "document", c.Document.Kind+"/"+c.Document.Key
	}
	return out, nil
}
