package relations

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// questionsBytesMax bounds a file of questions, in bytes.
const questionsBytesMax = 16 << 20

// whatIfFlags are a proposal (another schema or changes) and the questions to ask.
type whatIfFlags struct {
	questions               []string
	file, model, schema, at string
	context                 string
	add, remove             []string
	unchanged               bool
	recorded                int
	decisions               string // file or folder of a decision log

	// subjects are the subjects of the checks.
	subjects []rel.Subject
}

func (a *app) whatIfCommand() *cobra.Command {
	var f whatIfFlags
	cmd := &cobra.Command{Use: "what-if", Short: "Show which decisions a proposed schema or change would alter", Args: cobra.NoArgs,
		Long: "Run checks on the store as it is, and as it would be under a proposal: another schema, added or removed tuples. Nothing is written.\n" +
			"The output shows the decisions that would change: + becomes allowed, - becomes denied, ? changes otherwise, ! is an error.\n" +
			"The exit code is 2 if a check is an error.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := f.request()
			if err != nil {
				return err
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				if err := s.requireRevision(cmd.Context(), in.At); err != nil {
					return err
				}
				if in.At == nil {
					if err := s.requireSubjects(cmd.Context(), "", f.subjects...); err != nil {
						return err
					}
				}
				if err := s.requireRemovals(cmd.Context(), in); err != nil {
					return err
				}
				if f.decisions != "" {
					out, err := f.askDecisions(cmd.Context(), a, s, in)
					if err != nil {
						return err
					}
					return a.printWhatIf(out)
				}
				text, err := s.ask(cmd.Context(), "/what-if", in)
				if err != nil {
					return err
				}
				out, err := parseWhatIf(text, f.unchanged)
				if err != nil {
					return err
				}
				return a.printWhatIf(out)
			})
		}}
	s := cmd.Flags()
	s.StringArrayVar(&f.questions, "question", nil, `a check to run, "USER RELATION OBJECT [JSON]", where JSON is an object with parameters for conditions; may be repeated`)
	s.StringVar(&f.file, "questions", "", "a file of checks, one per line")
	s.StringVar(&f.context, "context", "", "parameters for conditions, a JSON object, or @FILE, for the checks that have none of their own")
	cli.CountVar(s, &f.recorded, "recorded", 0, 0, "repeat the decisions that the server recorded in the last so many minutes (serve --record-decisions)")
	s.StringVar(&f.decisions, "decisions", "", "repeat the decisions of a decision log (serve --decision-log), a file or a folder; without a proposal, show those that have another result now")
	s.StringVar(&f.model, "proposed", "", "file with the proposed model")
	s.StringVar(&f.schema, "schema", "", "id of the proposed schema")
	s.StringArrayVar(&f.add, "add", nil, `a tuple to add in the proposal, "USER RELATION OBJECT [CONDITION [JSON]]"; may be repeated`)
	s.StringArrayVar(&f.remove, "remove", nil, `a tuple to remove in the proposal, "USER RELATION OBJECT"; may be repeated`)
	s.StringVar(&f.at, "at", "", "evaluate at an earlier point: a revision, a token, or a time (RFC 3339)")
	s.BoolVar(&f.unchanged, "unchanged", false, "show unchanged decisions as well")
	return cmd
}

// whatIfRequest is the body of a what-if.
type whatIfRequest struct {
	// Questions are []client.Question, or []json.RawMessage of a decision log. It is nil for
	// a what-if with recorded decisions.
	Questions any             `json:"questions,omitempty"`
	Recorded  *whatIfRecorded `json:"recorded,omitempty"`
	Context   map[string]any  `json:"context,omitempty"`
	At        *client.At      `json:"at,omitempty"`
	Changes   whatIfChanges   `json:"changes"`
	Proposed  *whatIfProposed `json:"proposed,omitempty"`
	Unchanged bool            `json:"unchanged"`
}

type whatIfRecorded struct {
	Minutes int `json:"minutes"`
}

type whatIfChanges struct {
	Add    []client.Tuple `json:"add,omitempty"`
	Remove []client.Tuple `json:"remove,omitempty"`
}

type whatIfProposed struct {
	Schema string        `json:"schema,omitempty"`
	Model  *schema.Model `json:"model,omitempty"`
}

