package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// HTTP is a [Target] that speaks OpenFGA's HTTP API. Each client has one
// persistent connection.
type HTTP struct {
	base  *url.URL
	token string
	conns conns  // of the measured requests
	store string // the store's id
	model string // the model's id
	// attached is true if the store existed before and must not be removed.
	attached bool
}

// NewHTTP returns a target for the server at base ("http://127.0.0.1:8080").
// token, if not empty, is sent as the bearer token. NewHTTP returns an error if
// base has another form.
func NewHTTP(base, token string) (*HTTP, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("bench: invalid address %q: expected http://host:port", base)
	}
	return &HTTP{base: u, token: token, conns: conns{address: u.Host}}, nil
}

// Attach makes the target use the store that [Fill] created in the server's
// folder before the server started. Setup and Teardown then do nothing. Attach
// waits while the server loads the store, 10 minutes at most. It returns an error
// unless the server has exactly one such store, with a model.
func (t *HTTP) Attach(ctx context.Context) error {
	var stores struct {
		Stores []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"stores"`
	}
	if err := t.call(ctx, http.MethodGet, "/stores?name="+storeName, nil, &stores); err != nil {
		return err
	}
	if len(stores.Stores) != 1 || stores.Stores[0].Name != storeName {
		return fmt.Errorf("bench: %s has %d stores named %q, expected one", t.base, len(stores.Stores), storeName)
	}
	t.store = stores.Stores[0].ID
	var models struct {
		Models []struct {
			ID string `json:"id"`
		} `json:"authorization_models"`
	}
	loading, cancel := context.WithTimeout(ctx, loadMax)
	defer cancel()
	for {
		err := t.call(ctx, http.MethodGet, t.path("authorization-models"), nil, &models)
		if err == nil {
			break
		}
		if !errors.Is(err, errUnavailable) {
			return err
		}
		select {
		case <-loading.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
	if len(models.Models) == 0 {
		return fmt.Errorf("bench: store %s of %s has no model", t.store, t.base)
	}
	t.model, t.attached = models.Models[0].ID, true
	return nil
}

// loadMax is how long a server may take to load the store.
const loadMax = 10 * time.Minute

// errUnavailable means that the server answered 503, for example because it loads the store.
var errUnavailable = errors.New("unavailable")

// Door returns "http".
func (*HTTP) Door() string { return "http" }

// writeMax is the number of tuples that OpenFGA accepts in one write.
const writeMax = 100

// Setup creates a store with the model and the tuples. It writes a hundred tuples
// per request, the most that OpenFGA accepts, with four requests in flight.
func (t *HTTP) Setup(ctx context.Context, model string, tuples Tuples, progress func(int)) error {
	if t.attached {
		return nil
	}
	m, _, err := language.ParseDSL([]byte(model))
	if err != nil {
		return err
	}
	text, err := language.FormatJSON(m)
	if err != nil {
		return err
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := t.call(ctx, http.MethodPost, "/stores", map[string]any{"name": storeName}, &made); err != nil {
		return err
	}
	t.store = made.ID
	var written struct {
		ID string `json:"authorization_model_id"`
	}
	if err := t.call(ctx, http.MethodPost, t.path("authorization-models"), json.RawMessage(text), &written); err != nil {
		return err
	}
	t.model = written.ID
	return writeChunks(ctx, tuples, progress, func(ctx context.Context, chunk []rel.Tuple) error {
		return t.call(ctx, http.MethodPost, t.path("write"), t.write(chunk, nil), nil)
	})
}

func (t *HTTP) path(call string) string { return "/stores/" + t.store + "/" + call }

// call sends a request that is not measured, and decodes the response into
// answer unless that is nil.
func (t *HTTP) call(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(t.base.String(), "/")+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(response.Body); err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		err := fmt.Errorf("bench: %s %s: %s: %.300s", method, path, response.Status, got.String())
		if response.StatusCode == http.StatusServiceUnavailable {
			err = fmt.Errorf("%w: %w", errUnavailable, err)
		}
		return err
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(got.Bytes(), answer); err != nil {
		return fmt.Errorf("bench: %s %s: unexpected response, is this an OpenFGA server? %w", method, path, err)
	}
	return nil
}

// Prepare encodes the whole request, headers and body.
func (t *HTTP) Prepare(r Request) (Prepared, error) {
	p := &httpRequest{conns: &t.conns}
	var call string
	var body map[string]any
	switch {
	case r.Check != nil:
		call, body = "check", t.check(r.Check)
		body["authorization_model_id"] = t.model
		p.want, p.count = []byte(`"allowed":`+strconv.FormatBool(r.Check.Allowed)), 1
	case r.Batch != nil:
		var checks []any
		for i := range r.Batch {
			c := t.check(&r.Batch[i])
			c["correlation_id"] = strconv.Itoa(i)
			checks = append(checks, c)
		}
		call, body = "batch-check", map[string]any{"checks": checks, "authorization_model_id": t.model}
		p.want, p.count = []byte(`"allowed":true`), allowedOf(r.Batch)
	case r.List != nil:
		l := r.List
		call, body = "list-objects", map[string]any{"type": l.Type, "relation": l.Relation, "user": l.Subject.String(), "authorization_model_id": t.model}
		if l.Tuples != nil {
			body["contextual_tuples"] = map[string]any{"tuple_keys": keysOf(l.Tuples)}
		}
		p.want, p.count = []byte(`"`+l.Type+`:`), l.Count
	default:
		call, body = "write", t.write(r.Write, r.Remove)
		p.count = -1
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	p.bytes = t.encode(t.path(call), text)
	return p, nil
}

func (t *HTTP) check(c *Check) map[string]any {
	body := map[string]any{"tuple_key": map[string]string{"user": c.Subject.String(), "relation": c.Relation, "object": c.Object.String()}}
	if c.Tuples != nil {
		body["contextual_tuples"] = map[string]any{"tuple_keys": keysOf(c.Tuples)}
	}
	if c.Context != nil {
		body["context"] = c.Context
	}
	return body
}

func (t *HTTP) write(add, remove []rel.Tuple) map[string]any {
	body := map[string]any{"authorization_model_id": t.model}
	if add != nil {
		body["writes"] = map[string]any{"tuple_keys": keysOf(add)}
	}
	if remove != nil {
		var keys []any
		for i := range remove {
			keys = append(keys, map[string]string{"user": remove[i].Subject.String(), "relation": remove[i].Relation, "object": remove[i].Object.String()})
		}
		body["deletes"] = map[string]any{"tuple_keys": keys}
	}
	return body
}

func keysOf(tuples []rel.Tuple) []any {
	keys := make([]any, 0, len(tuples))
	for i := range tuples {
		t := &tuples[i]
		key := map[string]any{"user": t.Subject.String(), "relation": t.Relation, "object": t.Object.String()}
		if t.Condition != "" {
			condition := map[string]any{"name": t.Condition}
			if t.Context != "" {
				condition["context"] = json.RawMessage(t.Context)
			}
			key["condition"] = condition
		}
		keys = append(keys, key)
	}
	return keys
}

// encode returns the bytes of a POST request.
func (t *HTTP) encode(path string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, t.base.Host, len(body))
	if t.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", t.token)
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// Teardown deletes the store.
func (t *HTTP) Teardown(ctx context.Context) error {
	if t.store == "" || t.attached {
		return nil
	}
	return t.call(ctx, http.MethodDelete, "/stores/"+t.store, nil, nil)
}

// Close closes all connections.
func (t *HTTP) Close() error {
	t.conns.close()
	return nil
}

// httpRequest is an encoded request with its expected answer.
type httpRequest struct {
	conns *conns
	bytes []byte
	want  []byte // text that the response body must contain count times
	count int    // negative: any body is correct
}

func (p *httpRequest) Send(ctx context.Context, client int) error {
	status, body, err := p.conns.of(client).do(ctx, p.bytes)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return &Failure{What: statusOf(status, body)}
	}
	if p.count < 0 {
		return nil
	}
	return correct(occurrences(body, p.want) == p.count)
}

// statusOf returns the name of a failure: the status, and the code in the body
// if it has one.
func statusOf(status int, body []byte) string {
	var e struct {
		Code any `json:"code"`
	}
	s := "status " + strconv.Itoa(status)
	if json.Unmarshal(body, &e) == nil && e.Code != nil {
		s += " " + fmt.Sprint(e.Code)
	}
	return s
}

// occurrences returns how often body contains want. If want contains "key":value,
// it also counts the form with a space after the colon.
func occurrences(body, want []byte) int {
	n := bytes.Count(body, want)
	if i := bytes.Index(want, []byte(`":`)); n == 0 && i >= 0 && i+2 < len(want) {
		spaced := append(append(bytes.Clone(want[:i+2]), ' '), want[i+2:]...)
		n = bytes.Count(body, spaced)
	}
	return n
}
