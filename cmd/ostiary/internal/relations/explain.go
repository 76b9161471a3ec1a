package relations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
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
				return a.printNative(text, &out, func(w io.Writer) { fmt.Fprint(w, cli.ColorMarks(out.Text, a.Colored())) })
			})
		}}
	flags.add(cmd)
	cmd.Flags().BoolVar(&full, "full", false, "show every step; by default, steps with a single child are left out")
	cmd.Flags().BoolVar(&origins, "origins", false, "show which write made each tuple: revision, time, caller and reason")
	cli.CountVar(cmd.Flags(), &steps, "steps", 0, 0, fmt.Sprintf("maximum number of steps; default: %d", authz.FrontierMaxDefault))
	return cmd
}

func (a *app) expandCommand() *cobra.Command {
	var flags listFlags
	var levels int
	cmd := &cobra.Command{Use: "expand RELATION OBJECT", Short: "Show the subjects that have a relation on an object, as a tree", Args: cobra.ExactArgs(2),
		Long: "Show the subjects that have a relation on an object, as a tree. With --limit, show it in pages: each relation is a tree of its own,\n" +
			"and a relation that does not fit a page continues on the next one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := rel.ParseObject(args[1])
			if err == nil {
				err = requireNoWildcard(object)
			}
			if err != nil {
				return err
			}
			return a.ask(cmd.Context(), &flags.queryFlags, rel.Tuple{Object: object, Relation: args[0]}, func(s *found, q client.Query) error {
				text, err := s.Expand(cmd.Context(), client.Expand{Object: args[1], Relation: args[0], Levels: levels, Text: !a.JSON,
					Page: client.Page{Limit: flags.limit, Cursor: flags.cursor}, Query: q})
				if err != nil {
					return err
				}
				return a.printTree(text)
			})
		}}
	flags.queryFlags.add(cmd)
	cli.CountVar(cmd.Flags(), &levels, "levels", 1, 1, "depth of the tree, in relations")
	cli.CountVar(cmd.Flags(), &flags.limit, "limit", 0, 0, "maximum number of nodes and tuples; default: the whole tree, cut at its bound")
	cmd.Flags().StringVar(&flags.cursor, "cursor", "", "cursor that an expand with --limit printed; continues that expand")
	return cmd
}

// printTree prints the response to an expand, and remarks to stderr. It returns errBound
// if a bound ended an expand in pages.
func (a *app) printTree(text json.RawMessage) error {
	var out struct{ Text, Next, Cut string }
	if err := a.printNative(text, &out, func(w io.Writer) { fmt.Fprint(w, out.Text) }); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return err
	}
	if out.Next != "" {
		a.Note("more results: --cursor %s", out.Next)
	}
	if out.Cut != "" {
		return fmt.Errorf("%w: %s: the expand is incomplete", cli.ErrBound, out.Cut)
	}
	return nil
}

// printNative prints a response of the native API: unchanged with --json.
// Otherwise it decodes the response into out and calls human.
func (a *app) printNative(text json.RawMessage, out any, human func(io.Writer)) error {
	if a.JSON {
		_, err := a.Out.Write(append(bytes.TrimSpace(text), '\n'))
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	return a.Print(nil, human)
}
