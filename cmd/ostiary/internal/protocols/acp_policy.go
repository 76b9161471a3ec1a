package protocols

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func (a *app) acpPolicyCommand(f *acpFlags) *cobra.Command {
	return cli.Group("policy", "Create, show, edit and delete policies", a.acpCreateCommand(f), a.acpPoliciesCommand(f),
		a.acpGetCommand(f), a.acpValidateCommand(), a.acpEditCommand(f), a.acpMetadataCommand(f), a.acpDeleteCommand(f))
}

func (a *app) acpCreateCommand(f *acpFlags) *cobra.Command {
	var src acp.PolicySource
	cmd := &cobra.Command{Use: "create FILE", Short: "Create a policy and print its id", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		text, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		src.Text = string(text)
		if f.actor == "" { // before the command creates a folder and a collection
			return acp.ErrUnauthenticated
		}
		return a.withACP(cmd.Context(), f, true, func(e *acp.Engine) error {
			rec, err := e.CreatePolicy(cmd.Context(), f.actor, src)
			if err != nil {
				return locatedPolicy(args[0], err)
			}
			for _, w := range rec.Warnings {
				a.Note("%s:%d:%d: warning: %s", args[0], w.Line, w.Column, w.Text)
			}
			return a.printValue("id", rec.ID)
		})
	}}
	cmd.Flags().StringVar(&src.Specification, "spec", "", "spec that the policy must have: defra is added to a text without one, none refuses defra")
	cmd.Flags().StringToStringVar(&src.Metadata, "metadata", nil, "NAME=VALUE to store with the policy; may be repeated")
	return cmd
}

// locatedPolicy adds the file name to each error of a policy.
func locatedPolicy(file string, err error) error {
	var at *acp.PolicyError
	if !errors.As(err, &at) {
		return err
	}
	var lines []string
	for _, e := range flatErrors(err) {
		between := ":"
		if e.Line == 0 { // the error begins with its kind, and not with its place
			between = ": "
		}
		lines = append(lines, file+between+e.Error())
	}
	return cli.WithText(strings.Join(lines, "\n"), err)
}

// flatErrors returns the policy errors in err, in order.
func flatErrors(err error) (out []*acp.PolicyError) {
	switch x := err.(type) {
	case *acp.PolicyError:
		return []*acp.PolicyError{x}
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			out = append(out, flatErrors(e)...)
		}
	case interface{ Unwrap() error }:
		return flatErrors(x.Unwrap())
	}
	return out
}

// policyLine is the JSON form of a policy.
type policyLine struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Dialect       string            `json:"dialect"`
	Specification string            `json:"specification"`
	Creator       string            `json:"creator"`
	Created       string            `json:"created"`
	Modified      string            `json:"modified"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Source        string            `json:"source,omitempty"`
}

func policyLineOf(p *acp.PolicyRecord) policyLine {
	return policyLine{p.ID, p.Name, p.Dialect.String(), p.Specification, p.Creator, cli.Stamp(p.Created), cli.Stamp(p.Modified), p.Metadata, ""}
}

func (a *app) acpPoliciesCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List policies in the order they were created in", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.withACP(cmd.Context(), f, false, func(e *acp.Engine) error {
			lines := []policyLine{}
			for rec, err := range e.Policies(cmd.Context()) {
				if err != nil {
					return err
				}
				lines = append(lines, policyLineOf(rec))
			}
			return a.Print(map[string]any{"policies": lines}, func(w io.Writer) {
				for _, l := range lines {
					cli.Printf(w, "%s\t%s\t%s\n", l.ID, l.Name, l.Created)
				}
			})
		})
	}}
}

func (a *app) acpGetCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "get", Short: "Show the text of --policy", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, id string) error {
			rec, err := e.Policy(cmd.Context(), id)
			if err != nil {
				return err
			}
			line := policyLineOf(rec)
			line.Source = rec.Source
			return a.Print(line, func(w io.Writer) { cli.PrintLines(w, strings.TrimRight(rec.Source, "\n")+"\n") })
		})
	}}
}

func (a *app) acpValidateCommand() *cobra.Command {
	var spec string
	cmd := &cobra.Command{Use: "validate FILE...", Short: "Check policy files and show the line of each error; needs no folder", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, file := range args {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				p, err := acp.ValidatePolicy(acp.PolicySource{Text: string(text), Specification: spec})
				if err != nil {
					errs = append(errs, locatedPolicy(file, err))
					continue
				}
				for _, w := range p.Warnings {
					a.Note("%s:%d:%d: warning: %s", file, w.Line, w.Column, w.Text)
				}
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
			return a.printDone("valid", true, choose(len(args) == 1, "the policy is valid", "the policies are valid"), nil)
		}}
	cmd.Flags().StringVar(&spec, "spec", "", "spec that the policy must have: defra is added to a text without one, none refuses defra")
	return cmd
}

func (a *app) acpEditCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "edit FILE", Short: "Replace the text of --policy, and remove relationships that it no longer permits", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, id string) error {
				n, err := e.EditPolicy(cmd.Context(), f.actor, id, acp.PolicySource{Text: string(text)})
				if err != nil {
					return locatedPolicy(args[0], err)
				}
				return a.printDone("removed", n, fmt.Sprintf("edited policy %s, removed %s", id, cli.Plural(n, "relationship")), nil)
			})
		}}
}

func (a *app) acpMetadataCommand(f *acpFlags) *cobra.Command {
	return &cobra.Command{Use: "metadata NAME=VALUE...", Short: "Replace the metadata of --policy", Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		metadata := map[string]string{}
		for _, arg := range args {
			name, value, ok := strings.Cut(arg, "=")
			if !ok || name == "" {
				return fmt.Errorf("%w: invalid metadata %q: expected NAME=VALUE", cli.ErrUsage, arg)
			}
			metadata[name] = value
		}
		return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, id string) error {
			return a.printDone("metadata", len(metadata), fmt.Sprintf("policy %s has %s of metadata", id, cli.Plural(len(metadata), "value")), e.EditPolicyMetadata(cmd.Context(), f.actor, id, metadata))
		})
	}}
}

func (a *app) acpDeleteCommand(f *acpFlags) *cobra.Command {
	yes := false
	cmd := &cobra.Command{Use: "delete", Short: "Delete --policy with all its registrations and relationships", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes || f.policy == "" {
				return fmt.Errorf("%w: this deletes a policy with all its registrations: name it with --policy and confirm with --yes", cli.ErrUsage)
			}
			return a.withPolicy(cmd.Context(), f, func(e *acp.Engine, id string) error {
				return a.printDone("deleted", id, "deleted policy "+id, e.DeletePolicy(cmd.Context(), f.actor, id))
			})
		}}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	return cmd
}
