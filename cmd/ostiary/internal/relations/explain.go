package relations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

func (a *app) explainCommand() *cobra.Command {
	var flags queryFlags
	var steps int
	var full, origins bool
	cmd := &cobra.Command{Use: "explain USER RELATION OBJECT", Short: "Explain why a check is allowed or denied", Args: cobra.ExactArgs(3),
		Long: "Explain why a check is allowed or denied: show the path that allows it, or the steps that failed. " + subjectHelp + "\n" +
			"The exit code is 0 for allowed and for denied.",
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseQuestion(args)
			if err != nil {
				return err
			}
			return a.ask(cmd.Context(), &flags, t, func(s *found, q client.Query) error {
				in := client.Explain{Question: questionOf(t, q),
					Steps: steps, Text: !a.JSON, Short: !a.JSON && !full, Origins: origins}
				own, err := s.native()
				if err != nil {
					return err
				}
				text, err := own.Explain(cmd.Context(), in)
				if err != nil {
					return err
				}
				var out struct{ Text string }
				return a.printNative(text, &out, func(w io.Writer) { io.WriteString(w, cli.ColorMarks(out.Text, a.Colored())) })
			})
		}}
	flags.add(cmd)
	cmd.Flags().BoolVar(&full, "full", false, "show every step; by default, steps with a single child are left out")
	cmd.Flags().BoolVar(&origins, "origins", false, "show which write made each tuple: revision, time, caller and reason")
	cli.CountVar(cmd.Flags(), &steps, "steps", 0, 0, fmt.Sprintf("maximum number of steps; default: %d", authz.FrontierMaxDefault))
	return cmd
}

// printNative prints a response of the native API: unchanged with --json.
// Otherwise it decodes the response into out and calls human.
func (a *app) printNative(text json.RawMessage, out any, human func(io.Writer)) error {
	if a.JSON {
		return cli.WriteJSON(a.Out, json.RawMessage(bytes.TrimSpace(text)))
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	return a.Print(nil, human)
}
