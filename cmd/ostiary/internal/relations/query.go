package relations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
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

// query parses the flags into what the questions of a command share.
func (f *queryFlags) query() (out client.Query, err error) {
	out.Schema = f.schema
	if out.At, err = parseAt("--at", f.at); err != nil {
		return out, err
	}
	values, err := parseContext(f.context)
	if err != nil {
		return out, err
	}
	out.Context = values
	for _, text := range f.contextual {
		t, err := parseContextual(text)
		if err != nil {
			return out, err
		}
		out.Tuples = append(out.Tuples, client.TupleOf(t))
	}
	return out, nil
}

// ask passes a question of a command to the store: about a tuple, of which a list has
// no id, and an expand no subject. It first checks that the store has the revision, and
// the schema the type and the relation of a subject with an id. It adds hints to an
// error about names.
func (a *app) ask(ctx context.Context, f *queryFlags, about rel.Tuple, answer func(*found, client.Query) error) error {
	q, err := f.query()
	if err != nil {
		return err
	}
	return a.onStore(ctx, func(s *found) error {
		if err := s.requireRevision(ctx, q.At); err != nil {
			return err
		}
		if about.Subject.ID != "" && f.at == "" {
			if err := s.requireSubjects(ctx, f.schema, about.Subject); err != nil {
				return s.hintNames(ctx, f.schema, about, err)
			}
		}
		return s.hintNames(ctx, f.schema, about, answer(s, q))
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

// parseQuestion parses the arguments USER RELATION OBJECT of a question about one
// object.
func parseQuestion(args []string) (rel.Tuple, error) {
	t, err := parseTriple(args)
	if err == nil {
		err = requireNoWildcard(t.Object)
	}
	return t, err
}

// questionOf asks whether the subject of t has the relation of t on its object.
func questionOf(t rel.Tuple, q client.Query) client.Question {
	return client.Question{Object: t.Object.String(), Relation: t.Relation, Subject: t.Subject.String(), Query: q}
}

// decision is the JSON form of a check's result.
type decision struct {
	Allowed  bool     `json:"allowed"`
	Truth    string   `json:"truth"`
	Missing  []string `json:"missing,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Revision uint64   `json:"revision"`
}

func decisionOf(d client.Decision) decision {
	out := decision{Allowed: d.Allowed, Truth: d.Truth, Reason: d.Reasons.String(), Revision: d.Revision}
	if d.Reasons != nil {
		out.Missing = d.Reasons.Missing
	}
	return out
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

// parseAt parses a revision, a time (RFC 3339) or a token, the value of a flag. It
// returns nil, the newest revision, for the empty string.
func parseAt(flag, s string) (*client.At, error) {
	if s == "" {
		return nil, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return &client.At{Revision: &n}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		if t.After(time.Now()) {
			return nil, fmt.Errorf("%w: invalid %s %q: the time is in the future", cli.ErrUsage, flag, s)
		}
		return &client.At{Time: s}, nil
	}
	if _, err := authz.Token(s).Revision(); err == nil {
		return &client.At{Exactly: s}, nil
	}
	err := fmt.Errorf("%w: invalid %s %q: expected a revision, a time (RFC 3339) or a token", cli.ErrUsage, flag, s)
	if ago, durationErr := time.ParseDuration(s); durationErr == nil && ago > 0 {
		return nil, cli.WithHint(err, fmt.Sprintf("for the state %s ago, use %s %s", s, flag, time.Now().Add(-ago).UTC().Format(time.RFC3339)))
	}
	if day, dayErr := time.Parse(time.DateOnly, s); dayErr == nil {
		return nil, cli.WithHint(err, fmt.Sprintf("a day needs a time of day: for its beginning, use %s %s", flag, day.Format(time.RFC3339)))
	}
	return nil, err
}