// request returns the flags as a request.
func (f *whatIfFlags) request() (*whatIfRequest, error) {
	in := &whatIfRequest{Unchanged: true} // unchanged items may be errors
	questions, err := f.checks()
	if err != nil {
		return nil, err
	}
	for _, q := range questions {
		subject, err := rel.ParseSubject(q.Subject)
		if err != nil {
			return nil, err
		}
		f.subjects = append(f.subjects, subject)
	}
	values, err := parseContext(f.context)
	if err != nil {
		return nil, err
	}
	in.Context = values
	switch {
	case f.decisions != "" && (f.recorded > 0 || len(questions) > 0 || values != nil):
		return nil, fmt.Errorf("%w: --decisions cannot be combined with --recorded, --question, --questions or --context", cli.ErrUsage)
	case f.decisions != "":
	case f.recorded > 0 && len(questions) > 0:
		return nil, fmt.Errorf("%w: --recorded cannot be combined with --question or --questions", cli.ErrUsage)
	case f.recorded > 0 && values != nil:
		return nil, fmt.Errorf("%w: --recorded cannot be combined with --context: each decision keeps the context of its request", cli.ErrUsage)
	case f.recorded > 0:
		in.Recorded = &whatIfRecorded{f.recorded}
	case len(questions) == 0 && f.file != "":
		return nil, fmt.Errorf("%w: --questions: %s has no checks", cli.ErrUsage, f.file)
	case len(questions) == 0:
		return nil, fmt.Errorf("%w: expected --question, --questions, --recorded or --decisions", cli.ErrUsage)
	case f.model == "" && f.schema == "" && len(f.add) == 0 && len(f.remove) == 0:
		return nil, fmt.Errorf("%w: nothing is proposed: expected --proposed, --schema, --add or --remove", cli.ErrUsage)
	}
	if len(questions) > 0 {
		in.Questions = questions
	}
	if in.At, err = parseAt("--at", f.at); err != nil {
		return nil, err
	}
	for _, text := range f.add {
		t, err := parseContextual(text)
		if err != nil {
			return nil, err
		}
		in.Changes.Add = append(in.Changes.Add, client.TupleOf(t))
	}
	for _, text := range f.remove {
		t, err := triple("--remove", "tuple", `"USER RELATION OBJECT"`, text, strings.Fields(text))
		if err != nil {
			return nil, err
		}
		in.Changes.Remove = append(in.Changes.Remove, client.TupleOf(t))
	}
	if f.schema != "" {
		in.Proposed = &whatIfProposed{Schema: f.schema}
	}
	if f.model != "" {
		m, err := cli.ReadModel(f.model)
		if err != nil {
			return nil, err
		}
		in.Proposed = &whatIfProposed{Model: m.Model}
	}
	return in, nil
}

// requireRemovals fails if the store lacks a tuple that the proposal removes: the
// answer would be that the removal changes nothing.
func (f *found) requireRemovals(ctx context.Context, in *whatIfRequest) error {
	for i := range in.Changes.Remove {
		t, err := in.Changes.Remove[i].Tuple()
		if err != nil {
			return err
		}
		page, err := f.Read(ctx, client.Read{At: in.At, Page: client.Page{Limit: 1}, Filter: filterOf(rel.Filter{ObjectType: t.Object.Type, ObjectID: t.Object.ID, Relation: t.Relation,
			SubjectType: t.Subject.Type, SubjectID: t.Subject.ID, SubjectRelation: t.Subject.Relation, SubjectPlain: t.Subject.Relation == ""})})
		if err != nil {
			return err
		}
		if len(page.Tuples) == 0 {
			return &authz.TupleError{Kind: authz.ErrTupleMissing, Key: t.Key()}
		}
	}
	return nil
}

// checks parses the checks of --question and of the file.
func (f *whatIfFlags) checks() (found []client.Question, err error) {
	for _, text := range f.questions {
		check, err := parseCheck("--question", text)
		if err != nil {
			return nil, err
		}
		found = append(found, check)
	}
	if f.file == "" {
		return found, nil
	}
	text, err := cli.ReadFile(f.file, questionsBytesMax+1)
	if err != nil {
		return nil, err
	}
	if len(text) > questionsBytesMax {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", cli.ErrUsage, f.file, questionsBytesMax)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		check, err := parseCheck(fmt.Sprintf("%s:%d", f.file, number), line)
		if err != nil {
			return nil, err
		}
		found = append(found, check)
	}
	return found, nil
}

