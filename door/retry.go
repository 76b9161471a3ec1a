package door

import (
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// RetryAfter is how long a client should wait before it repeats a request that failed
// because of something that passes, such as a store that is loading.
const RetryAfter = time.Second

// SetRetryAfter sets the header Retry-After of a response if its status is 503: the
// request should be repeated.
func SetRetryAfter(h http.Header, status int) {
	if status != http.StatusServiceUnavailable {
		return
	}
	h.Set("Retry-After", strconv.Itoa(int(RetryAfter.Seconds())))
}

// UnavailableStatus returns the gRPC status UNAVAILABLE with the message and with
// a google.rpc.RetryInfo of [RetryAfter].
func UnavailableStatus(message string) *status.Status {
	s := status.New(codes.Unavailable, message)
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(RetryAfter)}); err == nil {
		return detailed
	}
	return s
}
