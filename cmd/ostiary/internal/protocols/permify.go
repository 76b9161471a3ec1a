package protocols

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/scenario"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/schema"
)

func (a *app) permifyCommand() *cobra.Command {
	return cli.Group("permify", "Work on Permify's validation files", a.permifyValidate(), a.permifyCoverage(), a.permifyAST())
}

func (a *app) permifyValidate() *cobra.Command {
	return &cobra.Command{Use: "validate FILE", Short: "Run a validation file in memory", Args: cobra.ExactArgs(1),
		Long: "Run a validation file in memory; the data folder is not used. FILE and its schema are paths or http(s) URLs.\n" +
			"The last line is SUCCESS or FAILED. The exit code is 1 for FAILED.",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, text, err := readValidation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			e, err := ostiary.Open(cmd.Context(), ostiary.Options{Conditions: cel.New(cel.Options{}), Bounds: authz.Bounds{Depth: scenario.DepthMax}})
			if err != nil {
				return err
			}
			defer e.Close()
			report, err := scenario.Run(cmd.Context(), e, file, text)
			if err != nil {
				return err
			}
			return a.verdict(report.Passed(), func() error {
				return a.Print(validationOf(report), func(w io.Writer) { writeValidation(w, file, report) })
			})
		}}
}

// verdict calls print and returns ErrDenied if passed is false.
func (a *app) verdict(passed bool, print func() error) error {
	if err := print(); err != nil {
		return err
	}
	if !passed {
		return cli.ErrDenied
	}
	return nil
}

// validationJSON is the JSON form of a validation report.
type validationJSON struct {
	Passed   bool                 `json:"passed"`
	Problems []string             `json:"problems,omitempty"`
	Answers  []validationAnswered `json:"answers"`
}

type validationAnswered struct {
	Scenario int    `json:"scenario"`
	Name     string `json:"name,omitempty"`
	Question string `json:"question"`
	Want     string `json:"want"`
	Got      string `json:"got"`
	Passed   bool   `json:"passed"`
}

func validationOf(r *scenario.Report) validationJSON {
	out := validationJSON{Passed: r.Passed(), Problems: r.Problems, Answers: []validationAnswered{}}
	for i := range r.Answers {
		x := &r.Answers[i]
		out.Answers = append(out.Answers, validationAnswered{x.Scenario, x.Name, x.Question, x.Want, x.Got, x.Passed()})
	}
	return out
}

func writeValidation(w io.Writer, f *scenario.File, r *scenario.Report) {
	for _, p := range r.Problems {
		cli.Printf(w, "FAIL  %s\n", p)
	}
	if len(r.Problems) == 0 {
		cli.Printf(w, "pass  schema, %s, %s\n", cli.Plural(len(f.Relationships), "relationship"), cli.Plural(len(f.Attributes), "attribute"))
	}
	at := 0
	for i := range r.Answers {
		x := &r.Answers[i]
		if x.Scenario != at {
			at = x.Scenario
			cli.Printf(w, "scenario %d: %s\n", at, x.Name)
		}
		if x.Passed() {
			cli.Printf(w, "pass  %s: %s\n", x.Question, x.Got)
		} else {
			cli.Printf(w, "FAIL  %s: expected %s, got %s\n", x.Question, x.Want, x.Got)
		}
	}
	if r.Passed() {
		cli.Printf(w, "SUCCESS\n")
	} else {
		cli.Printf(w, "FAILED\n")
	}
}

// coverageFlags are the required percentages.
type coverageFlags struct{ relationships, attributes, assertions int }

