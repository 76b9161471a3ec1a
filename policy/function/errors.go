package function

import "github.com/ostiary/ostiary/policy/status"

// processing returns an error with the status processing-error.
func processing(format string, args ...any) error {
	return status.Errorf(status.ProcessingError, format, args...)
}

// tooMany returns the error of a computation that reached a bound.
func tooMany(bound string, most int) error {
	return status.Reached(status.ProcessingError, bound, most)
}

// ended returns an error if the request's deadline has passed or the client has
// left.
func (e *Env) ended() error {
	if e == nil || e.Context == nil || e.Context.Err() == nil {
		return nil
	}
	return processing("the evaluation was stopped: %v", e.Context.Err())
}
