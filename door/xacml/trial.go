package xacml

import (
	"net/http"
	"strconv"

	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
)

// trial is a request and the response that it must get.
type trial struct {
	name              string
	request, expected []byte
	requestForm       form
	responseForm      form
}

// trialsMax is the largest number of tests of one request.
const trialsMax = 10_000

// trialResult is the outcome of a test.
type trialResult struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Differences are how the response differs from the expected one, or why the
	// test could not run.
	Differences []string `json:"differences,omitempty"`
}

// test serves POST test: it decides requests and compares the responses with
// expected ones. A change is tried without making it.
func (c *call) test() error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	change, trials, err := readTrials(body)
	if err != nil {
		return err
	}
	var pinned *domain.Pinned
	if change != nil {
		pinned, err = c.domain.Preview(c.Context(), *change)
	} else {
		pinned, err = c.domain.Pin(c.Context(), domain.PinOptions{})
	}
	if err != nil {
		return err
	}
	out := struct {
		Passed int           `json:"passed"`
		Failed int           `json:"failed"`
		Tests  []trialResult `json:"tests"`
	}{Tests: []trialResult{}}
	for i := range trials {
		if err := c.Context().Err(); err != nil {
			return err
		}
		result := trials[i].run(c, pinned)
		if result.Passed {
			out.Passed++
		} else {
			out.Failed++
		}
		out.Tests = append(out.Tests, result)
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}

// readTrials reads the tests of a request, and the change to try; nil if there is
// none.
func readTrials(body []byte) (change *domain.Change, trials []trial, err error) {
	r := jsonread.New(body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "change":
			one := readChange(r)
			change = &one
		case "tests":
			for r.Array(); r.Item(); {
				if len(trials) == trialsMax {
					r.FailBound("tests", trialsMax)
					break
				}
				trials = append(trials, readTrial(r))
			}
		default:
			r.Unknown()
		}
	}
	return change, trials, r.End()
}

// readTrial reads a test. Its request and its response are strings with XML, or
// JSON objects of the JSON profile.
func readTrial(r *jsonread.Reader) (t trial) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "name":
			t.name = r.String()
		case "request":
			t.request, t.requestForm = readMessage(r)
		case "response":
			t.expected, t.responseForm = readMessage(r)
		default:
			r.Unknown()
		}
	}
	if t.request == nil || t.expected == nil {
		r.Fail("a test has no request or no response")
	}
	return t
}

// readMessage reads a message: a string with XML, or a JSON object.
func readMessage(r *jsonread.Reader) ([]byte, form) {
	if r.Kind() == '"' {
		return []byte(r.String()), formXML
	}
	return append([]byte{}, r.Raw()...), formJSON
}

// run decides the request of a test.
func (t *trial) run(c *call, pinned *domain.Pinned) trialResult {
	out := trialResult{Name: t.name}
	got, err := t.decide(c, pinned)
	if err != nil {
		out.Differences = []string{describe(err).Message}
		return out
	}
	var want []policy.Result
	if t.responseForm == formXML {
		want, err = message.ParseXMLResponse(t.expected)
	} else {
		want, err = message.ParseJSONResponse(t.expected)
	}
	if err != nil {
		out.Differences = []string{"the expected response is malformed: " + err.Error()}
		return out
	}
	out.Differences = policy.Differences(want, got)
	if len(out.Differences) > differencesMax {
		more := len(out.Differences) - differencesMax
		out.Differences = append(out.Differences[:differencesMax], strconv.Itoa(more)+" more differences")
	}
	out.Passed = len(out.Differences) == 0
	return out
}

// differencesMax is the largest number of differences that a test reports.
const differencesMax = 20

func (t *trial) decide(c *call, pinned *domain.Pinned) ([]policy.Result, error) {
	request, err := readRequest(t.requestForm, t.request)
	if err != nil {
		return nil, err
	}
	return pinned.Decide(c.Context(), request, nil)
}
