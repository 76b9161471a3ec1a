// Package overhttp makes the calls of OpenFGA's own suites over HTTP, to a running
// server. Its main type is [Client]. It checks the form of the responses and
// keeps nothing.
package overhttp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Client makes calls to a server. It is safe for concurrent use.
type Client struct {
	base string
}

// New returns a client of the server at a base address, "http://host:port".
func New(base string) *Client { return &Client{base} }

// CreateStore makes the call of that name.
func (c *Client) CreateStore(ctx context.Context, in *openfgav1.CreateStoreRequest, _ ...grpc.CallOption) (*openfgav1.CreateStoreResponse, error) {
	out := &openfgav1.CreateStoreResponse{}
	return out, c.call(ctx, "/stores", in, http.StatusCreated, out)
}

// WriteAuthorizationModel makes the call of that name.
func (c *Client) WriteAuthorizationModel(ctx context.Context, in *openfgav1.WriteAuthorizationModelRequest, _ ...grpc.CallOption) (*openfgav1.WriteAuthorizationModelResponse, error) {
	out := &openfgav1.WriteAuthorizationModelResponse{}
	return out, c.call(ctx, "/stores/"+in.GetStoreId()+"/authorization-models", in, http.StatusCreated, out)
}

// Write makes the call of that name.
func (c *Client) Write(ctx context.Context, in *openfgav1.WriteRequest, _ ...grpc.CallOption) (*openfgav1.WriteResponse, error) {
	out := &openfgav1.WriteResponse{}
	return out, c.call(ctx, "/stores/"+in.GetStoreId()+"/write", in, http.StatusOK, out)
}

// Check makes the call of that name.
func (c *Client) Check(ctx context.Context, in *openfgav1.CheckRequest, _ ...grpc.CallOption) (*openfgav1.CheckResponse, error) {
	out := &openfgav1.CheckResponse{}
	return out, c.call(ctx, "/stores/"+in.GetStoreId()+"/check", in, http.StatusOK, out)
}

// BatchCheck makes the call of that name.
func (c *Client) BatchCheck(ctx context.Context, in *openfgav1.BatchCheckRequest, _ ...grpc.CallOption) (*openfgav1.BatchCheckResponse, error) {
	out := &openfgav1.BatchCheckResponse{}
	return out, c.call(ctx, "/stores/"+in.GetStoreId()+"/batch-check", in, http.StatusOK, out)
}

// ListUsers makes the call of that name.
func (c *Client) ListUsers(ctx context.Context, in *openfgav1.ListUsersRequest, _ ...grpc.CallOption) (*openfgav1.ListUsersResponse, error) {
	out := &openfgav1.ListUsersResponse{}
	return out, c.call(ctx, "/stores/"+in.GetStoreId()+"/list-users", in, http.StatusOK, out)
}

// ListObjects makes the call of that name.
func (c *Client) ListObjects(ctx context.Context, in *openfgav1.ListObjectsRequest, _ ...grpc.CallOption) (*openfgav1.ListObjectsResponse, error) {
	out := &openfgav1.ListObjectsResponse{}
	return out, c.call(ctx, "/stores/"+in.GetStoreId()+"/list-objects", in, http.StatusOK, out)
}

