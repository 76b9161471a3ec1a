package function

import (
	"github.com/ostiary/ostiary/policy/status"

	"github.com/ostiary/ostiary/internal/tool/turns"
)

// processing returns an error with the status processing-error.
func processing(format string, args ...any) error {
	return status.Errorf(status.ProcessingError, format, args...)
}

// tooMany returns the error of a computation that reached a bound.
func tooMany(bound string, most int) error {
	return status.Reached(status.ProcessingError, bound, most)
}

// long waits for a turn before work that may take longer than 0.1 ms. It returns an
// error if the request's deadline has passed or the client has left.
func (e *Env) long() error {
	if e == nil || e.Context == nil {
		return nil
	}
	err := e.Context.Err()
	if err == nil {
		err = turns.Hold(e.Context)
	}
	if err != nil {
		return processing("the evaluation was stopped: %v", err)
	}
	return nil
}
