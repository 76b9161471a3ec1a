// Package client is a Go client of Ostiary's native API, /ostiary/v1. Its main type
// is [Client], which sends requests to a server, or with [Handler] to the native door
// on an engine in the same process, without a network. [Store] has the requests about
// one store. The requests and responses have the members of the API, which
// openapi.json of package native describes; objects and subjects are texts such as
// "document:1" and "group:eng#member". The package never decides anything, and never
// sends a request twice.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/ostiary/ostiary/door"
)

// responseBytesMax bounds a response that is read into memory, in bytes. Streams have
// no such bound.
const responseBytesMax = 64 << 20

// errorBytesMax bounds an error response, in bytes.
const errorBytesMax = 1 << 20

// prefix is the start of the paths of the native API.
const prefix = "/ostiary/v1"

// Options are the settings of a [Client]. The zero value is useful.
type Options struct {
	// Transport sends the requests. The default is [http.DefaultTransport].
	Transport http.RoundTripper
	// Explain, if set, is called with each error response before the caller gets it. It
	// may set Text and Kind.
	Explain func(*Error)
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	base    string
	http    http.Client
	explain func(*Error)
}

// New returns a client of the server with this URL, for example
// "http://127.0.0.1:8080". It sends no request. Credentials are the transport's task.
func New(base string, o Options) *Client {
	return &Client{strings.TrimRight(base, "/"), http.Client{Transport: o.Transport}, o.Explain}
}

// Base returns the URL of the server.
func (c *Client) Base() string { return c.base }

// Error is an error response. [errors.Is] finds the kind of the engine's error, for
// example authz.ErrTupleExists.
type Error struct {
	// Status is the HTTP status; 0 for an error in a stream.
	Status int `json:"-"`
	// Code is for machines; "" if the response has no error of the native API.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Read is the number of tuples that a failed import has stored, and Tuple the number
	// of the tuple that is wrong, from 1; 0 if it is not known.
	Read  int `json:"read"`
	Tuple int `json:"tuple"`
	// Kind is the kind of the engine's error; nil if it is not known.
	Kind error `json:"-"`
	// Text replaces Message as the text of the error, unless it is "".
	Text string `json:"-"`
	// Header and Body are those of the response; nil for an error in a stream.
	Header http.Header `json:"-"`
	Body   []byte      `json:"-"`
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Text != "":
		return e.Text
	case e.Message != "":
		return e.Message
	}
	return fmt.Sprintf("the server responded with status %d", e.Status)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// IsForeign reports whether err is the response of a server without the native API to
// a request for it.
func IsForeign(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && (e.Code == "" || e.Code == "undefined_endpoint" || e.Code == "error")
}

// errorOf reads an error response. Its body is the error itself or, where a gateway
// begins a stream, an object with the error in the member "error".
func (c *Client) errorOf(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, Header: resp.Header}
	if text, err := io.ReadAll(io.LimitReader(resp.Body, errorBytesMax)); err == nil {
		e.Body = text
		if json.Unmarshal(text, e) != nil {
			*e = Error{Status: e.Status, Header: e.Header, Body: text}
		}
		var stream struct {
			Error struct{ Message string }
		}
		if e.Code == "" && json.Unmarshal(text, &stream) == nil && stream.Error.Message != "" {
			e.Code, e.Message = "error", stream.Error.Message
		}
	}
	e.Kind = door.ErrorOf(e.Code)
	if c.explain != nil {
		c.explain(e)
	}
	return e
}

// lines is a request body that is sent as it is: lines of JSON.
type lines struct{ io.Reader }

// Open sends a request and returns the response, whose body the caller closes. The
// path begins with a slash. in is the JSON of the body; nil means none. A response with
// a status of 300 or more is an [*Error].
func (c *Client) Open(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	contentType := "application/json"
	if stream, ok := in.(lines); ok {
		body, contentType = stream, "application/x-ndjson"
	} else if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err // a text without the path, which no user has typed
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.errorOf(resp)
}

// Call sends a request and decodes the response into out, unless out is nil. It
// returns the header of the response.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	resp, err := c.Open(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, responseBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > responseBytesMax {
		return nil, fmt.Errorf("%s: the response is larger than %d bytes", path, responseBytesMax)
	}
	switch out := out.(type) {
	case nil:
		return resp.Header, nil
	case *json.RawMessage:
		*out = bytes.TrimSpace(text)
		return resp.Header, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("%s: the response is not valid: %w", path, err)
	}
	return resp.Header, nil
}

// Serves reports whether the server has the native API, whose description is public.
func (c *Client) Serves(ctx context.Context) (bool, error) {
	var described struct{ Paths map[string]json.RawMessage }
	_, err := c.Call(ctx, http.MethodGet, prefix+"/openapi.json", nil, &described)
	if _, refused := errors.AsType[*Error](err); refused {
		return false, nil
	}
	_, stores := described.Paths[prefix+"/stores"]
	return stores, err
}