// parseCheck parses a check, "USER RELATION OBJECT [JSON]". An error has the place of
// the text.
func parseCheck(place, text string) (out client.Question, err error) {
	words, rest := firstWords(text, 3)
	t, err := triple(place, "check", `"USER RELATION OBJECT [JSON]"`, text, words)
	out.Object, out.Relation, out.Subject = t.Object.String(), t.Relation, t.Subject.String()
	if err != nil || rest == "" {
		return out, err
	}
	values, err := parseValues(place, rest)
	out.Context = values
	return out, err
}

// triple parses the words USER RELATION OBJECT of a text. An error has the place of the
// text, what it is, a check or a tuple, and the form that was expected.
func triple(place, what, form, text string, words []string) (rel.Tuple, error) {
	if len(words) != 3 {
		return rel.Tuple{}, fmt.Errorf("%w: %s: invalid %s %q: expected %s", cli.ErrUsage, place, what, text, form)
	}
	t, err := parseTriple(words)
	if err != nil {
		return t, fmt.Errorf("%s: %w", place, err)
	}
	return t, nil
}

// whatIfSide is the decision before or after the proposal.
type whatIfSide struct {
	Allowed bool
	Truth   string
	Error   *struct{ Message string }
}

func (s whatIfSide) String() string {
	switch {
	case s.Error != nil:
		return "error: " + s.Error.Message
	case s.Allowed:
		return "allowed"
	case s.Truth == "unknown":
		return "undecided"
	}
	return "denied"
}

// whatIfResult is the native API's response to a what-if.
type whatIfResult struct {
	// Items are the checks to show. Each keeps its JSON for --json.
	Items     []json.RawMessage `json:"items"`
	Questions int               `json:"questions"`
	Asked     int               `json:"asked"`
	Gained    int               `json:"gained"`
	Lost      int               `json:"lost"`
	Other     int               `json:"other"`
	// Failed counts the checks that are errors before or after the proposal, which
	// Gained, Lost and Other do not count.
	Failed   int    `json:"failed"`
	Partial  string `json:"partial,omitempty"`
	Revision uint64 `json:"revision"`
	Token    string `json:"token"`

	lines []whatIfItem
}

// whatIfItem is one check of a what-if.
type whatIfItem struct {
	Object, Relation, Subject string
	// Context is that of the check alone; empty if it has none.
	Context       json.RawMessage
	Before, After whatIfSide
}

// print prints the item as a line: + if the check becomes allowed, - if it
// becomes denied, ! if it is an error, = if it stays the same, and ? otherwise.
func (i *whatIfItem) print(w io.Writer) {
	sign := "?"
	switch {
	case i.failed():
		sign = "!"
	case i.Before.String() == i.After.String():
		sign = "="
	case i.After.Allowed:
		sign = "+"
	case i.Before.Allowed:
		sign = "-"
	}
	cli.Printf(w, "%s %s %s %s", sign, i.Subject, i.Relation, i.Object)
	if i.Context != nil {
		cli.Printf(w, " %s", i.Context)
	}
	cli.Printf(w, "\t%s", i.After)
	if sign != "!" || i.Before.String() != i.After.String() {
		cli.Printf(w, ", was %s", i.Before)
	}
	cli.Println(w)
}

func (i *whatIfItem) failed() bool { return i.Before.Error != nil || i.After.Error != nil }

// parseWhatIf parses a response that has all items. It keeps only the items to
// show: errors, changes and, with unchanged, all others.
func parseWhatIf(text json.RawMessage, unchanged bool) (*whatIfResult, error) {
	out := &whatIfResult{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	shown := []json.RawMessage{}
	for _, raw := range out.Items {
		var item whatIfItem
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, err
		}
		if !item.failed() && !unchanged && item.Before.String() == item.After.String() {
			continue
		}
		shown, out.lines = append(shown, raw), append(out.lines, item)
	}
	out.Items = shown
	return out, nil
}

func (a *app) printWhatIf(out *whatIfResult) error {
	err := a.Print(out, func(w io.Writer) {
		for i := range out.lines {
			out.lines[i].print(w)
		}
		cli.Printf(w, "%d of %d asked: %d gained, %d lost, %d changed otherwise", out.Asked, out.Questions, out.Gained, out.Lost, out.Other)
		if out.Failed > 0 {
			cli.Printf(w, ", %d failed", out.Failed)
		}
		cli.Println(w)
		if out.Partial != "" {
			cli.Printf(w, "incomplete: the bound on %s was reached\n", out.Partial)
		}
	})
	if err == nil && out.Failed > 0 {
		err = fmt.Errorf("%w: %d of %d", cli.ErrPartial, out.Failed, out.Asked)
	}
	return err
}
