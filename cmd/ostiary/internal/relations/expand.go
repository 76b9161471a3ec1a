package relations

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

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
	if err := a.printNative(text, &out, func(w io.Writer) { cli.PrintLines(w, out.Text) }); err != nil {
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