func (a *app) permifyCoverage() *cobra.Command {
	var required coverageFlags
	cmd := &cobra.Command{Use: "coverage FILE", Short: "Show how much of its schema a validation file covers", Args: cobra.ExactArgs(1),
		Long: "Show how much of its schema a validation file covers: relations by relationships, attributes by values, permissions by assertions.\n" +
			"The exit code is 1 if a total is below a required percentage.",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, text, err := readValidation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			parsed, _, err := compileLanguage(text)
			if err != nil {
				return err
			}
			c := scenario.Cover(file, parsed)
			passed := c.Relationships >= required.relationships && c.Attributes >= required.attributes && c.Assertions >= required.assertions
			return a.verdict(passed, func() error {
				return a.Print(c, func(w io.Writer) { writeCoverage(w, &c) })
			})
		}}
	cmd.Flags().IntVar(&required.relationships, "coverage-relationships", 0, "required percentage of relationships")
	cmd.Flags().IntVar(&required.attributes, "coverage-attributes", 0, "required percentage of attributes")
	cmd.Flags().IntVar(&required.assertions, "coverage-assertions", 0, "required percentage of assertions")
	return cmd
}

func writeCoverage(w io.Writer, c *scenario.Coverage) {
	for i := range c.Entities {
		e := &c.Entities[i]
		cli.Printf(w, "%s: relationships %d %%, attributes %d %%, assertions %d %%\n", e.Name, e.Relationships.Percent(), e.Attributes.Percent(), e.Assertions.Percent())
		for _, p := range []*scenario.Part{&e.Relationships, &e.Attributes, &e.Assertions} {
			for _, m := range p.Missing {
				cli.Printf(w, "  not covered: %s\n", m)
			}
		}
	}
	cli.Printf(w, "total: relationships %d %%, attributes %d %%, assertions %d %%\n", c.Relationships, c.Attributes, c.Assertions)
}

func (a *app) permifyAST() *cobra.Command {
	var pretty bool
	cmd := &cobra.Command{Use: "ast FILE", Short: "Print a validation file's schema as the protocol's JSON", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, text, err := readValidation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			parsed, compiled, err := compileLanguage(text)
			if err != nil {
				return err
			}
			definition, err := permify.Definition(parsed, compiled)
			if err != nil {
				return err
			}
			o := protojson.MarshalOptions{}
			if pretty {
				o.Multiline, o.Indent = true, "  "
			}
			out, err := o.Marshal(definition)
			if err != nil {
				return err
			}
			_, err = a.Verbatim().Write(append(out, '\n'))
			return err
		}}
	cmd.Flags().BoolVar(&pretty, "pretty", false, "indent the output")
	return cmd
}

// compileLanguage parses and compiles a schema in Permify's language.
func compileLanguage(text string) (*language.Schema, *schema.Schema, error) {
	parsed, err := language.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	model, err := parsed.Model()
	if err != nil {
		return nil, nil, err
	}
	compiled, err := schema.Compile(model, cel.New(cel.Options{}))
	return parsed, compiled, err
}

// readValidation reads a validation file and the text of its schema. A file from a
// URL may only name a schema by URL, never a file on this machine.
func readValidation(ctx context.Context, name string) (*scenario.File, string, error) {
	text, err := readAnywhere(ctx, name)
	if err != nil {
		return nil, "", err
	}
	file, err := scenario.Parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	where, ok := file.Reference()
	if !ok {
		return file, file.Schema, nil
	}
	if !isURL(where) {
		if isURL(name) {
			return nil, "", fmt.Errorf("%s: invalid schema %q: a file from a URL must name its schema by URL", name, where)
		}
		if !filepath.IsAbs(where) {
			where = filepath.Join(filepath.Dir(name), filepath.FromSlash(where))
		}
	}
	schemaText, err := readAnywhere(ctx, where)
	return file, string(schemaText), err
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// fetchTime is the maximum duration of reading a file from a URL.
const fetchTime = 30 * time.Second

func readAnywhere(ctx context.Context, name string) ([]byte, error) {
	if !isURL(name) {
		return cli.ReadFile(name, scenario.FileBytesMax+1)
	}
	ctx, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", name, res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, scenario.FileBytesMax+1))
	if err == nil && len(text) > scenario.FileBytesMax {
		err = errors.New(name + ": too large")
	}
	return text, err
}
