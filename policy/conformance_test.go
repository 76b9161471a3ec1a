package policy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
)

// TestConformance plays the conformance data of XACML 3.0: each request as XML,
// and translated to JSON. A case without a response must be rejected: its
// policies, or its request if the folder has a Policy.xml.ignore.
func TestConformance(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("OSTIARY_XACML_CONFORMANCE")
	if folder == "" {
		folder = "../../shared/xacml-conformance"
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Skipf("no conformance data: set OSTIARY_XACML_CONFORMANCE to their folder (%v)", err)
	}
	passed, all, rejected := 0, 0, 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		all++
		c := conformanceCase{os.DirFS(filepath.Join(folder, e.Name()))}
		was, err := c.play(t)
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		if passed++; was {
			rejected++
		}
	}
	t.Logf("%d of %d cases passed, %d of them by a rejection", passed, all, rejected)
	if all == 0 {
		t.Error("the folder has no cases")
	}
}

// conformanceCase is the folder of one case.
type conformanceCase struct{ fs.FS }

func (c conformanceCase) has(name string) bool {
	_, err := fs.Stat(c, name)
	return err == nil
}

// play returns whether the case was rejected as expected, or in what it differs
// from what is expected.
func (c conformanceCase) play(t *testing.T) (rejected bool, err error) {
	if !c.has("Response.xml") && c.has("Policy.xml.ignore") {
		return true, c.expectRejected(c.request())
	}
	plan, err := c.plan()
	if !c.has("Response.xml") {
		return true, c.expectRejected(err)
	}
	if err != nil {
		return false, fmt.Errorf("the policies are rejected: %w", err)
	}
	text, err := fs.ReadFile(c, "Response.xml")
	if err != nil {
		return false, err
	}
	expected, err := message.ParseXMLResponse(text)
	if err != nil {
		return false, err
	}
	return false, c.decide(t, plan, expected)
}

func (c conformanceCase) expectRejected(err error) error {
	if err == nil {
		return errors.New("accepted: expected a rejection")
	}
	return nil
}

// request reads the request.
func (c conformanceCase) request() error {
	text, err := fs.ReadFile(c, "Request.xml")
	if err == nil {
		_, err = message.ReadXML(text)
	}
	return err
}

// plan compiles the policies: Policy.xml, or the folder with the root and the
// library.
func (c conformanceCase) plan() (*policy.Plan, error) {
	files, err := fs.Glob(c, "[Pp]olicies/*.xml")
	if err != nil || len(files) == 0 {
		files = []string{"Policy.xml"}
	}
	var root policy.Element
	var library []policy.Element
	for _, file := range files {
		text, err := fs.ReadFile(c, file)
		if err != nil {
			return nil, err
		}
		e, err := language.ParseXML(context.Background(), text, file)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(file, "Policy.xml") {
			root = e
		} else {
			library = append(library, e)
		}
	}
	return policy.Compile(context.Background(), root, library, policy.CompileOptions{})
}

// decide asks for the decision in XML and in JSON.
func (c conformanceCase) decide(t *testing.T, plan *policy.Plan, expected []policy.Result) error {
	text, err := fs.ReadFile(c, "Request.xml")
	if err != nil {
		return err
	}
	fromXML, err := message.ReadXML(text)
	if err != nil {
		return fmt.Errorf("the request is refused: %w", err)
	}
	fromJSON, err := message.ReadJSON(message.PrintJSONRequest(fromXML))
	if err != nil {
		return fmt.Errorf("the request in JSON is refused: %w\n%s", err, message.PrintJSONRequest(fromXML))
	}
	options := policy.Options{Now: time.Now}
	xml, err := message.ParseXMLResponse(message.WriteXML(plan.Decide(t.Context(), fromXML, options)))
	if err != nil {
		return err
	}
	json, err := message.ParseJSONResponse(message.WriteJSON(plan.Decide(t.Context(), fromJSON, options)))
	if err != nil {
		return err
	}
	for form, got := range map[string][]policy.Result{"XML": xml, "JSON": json} {
		if d := policy.Differences(expected, got); len(d) > 0 {
			return fmt.Errorf("in %s:\n%s", form, strings.Join(d, "\n"))
		}
	}
	return nil
}
