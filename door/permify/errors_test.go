package permify

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
)

// TestBoundsOfTheServer checks that an error of the engine whose cause is a bound
// of the server keeps the bound's name, and that a store that is loading stays
// an error after which clients repeat the request.
func TestBoundsOfTheServer(t *testing.T) {
	t.Parallel()
	late := &door.Refusal{Reason: door.TimedOut, Bound: "RequestTimeout", Time: 3 * time.Second}
	for _, c := range []struct {
		err    error
		code   codes.Code
		status int
		text   string
	}{
		{&authz.Error{Op: "check", Kind: authz.ErrCanceled, Err: late}, codes.DeadlineExceeded, 504, "the request took too long: the bound RequestTimeout is 3s"},
		{late, codes.DeadlineExceeded, 504, "the request took too long: the bound RequestTimeout is 3s"},
		{&door.Refusal{Reason: door.TooMany, Bound: "UnsentBytesTotal", Limit: 5}, codes.ResourceExhausted, 429, "the server has too many requests: the bound UnsentBytesTotal is 5"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, 504, "the request took too long"},
		{&authz.Error{Op: "check", Kind: authz.ErrLoading, Err: late}, codes.Unavailable, 503, ""},
		{&authz.Error{Op: "check", Kind: authz.ErrFuture}, codes.Unavailable, 503, ""},
		{&authz.Error{Op: "check", Kind: authz.ErrClosed}, codes.Unavailable, 503, ""},
	} {
		var f *failure
		if !errors.As(translateError(c.err), &f) || f.code != c.code || httpStatus(f.code) != c.status || !strings.Contains(f.message, c.text) {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
}
