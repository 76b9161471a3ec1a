package protocols

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/language"
)

func (a *app) xacmlCommand() *cobra.Command {
	return cli.Group("xacml", "Check, test, load, explain and convert XACML policies",
		a.xacmlValidate(), a.xacmlTest(), a.xacmlLoad(), a.xacmlExplain(), a.xacmlConvert())
}

// policyLanguages are the languages of policies by the end of a file's name.
var policyLanguages = map[string]string{".xml": "xml", ".json": "json", ".alfa": "text"}

// readPolicy reads a policy in the language that the name of the file ends with.
func readPolicy(ctx context.Context, name string) (policy.Element, error) {
	text, err := cli.ReadFile(name, language.TextBytesMax+1)
	if err != nil {
		return nil, err
	}
	switch policyLanguages[filepath.Ext(name)] {
	case "xml":
		return language.ParseXML(ctx, text, name)
	case "json":
		return language.ParseJSON(ctx, text, name)
	case "text":
		return language.ParseText(ctx, text, name)
	}
	return nil, fmt.Errorf("%w: unknown language of %q: expected a name that ends with .xml, .json or .alfa", cli.ErrUsage, name)
}

// printPolicy returns a policy in a language.
func printPolicy(e policy.Element, to string) ([]byte, error) {
	switch to {
	case "xml":
		return language.PrintXML(e)
	case "json":
		return language.PrintJSON(e)
	case "text":
		return language.PrintText(e)
	}
	return nil, fmt.Errorf("%w: invalid --to %q: expected xml, json or text", cli.ErrUsage, to)
}

// policyOptions returns the options that a server compiles policies with.
func policyOptions() (policy.CompileOptions, error) {
	functions, err := function.Standard().With(domain.Related())
	return policy.CompileOptions{Functions: functions}, err
}

// policiesIn returns the files of policies in a folder, sorted. It fails if there
// are none.
func policiesIn(folder string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() && policyLanguages[filepath.Ext(e.Name())] != "" {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no policies: expected files whose names end with .xml, .json or .alfa", folder)
	}
	return files, nil
}

// readPolicies reads a policy, or a folder of policies, of which the one whose
// name without its end is root is the root. The others are the library.
func readPolicies(ctx context.Context, name, root string) (policy.Element, []policy.Element, error) {
	files, err := cli.Files([]string{name}, policiesIn)
	if err != nil {
		return nil, nil, err
	}
	var top policy.Element
	var library []policy.Element
	for _, file := range files {
		e, err := readPolicy(ctx, file)
		switch {
		case err != nil:
			return nil, nil, err
		case len(files) > 1 && !strings.EqualFold(policyName(file), root):
			library = append(library, e)
		case top != nil:
			return nil, nil, fmt.Errorf("%s has two policies with the name %s: expected one", name, root)
		default:
			top = e
		}
	}
	if top == nil {
		return nil, nil, fmt.Errorf("%s has no policy with the name %s, which would be the root", name, root)
	}
	return top, library, nil
}

// policyName returns the name of a policy's file without its folder and its end.
func policyName(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

func (a *app) xacmlValidate() *cobra.Command {
	return &cobra.Command{Use: "validate FILE|FOLDER…", Short: "Check policies without loading them", Args: cobra.MinimumNArgs(1),
		Long: "Check policies in XML (.xml), JSON (.json) or as text (.alfa), without loading them. References are not resolved.\n" +
			"Every error is shown with its line and column.",
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := cli.Files(args, policiesIn)
			if err != nil {
				return err
			}
			options, err := policyOptions()
			if err != nil {
				return err
			}
			out := []policyJSON{}
			var wrong []error
			for _, file := range files {
				e, err := readPolicy(cmd.Context(), file)
				if err == nil {
					err = policy.Check(cmd.Context(), e, options)
				}
				if err != nil {
					wrong = append(wrong, err)
					continue
				}
				out = append(out, policyOf(file, e))
			}
			if len(wrong) > 0 {
				return errors.Join(wrong...)
			}
			return a.Print(out, func(w io.Writer) {
				for _, p := range out {
					cli.Printf(w, "%s is valid: %s\n", p.File, p)
				}
			})
		}}
}

// policyJSON describes a policy in a file.
type policyJSON struct {
	File    string `json:"file"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Members int    `json:"members"`
}

// String describes the policy for people.
func (p policyJSON) String() string {
	what := "rule"
	if p.Kind == "policy set" {
		what = "member"
	}
	return fmt.Sprintf("%s %s, version %s, %s", p.Kind, p.ID, p.Version, cli.Plural(p.Members, what))
}

func policyOf(file string, e policy.Element) policyJSON {
	if s, ok := e.(*policy.PolicySet); ok {
		return policyJSON{file, "policy set", s.ID, s.Version, len(s.Children)}
	}
	p, _ := e.(*policy.Policy) // the languages have nothing else at the top
	return policyJSON{file, "policy", p.ID, p.Version, len(p.Rules)}
}

func (a *app) xacmlConvert() *cobra.Command {
	var to string
	cmd := &cobra.Command{Use: "convert FILE --to xml|json|text", Short: "Print a policy in another language", Args: cobra.ExactArgs(1),
		Long: "Print a policy in another language: xml (XACML 3.0), json, or text (a subset of ALFA).\n" +
			"The text form cannot express everything; the error names what it cannot express.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"xml", "json", "text"}, to) {
				return fmt.Errorf("%w: invalid --to %q: expected xml, json or text", cli.ErrUsage, to)
			}
			e, err := readPolicy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			text, err := printPolicy(e, to)
			if err == nil {
				_, err = a.Verbatim().Write(text)
			}
			return err
		}}
	cmd.Flags().StringVar(&to, "to", "", "xml, json or text; required")
	return cmd
}

// caseFolders returns the folders of test cases in a folder: itself, or the
// folders in it, at any depth. A case has a policy and requests.
func caseFolders(folder string) (cases []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if policyRoot(path) != "" {
			cases = append(cases, path)
			return fs.SkipDir
		}
		return nil
	})
	if err == nil && len(cases) == 0 {
		err = fmt.Errorf("%s has no test cases: expected a folder with Policy.xml or a folder Policies", folder)
	}
	return cases, err
}

// policyRoot returns the policy of a test case: its file Policy with one of the
// ends, or its folder Policies. It returns "" if there is none.
func policyRoot(folder string) string {
	for _, name := range []string{"Policies", "policies", "Policy.xml", "Policy.json", "Policy.alfa"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
	}
	return ""
}
