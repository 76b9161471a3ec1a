package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// questionsBytesMax bounds a file of questions, in bytes.
const questionsBytesMax = 16 << 20

// whatIfFlags are a proposal (another schema or changes) and the questions to ask.
type whatIfFlags struct {
	questions               []string
	file, model, schema, at string
	add, remove             []string
	unchanged               bool
	recorded                int
}

func (a *app) whatIfCommand() *cobra.Command {
	var f whatIfFlags
	cmd := &cobra.Command{Use: "what-if", Short: "Show which decisions a proposed schema or change would alter", Args: cobra.NoArgs,
		Long: "Run checks on the store as it is, and as it would be under a proposal: another schema, added or removed tuples. Nothing is written.\n" +
			"The output shows the decisions that would change: + becomes allowed, - becomes denied, ? changes otherwise.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := f.request()
			if err != nil {
				return err
			}
			text, err := a.native(cmd.Context(), http.MethodPost, "/what-if", in)
			if err != nil {
				return err
			}
			return a.printWhatIf(text)
		}}
	s := cmd.Flags()
	s.StringArrayVar(&f.questions, "question", nil, `a check to run, "USER RELATION OBJECT"; may be repeated`)
	s.StringVar(&f.file, "questions", "", "a file of checks, one per line")
	s.IntVar(&f.recorded, "recorded", 0, "repeat the decisions that the server recorded in the last so many minutes (serve --record-decisions)")
	s.StringVar(&f.model, "proposed", "", "file with the proposed model")
	s.StringVar(&f.schema, "schema", "", "id of the proposed schema")
	s.StringArrayVar(&f.add, "add", nil, `a tuple to add in the proposal, "USER RELATION OBJECT [CONDITION [JSON]]"; may be repeated`)
	s.StringArrayVar(&f.remove, "remove", nil, `a tuple to remove in the proposal, "USER RELATION OBJECT"; may be repeated`)
	s.StringVar(&f.at, "at", "", "evaluate at an earlier point: a revision, a token, or a time (RFC 3339)")
	s.BoolVar(&f.unchanged, "unchanged", false, "show unchanged decisions as well")
	return cmd
}

// request returns the flags as a request body of the native API.
func (f *whatIfFlags) request() (map[string]any, error) {
	in := map[string]any{"unchanged": f.unchanged}
	questions, err := f.checks()
	if err != nil {
		return nil, err
	}
	switch {
	case f.recorded > 0 && len(questions) > 0:
		return nil, fmt.Errorf("%w: --recorded cannot be combined with --question or --questions", errUsage)
	case f.recorded > 0:
		in["recorded"] = map[string]any{"minutes": f.recorded}
	case len(questions) == 0:
		return nil, fmt.Errorf("%w: expected --question, --questions or --recorded", errUsage)
	default:
		in["questions"] = questions
	}
	if at, err := nativeAt(f.at); err != nil {
		return nil, err
	} else if at != nil {
		in["at"] = at
	}
	changes := map[string]any{}
	var tuples []map[string]any
	for _, text := range f.add {
		t, err := parseContextual(text)
		if err != nil {
			return nil, err
		}
		tuples = append(tuples, nativeTuples(oneTuple(t))...)
	}
	if tuples != nil {
		changes["add"] = tuples
	}
	if removed, err := triples(f.remove); err != nil {
		return nil, err
	} else if removed != nil {
		changes["remove"] = removed
	}
	in["changes"] = changes
	if f.schema != "" {
		in["proposed"] = map[string]any{"schema": f.schema}
	}
	if f.model != "" {
		m, err := readModel(f.model)
		if err != nil {
			return nil, err
		}
		in["proposed"] = map[string]any{"model": m.Model}
	}
	return in, nil
}

// checks parses the checks of --question and of the file.
func (f *whatIfFlags) checks() ([]map[string]any, error) {
	lines := f.questions
	if f.file != "" {
		text, err := readFile(f.file, questionsBytesMax+1)
		if err != nil {
			return nil, err
		}
		if len(text) > questionsBytesMax {
			return nil, fmt.Errorf("%w: %s is larger than %d bytes", errUsage, f.file, questionsBytesMax)
		}
		in := bufio.NewScanner(bytes.NewReader(text))
		for in.Scan() {
			if line := strings.TrimSpace(in.Text()); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if err := in.Err(); err != nil {
			return nil, err
		}
	}
	return triples(lines)
}

// triples parses texts of the form "USER RELATION OBJECT".
func triples(texts []string) (out []map[string]any, err error) {
	for _, text := range texts {
		words := strings.Fields(text)
		if len(words) != 3 {
			return nil, fmt.Errorf(`%w: invalid tuple %q: expected "USER RELATION OBJECT"`, errUsage, text)
		}
		t, err := parseTriple(words)
		if err != nil {
			return nil, err
		}
		out = append(out, nativeTuples(oneTuple(t))...)
	}
	return out, nil
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

func (a *app) printWhatIf(text []byte) error {
	var out struct {
		Items []struct {
			Object, Relation, Subject string
			Before, After             whatIfSide
		}
		Questions, Asked, Gained, Lost, Other int
		Partial                               string
	}
	return a.printNative(text, &out, func(w io.Writer) {
		for _, i := range out.Items {
			sign := "?"
			switch {
			case i.Before.String() == i.After.String():
				sign = "="
			case i.After.Allowed:
				sign = "+"
			case i.Before.Allowed:
				sign = "-"
			}
			fmt.Fprintf(w, "%s %s %s %s\t%s, was %s\n", sign, i.Subject, i.Relation, i.Object, i.After, i.Before)
		}
		fmt.Fprintf(w, "%d of %d asked: %d gained, %d lost, %d changed otherwise\n", out.Asked, out.Questions, out.Gained, out.Lost, out.Other)
		if out.Partial != "" {
			fmt.Fprintf(w, "incomplete: the bound on %s was reached\n", out.Partial)
		}
	})
}
