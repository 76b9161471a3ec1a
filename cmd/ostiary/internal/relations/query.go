package relations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/jsonread"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// contextBytesMax bounds a --context file.
const contextBytesMax = 1 << 20

// queryFlags are the flags that every query has: context, contextual tuples,
// revision and schema.
type queryFlags struct {
	context    string
	contextual []string
	at, schema string
}

func (f *queryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	cmd.Flags().StringArrayVar(&f.contextual, "contextual-tuple", nil,
		`a tuple that counts for this query only, "USER RELATION OBJECT [CONDITION [JSON]]"; may be repeated`)
	cmd.Flags().StringVar(&f.at, "at", "", "evaluate at an earlier point: a revision, a token, or a time (RFC 3339)")
	cmd.Flags().StringVar(&f.schema, "schema", "", "id of the schema to use; default: the current one")
}

// options parses the flags.
func (f *queryFlags) options() (a ostiary.QueryOptions, err error) {
	a.SchemaID = f.schema
	if a.Consistency, err = cli.ParseAt("--at", f.at); err != nil {
		return a, err
	}
	if a.Context, err = parseContext(f.context); err != nil {
		return a, err
	}
	for _, text := range f.contextual {
		t, err := parseContextual(text)
		if err != nil {
			return a, err
		}
		a.Tuples = append(a.Tuples, t)
	}
	return a, nil
}

// ask passes a question to the server of --server, or to the store in the
// folder. There it also checks that the schema has the subject's type and
// relation, unless subject is zero.
func (a *app) ask(ctx context.Context, f *queryFlags, subject rel.Subject, remote func(*remote) error, local func(*ostiary.Store, ostiary.QueryOptions) error) error {
	query, err := f.options()
	if err != nil {
		return err
	}
	if r := a.remote(); r != nil {
		return remote(r)
	}
	return a.WithStore(ctx, func(s *ostiary.Store) error {
		if subject != (rel.Subject{}) {
			if err := requireSubject(ctx, s, f, subject); err != nil {
				return err
			}
		}
		return local(s, query)
	})
}

// parseContext parses --context: a JSON object, or @ and the name of a file that
// holds one.
func parseContext(s string) (expr.Values, error) {
	if name, ok := strings.CutPrefix(s, "@"); ok {
		text, err := cli.ReadFile(name, contextBytesMax+1)
		if err != nil {
			return nil, fmt.Errorf("--context: %w", err)
		}
		if len(text) > contextBytesMax {
			return nil, fmt.Errorf("%w: %s is larger than %d bytes", cli.ErrUsage, name, contextBytesMax)
		}
		s = string(text)
	}
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	return parseValues("--context", s)
}

// parseValues parses a JSON object. An error has the place of the text.
func parseValues(place, s string) (expr.Values, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	dec.UseNumber()
	var values expr.Values
	err := dec.Decode(&values)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fmt.Errorf("%w: %s: expected a JSON object, got a JSON %s", cli.ErrUsage, place, wrong.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: expected a JSON object: %w", cli.ErrUsage, place, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: %s: unexpected data after the JSON object", cli.ErrUsage, place)
	}
	r := jsonread.New([]byte(s))
	r.Skip()
	if err := r.End(); err != nil { // a name that comes twice
		return nil, fmt.Errorf("%w: %s: %w", cli.ErrUsage, place, err)
	}
	return values, nil
}

// parseContextual parses --contextual-tuple.
func parseContextual(s string) (rel.Tuple, error) {
	words, rest := firstWords(s, 4)
	if len(words) < 3 {
		return rel.Tuple{}, fmt.Errorf(`%w: invalid tuple %q: expected "USER RELATION OBJECT [CONDITION [JSON]]"`, cli.ErrUsage, s)
	}
	t, err := parseTriple(words[:3])
	if err != nil || len(words) == 3 {
		return t, err
	}
	if t.Condition = words[3]; rest != "" {
		if t.Context, err = rel.Canonical([]byte(rest)); err != nil {
			return t, err
		}
	}
	return t, t.Validate()
}

// firstWords returns the first n words of a text, or all if it has fewer, and the rest.
func firstWords(s string, n int) (words []string, rest string) {
	rest = strings.TrimSpace(s)
	for ; rest != "" && len(words) < n; rest = strings.TrimSpace(rest) {
		end := strings.IndexAny(rest+" ", " \t\n")
		words, rest = append(words, rest[:end]), rest[end:]
	}
	return words, rest
}

// parseTriple parses the arguments USER RELATION OBJECT. Every command has this
// order.
func parseTriple(args []string) (t rel.Tuple, err error) {
	if t.Subject, err = rel.ParseSubject(args[0]); err != nil {
		return t, err
	}
	if t.Object, err = rel.ParseObject(args[2]); err != nil {
		return t, err
	}
	t.Relation = args[1]
	return t, t.Validate()
}

// decision is the JSON form of a check's result.
type decision struct {
	Allowed  bool     `json:"allowed"`
	Truth    string   `json:"truth"`
	Missing  []string `json:"missing,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Revision uint64   `json:"revision"`
}

func decisionOf(truth expr.Tristate, why *authz.Reasons, revision storage.Revision) decision {
	d := decision{Allowed: truth == expr.True, Truth: truth.String(), Revision: uint64(revision)}
	if why != nil {
		d.Missing, d.Reason = why.Missing, why.String()
	}
	return d
}

// String formats the decision on one line. An unknown decision counts as denied.
func (d decision) String() string {
	switch {
	case d.Allowed:
		return "allowed"
	case d.Reason != "":
		return "denied: undecided, " + d.Reason
	}
	return "denied"
}

// nativeQuestion adds the flags of a query to a request body of the native API.
func (f *queryFlags) nativeQuestion(in map[string]any) (map[string]any, error) {
	ask, err := f.options()
	if err != nil {
		return nil, err
	}
	if at, err := cli.NativeAt("--at", f.at); err != nil {
		return nil, err
	} else if at != nil {
		in["at"] = at
	}
	if ask.SchemaID != "" {
		in["schema"] = ask.SchemaID
	}
	if ask.Context != nil {
		in["context"] = ask.Context
	}
	if len(ask.Tuples) > 0 {
		in["tuples"] = cli.NativeTuples(ask.Tuples)
	}
	return in, nil
}

// remote is a server, with the methods of the commands of this package.
type remote struct {
	*cli.Remote
	a *app
}

// remote returns the server that --server names, or nil.
func (a *app) remote() *remote {
	if r := a.App.Remote(); r != nil {
		return &remote{r, a}
	}
	return nil
}
