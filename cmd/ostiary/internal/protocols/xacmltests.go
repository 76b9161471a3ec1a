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
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// messageBytesMax is the largest length of a request or a response in a file.
const messageBytesMax = 16 << 20

// rootName is the name of the root among the policies of a test case.
const rootName = "Policy"

func (a *app) xacmlTest() *cobra.Command {
	return &cobra.Command{Use: "test FOLDER…", Short: "Run requests against policies and compare the responses", Args: cobra.MinimumNArgs(1),
		Long: "Run requests against policies and compare the responses. A folder is a test case if it has a policy, Policy.xml, Policy.json or\n" +
			"Policy.alfa, or a folder Policies with the root Policy.xml and the policies that it refers to. Each file whose name ends with\n" +
			"Request.xml or Request.json is a request; the response with the same name and Response instead of Request is what is expected.\n" +
			"A case without a response expects that its policies are rejected. Status messages, details and order are not compared.\n" +
			"The exit code is 1 if a result differs from the expected one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var out []policyTest
			for _, folder := range args {
				cases, err := caseFolders(folder)
				if err != nil {
					return err
				}
				for _, one := range cases {
					tests, err := runPolicyCase(cmd.Context(), one)
					if err != nil {
						return fmt.Errorf("%s: %w", one, err)
					}
					out = append(out, tests...)
				}
			}
			if err := a.Print(out, func(w io.Writer) { writePolicyTests(w, out) }); err != nil {
				return err
			}
			if slices.ContainsFunc(out, func(t policyTest) bool { return !t.Passed }) {
				return cli.ErrDenied
			}
			return nil
		}}
}

// policyTest is the result of one request of a test case, or of its policies if
// they must be rejected.
type policyTest struct {
	Case    string `json:"case"`
	Request string `json:"request,omitempty"`
	Passed  bool   `json:"passed"`
	// Differences are how the result differs from the expected one.
	Differences []string `json:"differences,omitempty"`
}

// differs returns a test that fails with differences, or passes if there are none.
func differs(differences ...string) policyTest {
	return policyTest{Passed: len(differences) == 0, Differences: differences}
}

func writePolicyTests(w io.Writer, tests []policyTest) {
	failed := 0
	for _, t := range tests {
		name := filepath.Join(t.Case, t.Request)
		if t.Passed {
			cli.Printf(w, "pass  %s\n", name)
			continue
		}
		failed++
		cli.Printf(w, "FAIL  %s\n", name)
		for _, text := range t.Differences {
			cli.PrintLines(w, "        "+strings.ReplaceAll(text, "\n", "\n        ")+"\n")
		}
	}
	cli.Printf(w, "%s, %d failed\n", cli.Plural(len(tests), "test"), failed)
}

// runPolicyCase runs the requests of a test case.
func runPolicyCase(ctx context.Context, folder string) ([]policyTest, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	plan, rejected := compilePolicies(ctx, policyRoot(folder), rootName)
	if _, ok := errors.AsType[*policy.Error](rejected); rejected != nil && !ok {
		return nil, rejected // for example a file that cannot be read
	}
	var out []policyTest
	for _, e := range entries {
		expected := strings.Replace(e.Name(), "Request.", "Response.", 1)
		if expected == e.Name() || policyLanguages[filepath.Ext(expected)] == "" || policyLanguages[filepath.Ext(expected)] == "text" {
			continue
		}
		one := differs()
		if rejected != nil {
			one = differs("the policies are rejected, expected a decision: " + rejected.Error())
		} else if one, err = runRequest(ctx, plan, filepath.Join(folder, e.Name()), filepath.Join(folder, expected)); err != nil {
			return nil, err
		}
		one.Case, one.Request = folder, e.Name()
		out = append(out, one)
	}
	if len(out) > 0 {
		return out, nil
	}
	one := differs()
	if rejected == nil {
		one = differs("the policies are valid, expected rejected ones, because there are no requests")
	}
	one.Case = folder
	return []policyTest{one}, nil
}

