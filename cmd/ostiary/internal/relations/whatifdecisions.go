package relations

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/trail/audit"
)

const (
	// decisionLineMax bounds a line of a decision log, in bytes.
	decisionLineMax = 1 << 20
	// decisionsPart and decisionsPartBytes bound the decisions that one request asks again.
	decisionsPart      = 2000
	decisionsPartBytes = 1 << 20
)

// loggedDecision is a line of a decision log, as far as it is asked again.
type loggedDecision struct {
	ID       string          `json:"decision_id"`
	Store    string          `json:"store"`
	Revision string          `json:"revision"`
	Input    json.RawMessage `json:"input"`
	Result   *bool           `json:"result"`
	Erased   []string        `json:"erased"`
}

// side returns the logged result.
func (d *loggedDecision) side() whatIfSide {
	if d.Result == nil {
		return whatIfSide{Truth: "unknown"}
	}
	return whatIfSide{Allowed: *d.Result}
}

// readDecisions calls f with each decision of a store in a decision log: a file, or the
// files of a folder. masked is how many were left out because values are masked, and
// others how many are of other stores.
func readDecisions(name, store string, f func(*loggedDecision) error) (masked, others int, err error) {
	files := []string{name}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if files, err = audit.FolderOf(name, audit.DecisionsName); err != nil {
			return 0, 0, err
		}
	}
	for _, file := range files {
		if err := readDecisionFile(file, func(d *loggedDecision) error {
			switch {
			case d.Input == nil: // it counts lost decisions
			case d.Store != store:
				others++
			case len(d.Erased) > 0:
				masked++
			default:
				return f(d)
			}
			return nil
		}); err != nil {
			return masked, others, err
		}
	}
	return masked, others, nil
}

func readDecisionFile(name string, f func(*loggedDecision) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 64<<10), decisionLineMax)
	for n := 1; lines.Scan(); n++ {
		var d loggedDecision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return fmt.Errorf("%s:%d: expected a line of a decision log: %w", name, n, err)
		}
		if err := f(&d); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%w: %s has a line of more than %d bytes, expected a decision log", cli.ErrUsage, name, decisionLineMax)
	}
	return lines.Err()
}

// askDecisions asks the decisions of a log again. If nothing is proposed, an item has the
// logged result as the one before, and the present one as the one after.
func (f *whatIfFlags) askDecisions(ctx context.Context, a *app, s *found, in *whatIfRequest) (*whatIfResult, error) {
	out := &whatIfResult{Items: []json.RawMessage{}}
	var part []loggedDecision
	bytes := 0
	send := func() error {
		for len(part) > 0 {
			n, err := f.askPart(ctx, s, in, part, out)
			if err != nil {
				return err
			}
			part = part[n:]
		}
		part, bytes = nil, 0
		return nil
	}
	masked, others, err := readDecisions(f.decisions, s.info.ID, func(d *loggedDecision) error {
		if len(part) == decisionsPart || bytes > decisionsPartBytes {
			if err := send(); err != nil {
				return err
			}
		}
		part, bytes = append(part, *d), bytes+len(d.Input)
		return nil
	})
	if err == nil {
		err = send()
	}
	if masked > 0 {
		a.Note("%s left out: values of their input are masked", cli.Plural(masked, "decision"))
	}
	if others > 0 {
		a.Note("%s of other stores left out", cli.Plural(others, "decision"))
	}
	return out, err
}

// askPart asks decisions, and returns how many were asked.
func (f *whatIfFlags) askPart(ctx context.Context, s *found, in *whatIfRequest, part []loggedDecision, out *whatIfResult) (int, error) {
	request := *in
	inputs := make([]json.RawMessage, len(part))
	for i := range part {
		inputs[i] = part[i].Input
	}
	request.Questions = inputs
	if out.Token != "" { // all parts at one revision
		request.At = &client.At{Exactly: out.Token}
	}
	text, err := s.ask(ctx, "/what-if", &request)
	if err != nil {
		return 0, err
	}
	var got whatIfResult
	if err := json.Unmarshal(text, &got); err != nil {
		return 0, fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	if got.Asked == 0 || len(got.Items) != got.Asked {
		return 0, fmt.Errorf("the server has asked none of %s: %s", cli.Plural(len(part), "decision"), got.Partial)
	}
	if out.Token == "" {
		out.Token, out.Revision = got.Token, got.Revision
	}
	for i, raw := range got.Items {
		var item whatIfItem
		if err := json.Unmarshal(raw, &item); err != nil {
			return 0, err
		}
		if in.proposes() {
			out.add(raw, item, f.unchanged)
			continue
		}
		item.Before, item.After = part[i].side(), item.Before
		out.add(raw, item, f.unchanged)
	}
	return got.Asked, nil
}

// proposes reports whether a request has a proposal.
func (in *whatIfRequest) proposes() bool {
	return in.Proposed != nil || len(in.Changes.Add)+len(in.Changes.Remove) > 0
}

// add counts an item, and keeps it if it is to be shown.
func (r *whatIfResult) add(raw json.RawMessage, item whatIfItem, unchanged bool) {
	r.Questions++
	r.Asked++
	before, after := item.Before.String(), item.After.String()
	switch {
	case item.failed():
		r.Failed++
	case before == after:
		if !unchanged {
			return
		}
	case item.After.Allowed:
		r.Gained++
	case item.Before.Allowed:
		r.Lost++
	default:
		r.Other++
	}
	r.Items, r.lines = append(r.Items, raw), append(r.lines, item)
}
