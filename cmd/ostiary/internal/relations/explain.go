package relations

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
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
			t, err := parseTriple(args)
			if err == nil {
				err = requireNoWildcard(t.Object)
			}
			if err != nil {
				return err
			}
			remote := func(*remote) error { return a.explainRemote(cmd.Context(), t, &flags, steps, full, origins) }
			err = a.ask(cmd.Context(), &flags, t.Subject, remote, func(s *ostiary.Store, query ostiary.QueryOptions) error {
				x, err := s.Explain(cmd.Context(), ostiary.ExplainRequest{
					CheckRequest: ostiary.CheckRequest{Object: t.Object, Relation: t.Relation, Subject: t.Subject, QueryOptions: query},
					Options:      authz.ExplainOptions{FrontierMax: steps}, Origins: origins})
				if err != nil {
					return err
				}
				out := struct {
					decision
					Token       string             `json:"token"`
					Schema      string             `json:"schema"`
					Asked       string             `json:"asked"`
					Explanation *authz.Explanation `json:"explanation"`
				}{decisionOf(x.Answer.Decision, x.Answer.Reasons, x.Revision), string(x.Token), x.Schema.ID, cli.Stamp(x.Asked), &x}
				return a.Print(out, func(w io.Writer) {
					if !full {
						x.Shorten()
					}
					fmt.Fprint(w, cli.ColorMarks(x.String(), a.Colored()))
				})
			})
			return a.hintNames(cmd.Context(), flags.schema, t, err)
		}}
	flags.add(cmd)
	cmd.Flags().BoolVar(&full, "full", false, "show every step; by default, steps with a single child are left out")
	cmd.Flags().BoolVar(&origins, "origins", false, "show which write made each tuple: revision, time, caller and reason")
	cli.CountVar(cmd.Flags(), &steps, "steps", 0, 0, fmt.Sprintf("maximum number of steps; default: %d", authz.FrontierMaxDefault))
	return cmd
}

// explainRemote asks the server for the explanation and prints its text.
func (a *app) explainRemote(ctx context.Context, t rel.Tuple, flags *queryFlags, steps int, full, origins bool) error {
	in, err := flags.nativeQuestion(map[string]any{"object": t.Object.String(), "relation": t.Relation, "subject": t.Subject.String(), "text": !a.JSON, "short": !a.JSON && !full})
	if err != nil {
		return err
	}
	if steps > 0 {
		in["steps"] = steps
	}
	if origins {
		in["origins"] = true
	}
	if err := a.requireSubjects(ctx, flags, t.Subject); err != nil {
		return err
	}
	text, err := a.Native(ctx, http.MethodPost, "/explain", in)
	if err != nil {
		return err
	}
	var out struct{ Text string }
	return a.PrintNative(text, &out, func(w io.Writer) { fmt.Fprint(w, cli.ColorMarks(out.Text, a.Colored())) })
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
			remote := func(r *remote) error { return r.expand(cmd.Context(), args[0], object, levels, &flags) }
			err = a.ask(cmd.Context(), &flags.queryFlags, rel.Subject{}, remote, func(s *ostiary.Store, query ostiary.QueryOptions) error {
				return a.expandLocal(cmd.Context(), s, &flags, ostiary.ExpandRequest{Object: object, Relation: args[0], Levels: levels, QueryOptions: query})
			})
			return a.hintNames(cmd.Context(), flags.schema, rel.Tuple{Object: object, Relation: args[0]}, err)
		}}
	flags.queryFlags.add(cmd)
	cli.CountVar(cmd.Flags(), &levels, "levels", 1, 1, "depth of the tree, in relations")
	cli.CountVar(cmd.Flags(), &flags.limit, "limit", 0, 0, "maximum number of nodes and tuples; default: the whole tree, cut at its bound")
	cmd.Flags().StringVar(&flags.cursor, "cursor", "", "cursor that an expand with --limit printed; continues that expand")
	return cmd
}

// inPages reports whether the flags ask for one page.
func (f *listFlags) inPages() bool { return f.limit > 0 || f.cursor != "" }

// expandLocal prints the tree, or a page of it, from the data folder.
func (a *app) expandLocal(ctx context.Context, s *ostiary.Store, flags *listFlags, q ostiary.ExpandRequest) error {
	if !flags.inPages() {
		x, err := s.Expand(ctx, q)
		if err != nil {
			return err
		}
		out := struct {
			Tree     *authz.Tree `json:"tree"`
			Revision uint64      `json:"revision"`
		}{x.Tree, uint64(x.Revision)}
		return a.Print(out, func(w io.Writer) { fmt.Fprint(w, x.Tree.String()) })
	}
	x, err := s.ExpandPage(ctx, ostiary.ExpandPageRequest{ExpandRequest: q, Limit: flags.limit, Cursor: flags.cursor})
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, part := range x.Parts {
		text.WriteString(part.String())
	}
	return printParts(a, expandPage[[]*authz.Tree]{x.Parts, x.Next, x.Bound, uint64(x.Revision)}, text.String())
}

// expandPage is the JSON form of a page of an expand. Parts are trees, or their
// JSON.
type expandPage[Parts any] struct {
	Parts    Parts  `json:"parts"`
	Next     string `json:"next"`
	Cut      string `json:"cut,omitempty"`
	Revision uint64 `json:"revision"`
}

// printParts prints a page of an expand, and remarks to stderr. It returns
// ErrBound if a bound ended the expand.
func printParts[Parts any](a *app, page expandPage[Parts], text string) error {
	if err := a.Print(page, func(w io.Writer) { fmt.Fprint(w, text) }); err != nil {
		return err
	}
	if page.Next != "" {
		a.Note("more results: --cursor %s", page.Next)
	}
	if page.Cut != "" {
		return fmt.Errorf("%w: %s: the expand is incomplete", cli.ErrBound, page.Cut)
	}
	return nil
}