// compilePolicies compiles a policy or a folder of policies.
func compilePolicies(ctx context.Context, name, root string) (*policy.Plan, error) {
	top, library, err := readPolicies(ctx, name, root)
	if err != nil {
		return nil, err
	}
	options, err := policyOptions()
	if err != nil {
		return nil, err
	}
	return policy.Compile(ctx, top, library, options)
}

// runRequest compares the decision on a request with the expected response. If
// there is no response, the request must be refused.
func runRequest(ctx context.Context, plan *policy.Plan, request, response string) (policyTest, error) {
	q, refused := readRequest(request)
	if fileError, ok := errors.AsType[*fs.PathError](refused); ok {
		return policyTest{}, fileError
	}
	expected, err := readResponse(response)
	switch {
	case errors.Is(err, fs.ErrNotExist) && refused != nil:
		return differs(), nil
	case errors.Is(err, fs.ErrNotExist):
		return differs("the request is valid, expected a refused request, because there is no response"), nil
	case err != nil:
		return policyTest{}, fmt.Errorf("%s: %w", response, err)
	case refused != nil:
		return differs("the request is refused, expected a decision: " + refused.Error()), nil
	}
	got := plan.Decide(ctx, q, policy.Options{Now: time.Now})
	for _, results := range [2][]policy.Result{expected, got} {
		slices.SortFunc(results, func(a, b policy.Result) int { return strings.Compare(resultText(&a), resultText(&b)) })
	}
	return differs(policy.Differences(expected, got)...), nil
}

// readRequest reads a request in XML or JSON.
func readRequest(name string) (*policy.Request, error) {
	text, err := cli.ReadFile(name, messageBytesMax)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(name) == ".json" {
		return message.ReadJSON(text)
	}
	return message.ReadXML(text)
}

// readResponse reads a response in XML or JSON.
func readResponse(name string) ([]policy.Result, error) {
	text, err := cli.ReadFile(name, messageBytesMax)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(name) == ".json" {
		return message.ParseJSONResponse(text)
	}
	return message.ParseXMLResponse(text)
}

// resultText returns what counts in a result, in an order of its own.
func resultText(r *policy.Result) string {
	var parts []string
	for _, d := range r.Obligations {
		parts = append(parts, "obligation "+dutyText(d))
	}
	for _, d := range r.Advice {
		parts = append(parts, "advice "+dutyText(d))
	}
	for _, c := range r.Categories {
		for _, a := range c.Attributes {
			for _, v := range a.Values {
				parts = append(parts, "attribute "+attributeText(c.Name, a.ID, a.Issuer, v))
			}
		}
	}
	for _, p := range r.Policies {
		parts = append(parts, fmt.Sprintf("policy %s %s", p.ID, p.Version))
	}
	slices.Sort(parts)
	head := r.Decision.String()
	if r.Status != nil && r.Status.Code != status.OK {
		head += " (" + lastPartOf(string(r.Status.Code)) + ")"
	}
	return strings.Join(append([]string{head}, parts...), ", ")
}

// attributeText returns an attribute with its value. category and issuer may be
// "".
func attributeText(category, id, issuer string, v value.Value) string {
	text := fmt.Sprintf("%s = %q:%s", id, v.Text(), v.Type())
	if category != "" {
		text += " of " + category
	}
	if issuer != "" {
		text += fmt.Sprintf(" issued by %q", issuer)
	}
	return text
}

func dutyText(d policy.Duty) string {
	arguments := make([]string, len(d.Arguments))
	for i, a := range d.Arguments {
		arguments[i] = attributeText(a.Category, a.ID, a.Issuer, a.Value)
	}
	slices.Sort(arguments)
	return d.ID + " { " + strings.Join(arguments, ", ") + " }"
}

// lastPartOf returns what follows the last colon of an identifier.
func lastPartOf(id string) string { return id[strings.LastIndexByte(id, ':')+1:] }
