package protocols

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

func (a *app) xacmlExplain() *cobra.Command {
	var root string
	cmd := &cobra.Command{Use: "explain POLICY REQUEST", Short: "Show how policies decide a request", Args: cobra.ExactArgs(2),
		Long: "Show how policies decide a request: which targets match, which rule decides, and which attributes are missing.\n" +
			"POLICY is a file, or a folder with a root and the policies that it refers to. REQUEST is a request in XML or JSON.\n" +
			"Policies that ask relations need a server: there is no relation store here. The exit code is 0 for every decision.",
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := compilePolicies(cmd.Context(), args[0], root)
			if err != nil {
				return explainHint(cmd.Context(), err, args)
			}
			q, err := readRequest(args[1])
			if err != nil {
				return explainHint(cmd.Context(), fmt.Errorf("%s: %w", args[1], err), args)
			}
			trace := &policy.Trace{}
			results := plan.Decide(cmd.Context(), q, policy.Options{Now: time.Now, Trace: trace})
			out := explanationJSON{Results: make([]string, len(results)), Cut: trace.Cut}
			for i := range results {
				out.Results[i] = resultText(&results[i])
			}
			for _, s := range trace.Decisions {
				step := stepOf(s)
				step.Decides = true
				out.Steps = append(out.Steps, step)
			}
			return a.Print(out, func(w io.Writer) { io.WriteString(w, cli.ColorMarks(out.String(), a.Colored())) })
		}}
	cmd.Flags().StringVar(&root, "root", rootName, "with a folder: the name of the root policy, without the end of its file")
	return cmd
}

// explainHint adds to an error that the arguments POLICY and REQUEST are swapped, or
// that both are of the same kind.
func explainHint(ctx context.Context, err error, args []string) error {
	kind := func(name string) string {
		if _, err := readPolicy(ctx, name); err == nil {
			return "policy"
		}
		if _, err := readRequest(name); err == nil {
			return "request"
		}
		return ""
	}
	switch first, second := kind(args[0]), kind(args[1]); {
	case first == "request" && second == "policy":
		return cli.WithHint(err, fmt.Sprintf("the arguments are POLICY REQUEST: did you mean \"%s %s\"?", args[1], args[0]))
	case first != "" && first == second:
		return cli.WithHint(err, fmt.Sprintf("the arguments are POLICY REQUEST: each file is a %s", first))
	}
	return err
}

// explanationJSON is the JSON form of an explanation.
type explanationJSON struct {
	Results []string    `json:"results"`
	Steps   []*stepJSON `json:"steps"`
	Cut     bool        `json:"cut,omitempty"` // steps are missing, because there are too many
}

// stepJSON is the evaluation of a policy set, a policy or a rule.
type stepJSON struct {
	Kind     string      `json:"kind"`
	ID       string      `json:"id"`
	Version  string      `json:"version,omitempty"`
	Position string      `json:"position,omitempty"`
	Target   string      `json:"target"`
	Decision string      `json:"decision"`
	Decides  bool        `json:"decides,omitempty"` // its decision is that of the element around it
	Skipped  int         `json:"skipped,omitempty"` // children whose targets cannot match
	Why      string      `json:"why,omitempty"`
	Missing  []string    `json:"missing,omitempty"`
	Children []*stepJSON `json:"children,omitempty"`
}

func stepOf(s *policy.TraceStep) *stepJSON {
	out := &stepJSON{Kind: s.Kind, ID: s.ID, Version: s.Version, Position: s.Position.String(), Target: s.Target.String(),
		Decision: s.Decision.String(), Skipped: s.Skipped}
	if s.Status != nil {
		out.Why, out.Missing = s.Status.Message, missingTexts(s.Status)
	}
	for i, child := range s.Children {
		one := stepOf(child)
		one.Decides = i == s.Decided
		out.Children = append(out.Children, one)
	}
	return out
}

func missingTexts(e *status.Error) (out []string) {
	for _, m := range e.Missing {
		out = append(out, fmt.Sprintf("%s of %s, type %s", m.ID, m.Category, m.Type))
	}
	return out
}

// String returns the explanation as indented lines.
func (x *explanationJSON) String() string {
	var b strings.Builder
	for _, r := range x.Results {
		cli.Println(&b, r)
	}
	for _, s := range x.Steps {
		s.write(&b, 1)
	}
	if x.Cut {
		cli.Printf(&b, "  … more than %d steps\n", policy.TraceStepsMax)
	}
	return b.String()
}

// write prints a step and those below it. The mark shows whether it decides.
func (s *stepJSON) write(b *strings.Builder, indent int) {
	mark := " "
	switch {
	case s.Decides && s.Decision == "Permit":
		mark = "✓"
	case s.Decides && s.Decision != "NotApplicable":
		mark = "✗"
	}
	cli.Printf(b, "%s%s %s %s", strings.Repeat("  ", indent), mark, s.Kind, s.ID)
	if s.Position != "" {
		cli.Printf(b, " (%s)", s.Position)
	}
	cli.Printf(b, ": target %s, %s", s.Target, s.Decision)
	// A reason is shown once, at the innermost step.
	if s.Why != "" && !slices.ContainsFunc(s.Children, func(c *stepJSON) bool { return c.Why == s.Why }) {
		cli.Printf(b, ": %s", s.Why)
	}
	b.WriteString("\n")
	for _, c := range s.Children {
		c.write(b, indent+1)
	}
	if s.Skipped > 0 {
		cli.Printf(b, "%s%s left out, because their targets cannot match\n", strings.Repeat("  ", indent+2), cli.Plural(s.Skipped, "member"))
	}
}
