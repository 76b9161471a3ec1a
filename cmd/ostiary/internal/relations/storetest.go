package relations

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/internal/storetest"
)

// testJSON is the JSON form of one test's result.
type testJSON struct {
	File     string        `json:"file"`
	Name     string        `json:"name"`
	Passed   bool          `json:"passed"`
	Asked    int           `json:"asked"`
	Failures []failureJSON `json:"failures,omitempty"`
}

type failureJSON struct {
	Question string `json:"question"`
	Want     string `json:"want"`
	Got      string `json:"got"`
}

func (a *app) schemaTest() *cobra.Command {
	return &cobra.Command{Use: "test FILE.fga.yaml…", Short: "Run OpenFGA store tests in memory", Args: cobra.MinimumNArgs(1),
		Long: "Run OpenFGA store tests (.fga.yaml files). Each test uses a new store in memory; the data folder is not used.\n" +
			"The exit code is 1 if a result differs from the expected one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Data = cli.InMemory
			out, passed := []testJSON{}, true
			err := a.WithEngine(cmd.Context(), false, func(e *ostiary.Engine) error {
				for _, name := range args {
					report, err := runStoreTest(cmd, e, name)
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					passed = passed && report.Passed()
					out = append(out, testsOf(name, report)...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := a.Print(out, func(w io.Writer) { writeTests(w, out) }); err != nil {
				return err
			}
			if !passed {
				return cli.ErrDenied
			}
			return nil
		}}
}

func runStoreTest(cmd *cobra.Command, e *ostiary.Engine, name string) (*storetest.Report, error) {
	text, err := cli.ReadFile(name, storetest.FileBytesMax+1)
	if err != nil {
		return nil, err
	}
	file, err := storetest.Parse(text)
	if err != nil {
		return nil, err
	}
	report, err := storetest.Run(cmd.Context(), e, file, cli.FolderFS(filepath.Dir(name)))
	if err == nil && len(report.Tests) == 0 {
		err = fmt.Errorf("%w: the file has no tests", cli.ErrUsage)
	}
	return report, err
}

func testsOf(file string, report *storetest.Report) (out []testJSON) {
	for _, t := range report.Tests {
		one := testJSON{File: file, Name: t.Name, Passed: len(t.Failures) == 0, Asked: t.Asked()}
		for _, f := range t.Failures {
			one.Failures = append(one.Failures, failureJSON(f))
		}
		out = append(out, one)
	}
	return out
}

func writeTests(w io.Writer, tests []testJSON) {
	failed, asked, wrong := 0, 0, 0
	for _, t := range tests {
		mark := "pass"
		if !t.Passed {
			mark = "FAIL"
			failed++
		}
		asked += t.Asked
		wrong += len(t.Failures)
		cli.Printf(w, "%s  %s: %s, %s\n", mark, t.File, t.Name, cli.Plural(t.Asked, "answer"))
		for _, f := range t.Failures {
			cli.Printf(w, "      %s\n        expected %s\n        got      %s\n", f.Question, f.Want, f.Got)
		}
	}
	cli.Printf(w, "%s, %d failed; %s, %d wrong\n", cli.Plural(len(tests), "test"), failed, cli.Plural(asked, "answer"), wrong)
}
