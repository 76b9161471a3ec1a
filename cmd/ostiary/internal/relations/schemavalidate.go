package relations

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func (a *app) schemaValidate() *cobra.Command {
	return &cobra.Command{Use: "validate FILE…", Short: "Check models without writing them", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			type result struct {
				File       string `json:"file"`
				Types      int    `json:"types"`
				Conditions int    `json:"conditions"`
			}
			out := []result{}
			texts := map[string]string{}
			var errs []error
			for _, name := range args {
				source, err := a.ReadModel(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if err := source.Compile(); err != nil {
					errs = append(errs, err)
					continue
				}
				texts[name] = cli.Counts(source.Model)
				out = append(out, result{name, len(source.Model.Types), len(source.Model.Conditions)})
			}
			if errs != nil {
				return errors.Join(errs...)
			}
			return a.Print(out, func(w io.Writer) {
				for _, r := range out {
					cli.Printf(w, "%s is valid: %s\n", r.File, texts[r.File])
				}
			})
		}}
}
