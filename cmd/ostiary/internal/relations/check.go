package relations

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

const subjectHelp = "A subject is type:id, type:id#relation or type:*; an object is type:id."

func (a *app) checkCommand() *cobra.Command {
	var flags queryFlags
	cmd := &cobra.Command{Use: "check USER RELATION OBJECT", Short: "Check whether a subject has a relation on an object", Args: cobra.ExactArgs(3),
		Long: "Check whether a subject has a relation on an object. " + subjectHelp + "\n\n" +
			"The exit code is 0 if allowed and 1 if denied. If context is missing, the check is denied and the output names it.\n" +
			"If the evaluation reaches a bound, the exit code is 2.",
		Example: "  ostiary check user:anne viewer document:roadmap\n" +
			`  ostiary check user:anne viewer document:roadmap --context '{"ip":"10.0.0.1"}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseQuestion(args)
			if err != nil {
				return err
			}
			return a.ask(cmd.Context(), &flags, t, func(s *found, q client.Query) error {
				got, err := s.Check(cmd.Context(), questionOf(t, q))
				if err != nil {
					return err
				}
				return a.printDecision(decisionOf(got))
			})
		}}
	flags.add(cmd)
	return cmd
}

// printDecision prints a check's result. It returns ErrDenied if the result is
// not allowed.
func (a *app) printDecision(d decision) error {
	if err := a.Print(d, func(w io.Writer) { cli.Println(w, d) }); err != nil {
		return err
	}
	if !d.Allowed {
		return cli.ErrDenied
	}
	return nil
}