// call posts a message and reads the response. The response must have the
// expected status and, as OpenFGA's do, every field of its message.
func (c *Client) call(ctx context.Context, path string, in proto.Message, expected int, out proto.Message) error {
	res, err := c.post(ctx, path, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != expected {
		return protocolError(res.StatusCode, body)
	}
	if err := protojson.Unmarshal(body, out); err != nil {
		return fmt.Errorf("response %s: %w", body, err)
	}
	return complete(body, out)
}

func (c *Client) post(ctx context.Context, path string, in proto.Message) (*http.Response, error) {
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// complete compares a response with the JSON that OpenFGA's gateway writes for the
// message. Names and defaults count, blanks and order do not.
func complete(body []byte, m proto.Message) error {
	theirs, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	a, err := canonical(body)
	if err != nil {
		return err
	}
	b, err := canonical(theirs)
	if err != nil {
		return err
	}
	if a != b {
		return fmt.Errorf("the response %s should be %s", a, b)
	}
	return nil
}

func canonical(body []byte) (string, error) {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	return string(out), err
}

// protocolError reads the body of an error, which has a code's name and a text.
func protocolError(httpStatus int, body []byte) error {
	var e struct{ Code, Message string }
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return fmt.Errorf("HTTP %d: %s", httpStatus, body)
	}
	for _, family := range []struct {
		values map[string]int32
		http   int
	}{
		{openfgav1.ErrorCode_value, http.StatusBadRequest},
		{openfgav1.AuthErrorCode_value, http.StatusUnauthorized},
		{openfgav1.UnprocessableContentErrorCode_value, http.StatusUnprocessableEntity},
		{openfgav1.InternalErrorCode_value, http.StatusInternalServerError},
		{openfgav1.NotFoundErrorCode_value, http.StatusNotFound},
	} {
		if number, ok := family.values[e.Code]; ok && number != 0 {
			if family.http != httpStatus {
				return fmt.Errorf("HTTP %d with code %s, expected HTTP %d", httpStatus, e.Code, family.http)
			}
			return status.Error(codes.Code(number), e.Message)
		}
	}
	if httpStatus == http.StatusConflict {
		return status.Error(codes.Aborted, e.Message)
	}
	return fmt.Errorf("HTTP %d with unknown code: %s", httpStatus, body)
}

// StreamedListObjects makes the call of that name.
//
// Over HTTP the error of a stream has no code. The stream then returns the error of
// the unary call, which must have the same text.
func (c *Client) StreamedListObjects(ctx context.Context, in *openfgav1.StreamedListObjectsRequest, _ ...grpc.CallOption) (openfgav1.OpenFGAService_StreamedListObjectsClient, error) {
	res, err := c.post(ctx, "/stores/"+in.GetStoreId()+"/streamed-list-objects", in)
	if err != nil {
		return nil, err
	}
	return &stream{ctx: ctx, client: c, in: in, res: res, lines: bufio.NewReader(res.Body)}, nil
}

// stream is the response of StreamedListObjects. It has only those methods of
// grpc.ClientStream that the suites call.
type stream struct {
	grpc.ClientStream
	ctx    context.Context
	client *Client
	in     *openfgav1.StreamedListObjectsRequest
	res    *http.Response
	lines  *bufio.Reader
}

// Recv returns the next object, io.EOF at the end.
func (s *stream) Recv() (*openfgav1.StreamedListObjectsResponse, error) {
	line, err := s.lines.ReadBytes('\n')
	if err != nil && (err != io.EOF || len(line) == 0) {
		_ = s.res.Body.Close()
		return nil, err
	}
	var element struct {
		Result json.RawMessage
		Error  *struct {
			Code    int
			Message string
			Details []any
		}
	}
	if err := json.Unmarshal(line, &element); err != nil {
		return nil, fmt.Errorf("line %q: %w", line, err)
	}
	switch {
	case element.Error != nil:
		return nil, s.unaryError(element.Error.Code, element.Error.Message)
	case s.res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d: %s", s.res.StatusCode, line)
	}
	out := &openfgav1.StreamedListObjectsResponse{}
	if err := protojson.Unmarshal(element.Result, out); err != nil {
		return nil, fmt.Errorf("line %q: %w", line, err)
	}
	return out, nil
}

// unaryError returns the error of the unary call.
func (s *stream) unaryError(code int, text string) error {
	_, err := s.client.ListObjects(s.ctx, &openfgav1.ListObjectsRequest{
		StoreId: s.in.GetStoreId(), AuthorizationModelId: s.in.GetAuthorizationModelId(),
		Type: s.in.GetType(), Relation: s.in.GetRelation(), User: s.in.GetUser(),
		ContextualTuples: s.in.GetContextualTuples(), Context: s.in.GetContext(), Consistency: s.in.GetConsistency(),
	})
	unary, ok := status.FromError(err)
	if !ok || err == nil || unary.Message() != text {
		return fmt.Errorf("the stream's error is %d %q, the unary call's %v", code, text, err)
	}
	return err
}
