package pdp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// The issuers of the attributes that come from the history of operations. The
// first one is followed by a number and a unit, "tw:10:minute", and the second
// one by the name of a control loop.
const (
	issuerGuard   = onap + "xacml:guard:"
	issuerCount   = issuerGuard + "count-recent-operations:"
	issuerOutcome = issuerGuard + "get-operation-outcome:clname:"
	windowMark    = "tw:"
)

// The outcomes that a coordination guard compares.
const (
	inProgress = "In_Progress"
	complete   = "Complete"
	started    = "Started" // outcome of a running operation in the history
)

// windowMax bounds the number of units of a time window.
const windowMax = 1_000_000

// units are the units of time windows.
var units = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// windowIssuer returns the issuer of the number of operations in a time window.
func windowIssuer(window value.Value, unit string) (string, error) {
	n, ok := window.Int64()
	if !ok || n <= 0 || n > windowMax {
		return "", fmt.Errorf("invalid property timeWindow %.80s: expected a number from 1 to %d", window.Text(), windowMax)
	}
	if unit = strings.ToLower(unit); !slices.Contains(units, unit) {
		return "", fmt.Errorf("invalid property timeUnits %.80q: expected %s", unit, strings.Join(units, ", "))
	}
	begin := windowBegin(time.Now(), int(n), unit)
	if time.Since(begin) > historyKept {
		return "", fmt.Errorf("invalid time window of %d %ss: operations are kept for %d days", n, unit, historyKept/(24*time.Hour))
	}
	return issuerCount + windowMark + strconv.FormatInt(n, 10) + ":" + unit, nil
}

// historyKept is the longest time window. The history keeps operations longer.
const historyKept = 367 * 24 * time.Hour

// windowBegin returns the beginning of a time window.
func windowBegin(now time.Time, n int, unit string) time.Time {
	switch unit {
	case "second":
		return now.Add(-time.Duration(n) * time.Second)
	case "minute":
		return now.Add(-time.Duration(n) * time.Minute)
	case "hour":
		return now.Add(-time.Duration(n) * time.Hour)
	case "day":
		return now.AddDate(0, 0, -n)
	case "week":
		return now.AddDate(0, 0, -7*n)
	case "month":
		return now.AddDate(0, -n, 0)
	}
	return now.AddDate(-n, 0, 0)
}

// History finds operations that were performed.
type History interface {
	// Count returns the number of operations of an actor on a target that ended
	// from one time to another, both inclusive.
	Count(ctx context.Context, actor, operation, target string, from, to time.Time) (int, error)
	// Outcome returns the outcome of the latest operation of a control loop, or "".
	Outcome(ctx context.Context, loop string) (string, error)
}

// source is the source of the attributes that come from the history.
type source struct {
	*Inputs
	// err is the first error of a query.
	err error
}

// Attribute implements [policy.AttributeSource].
func (s *source) Attribute(ctx context.Context, d *policy.Designator, r *policy.Request) ([]value.Value, error) {
	if !strings.HasPrefix(d.Issuer, issuerGuard) || d.Category != policy.CategoryResource {
		return nil, nil
	}
	switch {
	case d.ID == attributeOperationCount && d.Type == value.Integer:
		return s.count(ctx, d.Issuer, r)
	case d.ID == attributeOutcome && d.Type == value.String && strings.HasPrefix(d.Issuer, issuerOutcome):
		return s.outcome(ctx, d.Issuer[len(issuerOutcome):])
	}
	return nil, nil
}

// count returns the number of operations in the window of an issuer, or nothing
// if the request has no actor, operation or target.
func (s *source) count(ctx context.Context, issuer string, r *policy.Request) ([]value.Value, error) {
	_, window, _ := strings.Cut(issuer, windowMark)
	number, unit, _ := strings.Cut(window, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 || n > windowMax || !slices.Contains(units, unit) {
		return nil, &status.Error{Code: status.ProcessingError, Message: fmt.Sprintf("invalid time window in the issuer %.120q: expected for example tw:10:minute", issuer)}
	}
	actor, operation, target := text(r, attributeActor), text(r, attributeOperation), text(r, attributeGuardTarget)
	if actor == "" || operation == "" || target == "" {
		return nil, nil
	}
	now := s.Now()
	count, err := s.History.Count(ctx, actor, operation, target, windowBegin(now, n, unit), now)
	if err != nil {
		if s.fail(err); s.FailOpen {
			return []value.Value{value.NewInteger(-1)}, nil
		}
		return nil, s.failure()
	}
	return []value.Value{value.NewInteger(int64(count))}, nil
}

// outcome returns whether the latest operation of a control loop is in progress,
// or nothing if the loop has no operation.
func (s *source) outcome(ctx context.Context, loop string) ([]value.Value, error) {
	outcome, err := s.History.Outcome(ctx, loop)
	switch {
	case err != nil:
		if s.fail(err); s.FailOpen {
			return nil, nil
		}
		return nil, s.failure()
	case outcome == "":
		return nil, nil
	case strings.EqualFold(outcome, started):
		return []value.Value{value.NewString(inProgress)}, nil
	}
	return []value.Value{value.NewString(complete)}, nil
}

// fail records the first error.
func (s *source) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// failure returns the status of a query that failed.
func (s *source) failure() error {
	return &status.Error{Code: status.ProcessingError, Message: "the history of operations cannot be read"}
}

// text returns the first value of an attribute of the resource, or "".
func text(r *policy.Request, id string) string {
	for i := range r.Categories {
		if r.Categories[i].Name != policy.CategoryResource {
			continue
		}
		for _, a := range r.Categories[i].Attributes {
			if a.ID == id && len(a.Values) > 0 {
				return a.Values[0].Text()
			}
		}
	}
	return ""
}
