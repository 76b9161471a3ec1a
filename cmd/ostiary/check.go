package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
)

// errBound: an answer that a bound kept from being found, which is neither yes
// nor no.
var errBound = errors.New("undecided, bound reached")

const subjectHelp = "A subject is type:id, type:id#relation or type:*; an object is type:id."

func (a *app) checkCommand() *cobra.Command {
	var flags askFlags
	cmd := &cobra.Command{Use: "check USER RELATION OBJECT", Short: "Ask whether a subject has a relation on an object", Args: cobra.ExactArgs(3),
		Long: "Ask whether a subject has a relation on an object. " + subjectHelp + "\n\n" +
			"Exits with 0 if allowed, 1 if denied. What cannot be decided for lack of context is denied, and says so;\n" +
			"what a bound kept from being decided is an error (2).",
		Example: "  ostiary check user:anne viewer document:roadmap\n" +
			`  ostiary check user:anne viewer document:roadmap --context '{"ip":"10.0.0.1"}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTriple(args)
			if err != nil {
				return err
			}
			ask, err := flags.ask()
			if err != nil {
				return err
			}
			if r := a.remote(); r != nil {
				return r.check(cmd.Context(), t, &flags)
			}
			return a.withStore(cmd.Context(), func(s *ostiary.Store) error {
				got, err := s.Check(cmd.Context(), ostiary.CheckRequest{Object: t.Object, Relation: t.Relation, Subject: t.Subject, QueryOptions: ask})
				if err != nil {
					return err
				}
				if got.Reasons != nil && got.Reasons.Bound != "" {
					return fmt.Errorf("%w: %s", errBound, got.Reasons.Bound)
				}
				return a.printDecision(decisionOf(got.Decision, got.Reasons, got.Revision))
			})
		}}
	flags.add(cmd)
	return cmd
}

// printDecision prints an answer; a denial is errDenied.
func (a *app) printDecision(d decision) error {
	if err := a.print(d, func(w io.Writer) { fmt.Fprintln(w, d) }); err != nil {
		return err
	}
	if !d.Allowed {
		return errDenied
	}
	return nil
}
