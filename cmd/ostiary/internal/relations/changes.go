package relations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
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
			if r := a.remote(); r != nil {
				last, err := a.showChanges(cmd.Context(), remoteLog{r}, start, limit, follow)
				if err != nil || !follow {
					return a.noteNothing(cmd.Context(), err, "entries", types, "")
				}
				return remoteLog{r}.follow(cmd.Context(), ostiary.WatchRequest{After: last, Types: types})
			}
			err = a.WithStore(cmd.Context(), func(s *ostiary.Store) error {
				last, err := a.showChanges(cmd.Context(), s, start, limit, follow)
				if err != nil || !follow {
					return err
				}
				return a.followChanges(cmd.Context(), s, ostiary.WatchRequest{After: last, Types: types})
			})
			return a.noteNothing(cmd.Context(), err, "entries", types, "")
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
	request  ostiary.ChangesRequest
	revision storage.Revision // the first revision to print
}

func parseFrom(s string) (from changesFrom, err error) {
	if s == "" {
		return from, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		from.revision = storage.Revision(n)
		return from, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		from.request.Since = t
		return from, nil
	}
	from.request.After = ostiary.Token(s)
	if _, err := from.request.After.Revision(); err != nil {
		return from, fmt.Errorf("%w: invalid --from %q: expected a revision, a time (RFC 3339) or a token", cli.ErrUsage, s)
	}
	return from, nil
}

// logReader reads the log of a store, on a folder or on a server.
type logReader interface {
	Changes(context.Context, ostiary.ChangesRequest) (ostiary.ChangePage, error)
}

// errNothing means that nothing matches what a command was to show, which is no
// failure.
var errNothing = errors.New("nothing matches")

// noteNothing prints a remark in place of errNothing: that there is no such thing,
// and which of the types and the relation the schema lacks. It returns other errors.
func (a *app) noteNothing(ctx context.Context, err error, what string, types []string, relation string) error {
	if !errors.Is(err, errNothing) {
		return err
	}
	if !a.JSON {
		a.Note("no %s%s", what, a.unknownNames(ctx, types, relation))
	}
	return nil
}

// showChanges prints the existing entries. It returns the token after the last
// one, from which the caller can follow the log; with follow there is no limit. It fails with ErrFuture if the
// first entry to show is not there, unless follow is true and it is the next one,
// and with errNothing if it shows no entry and follow is false.
func (a *app) showChanges(ctx context.Context, s logReader, from changesFrom, limit int, follow bool) (ostiary.Token, error) {
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
			newest, err := page.Next.Revision()
			switch {
			case err != nil || shown > 0:
				return page.Next, err
			case from.revision > newest && !(follow && from.revision == newest+1):
				return "", &ostiary.Error{Op: "changes", Kind: ostiary.ErrFuture, Err: fmt.Errorf("%w: revision %d, the newest is %d", ostiary.ErrFuture, from.revision, newest)}
			case !follow:
				return "", errNothing
			}
			return page.Next, nil
		}
	}
}

func (a *app) followChanges(ctx context.Context, s *ostiary.Store, request ostiary.WatchRequest) error {
	for e, err := range s.Watch(ctx, request) {
		if ctx.Err() != nil {
			return nil // an interrupt is the normal end
		}
		if err == nil {
			err = a.printEntry(&e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entryLinesMax bounds the lines of an entry in text output. JSON output has no
// such bound.
const entryLinesMax = 100

func (a *app) printEntry(e *ostiary.ChangeEntry) error {
	out := entryJSON{Revision: uint64(e.Revision), Time: cli.Stamp(e.Time), Token: string(e.Token), OriginJSON: native.OriginOf(&e.Origin), Changes: []changeJSON{}}
	for i := range e.Changes {
		out.Changes = append(out.Changes, changeOf(&e.Changes[i]))
	}
	if a.JSON {
		return cli.WriteJSON(a.Out, out)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d  %s%s\n", out.Revision, out.Time, cli.OriginText(&out.OriginJSON))
	for i, c := range out.Changes {
		if i == entryLinesMax {
			fmt.Fprintf(&b, "  … and %d more\n", len(out.Changes)-i)
			break
		}
		mark := map[string]string{"add": "+", "set": "+", "remove": "-"}[c.Do]
		fmt.Fprintf(&b, "  %s %s %s\n", mark, c.What, c.Text)
	}
	_, err := io.WriteString(a.Out, b.String())
	return err
}

func changeOf(c *storage.Change) changeJSON {
	switch c.Kind {
	case storage.TupleAdd:
		return changeJSON{"add", "tuple", c.Tuple.String()}
	case storage.TupleRemove:
		return changeJSON{"remove", "tuple", c.Tuple.Key().String()}
	case storage.AttributeSet:
		return changeJSON{"set", "attribute", c.Attribute.Object.String() + "." + c.Attribute.Name + " = " + c.Attribute.Value}
	case storage.AttributeRemove:
		return changeJSON{"remove", "attribute", c.Attribute.Object.String() + "." + c.Attribute.Name}
	case storage.DocumentPut:
		return documentChange("set", &c.Document)
	case storage.DocumentRemove:
		return documentChange("remove", &c.Document)
	case storage.SecretPut:
		return changeJSON{"set", "secret", "[not shown]"}
	case storage.SecretRemove:
		return changeJSON{"remove", "secret", "[not shown]"}
	case storage.RemoveByFilter:
		return changeJSON{"remove", "every", filterText(&c.Filter)}
	}
	return changeJSON{"change", "unknown", fmt.Sprint(c.Kind)}
}

func filterText(f *storage.Filter) string {
	any := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	switch f.Target {
	case storage.FilterTuples:
		return "tuple " + tupleFilterText(f.Tuple, any)
	case storage.FilterAttributes:
		return fmt.Sprintf("attribute %s:%s.%s", any(f.ObjectType), any(f.ObjectID), any(f.Name))
	}
	return fmt.Sprintf("document %s/%s*", f.DocumentKind, f.DocumentKeyPrefix)
}

func tupleFilterText(f rel.Filter, any func(string) string) string {
	text := fmt.Sprintf("%s:%s#%s@%s:%s", any(f.ObjectType), any(f.ObjectID), any(f.Relation), any(f.SubjectType), any(f.SubjectID))
	if f.SubjectRelation != "" {
		text += "#" + f.SubjectRelation
	}
	return text
}

// documentChange returns a change of a document. A schema is named as such, so that
// it does not look like an object of a type "document".
func documentChange(do string, d *storage.Document) changeJSON {
	if d.Kind == "schema" {
		return changeJSON{do, "schema", d.Key}
	}
	return changeJSON{do, "document", d.Kind + "/" + d.Key}
}
