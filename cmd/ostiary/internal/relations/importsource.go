package relations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// moveSource is a server that an import copies stores from.
type moveSource interface {
	// url returns the URL of the server.
	url() string
	// allow sets how long the server may send no byte of a response.
	allow(silence time.Duration)
	// chosen returns the stores with these names or ids, or all stores.
	chosen(ctx context.Context, names []string) ([]client.StoreInfo, error)
	// ask sends a request that needs a caller if the server requires authentication.
	ask(ctx context.Context, c *client.Client) error
	// hides reports whether the server may have stores that the client may not see, besides
	// these.
	hides(ctx context.Context, stores []client.StoreInfo) bool
	// models returns the models of a store, oldest first: those at a token, or all for
	// the token "".
	models(ctx context.Context, store, token string) ([]authz.SchemaSource, error)
	// assertions returns the number of a model's assertions, and the response of
	// OpenFGA's API that has them.
	assertions(ctx context.Context, store, model string) (n int, body []byte, err error)
	// tuples returns the page of tuples at a position; "" is the first one.
	tuples(ctx context.Context, store, position string) (movedPage, error)
}

// movedPage is a page of tuples, and the position of the next page, "" after the
// last one.
type movedPage struct {
	rows []movedRow
	next string
}

// movedRow is a tuple, or the error of a tuple with a name.
type movedRow struct {
	tuple rel.Tuple
	name  string
	err   error
}

// newSource returns the source at a server, which may send no byte of a response for
// the time silence.
func newSource(ctx context.Context, at *cli.Server, silence time.Duration) (moveSource, error) {
	transport := &patientTransport{silence: silence}
	c, err := at.Client(func(next http.RoundTripper) http.RoundTripper {
		transport.base = next
		return transport
	})
	if err != nil {
		return nil, err
	}
	native, err := c.Serves(ctx)
	source := openFGASource{server{c, !native}, transport}
	if native {
		return &ostiarySource{source}, err
	}
	return &source, err
}

// ownedBy returns the reason why a store with the records of a door is not copied.
func ownedBy(protocol string) string {
	if protocol == cli.SystemProtocol {
		return "it has the keys of callers and of tokens, which only a copy of the data folder moves"
	}
	return "it has records of the protocol " + protocol + ", which only a copy of the data folder moves"
}

// openFGASource is a server with OpenFGA's API.
type openFGASource struct {
	server
	transport *patientTransport
}

func (s *openFGASource) url() string                 { return s.Base() }
func (s *openFGASource) allow(silence time.Duration) { s.transport.silence = silence }

func (s *openFGASource) chosen(ctx context.Context, names []string) ([]client.StoreInfo, error) {
	if len(names) == 0 {
		return s.StoresNamed(ctx, "")
	}
	var out []client.StoreInfo
	for _, name := range names {
		found, err := cli.Find(ctx, s, name)
		if err != nil {
			return nil, err
		}
		out = append(out, found)
	}
	return out, nil
}

func (s *openFGASource) ask(ctx context.Context, c *client.Client) error {
	_, err := c.Call(ctx, http.MethodGet, "/stores?page_size=1", nil, nil)
	return err
}

// hides is false: the API does not show whether a key may see every store.
func (s *openFGASource) hides(context.Context, []client.StoreInfo) bool { return false }

func (s *openFGASource) models(ctx context.Context, store, _ string) ([]authz.SchemaSource, error) {
	all, err := openFGA{s.Client}.store(store).models(ctx)
	slices.Reverse(all) // the API lists the newest model first
	return all, err
}

func (s *openFGASource) assertions(ctx context.Context, store, model string) (int, []byte, error) {
	var got struct {
		Model      string            `json:"authorization_model_id"`
		Assertions []json.RawMessage `json:"assertions"`
	}
	if _, err := s.Call(ctx, http.MethodGet, "/stores/"+store+"/assertions/"+model, nil, &got); err != nil {
		return 0, nil, err
	}
	body, err := json.Marshal(got)
	return len(got.Assertions), body, err
}

// errHiddenExpiries means that an Ostiary does not serve the native API, without
// which an import would lose the times at which tuples expire.
var errHiddenExpiries = errors.New("the source is an Ostiary without the native API: an import would lose the expiries of tuples and the attributes; add native to its --doors")

func (s *openFGASource) tuples(ctx context.Context, store, position string) (out movedPage, err error) {
	in := map[string]any{"page_size": pageMax, "continuation_token": position, "consistency": "HIGHER_CONSISTENCY"}
	var text json.RawMessage
	h, err := s.Call(ctx, http.MethodPost, "/stores/"+store+"/read", in, &text)
	if err != nil {
		return out, err
	}
	if h.Get(headerRevision) != "" {
		return out, errHiddenExpiries
	}
	var page struct {
		Tuples []struct {
			Key tuplefile.Record `json:"key"`
		} `json:"tuples"`
		Next string `json:"continuation_token"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // a number of a context keeps all its digits
	if err := dec.Decode(&page); err != nil {
		return out, err
	}
	out.next = page.Next
	for _, found := range page.Tuples {
		row := movedRow{name: fmt.Sprintf("%s#%s@%s", found.Key.Object, found.Key.Relation, found.Key.User)}
		row.tuple, row.err = found.Key.Tuple()
		out.rows = append(out.rows, row)
	}
	return out, nil
}

// ostiarySource is a server with the native API. It is a [pinnedSource]. Assertions
// come from its OpenFGA API.
type ostiarySource struct{ openFGASource }

// chosen also returns the system store, which a list of all stores leaves out.
func (s *ostiarySource) chosen(ctx context.Context, names []string) ([]client.StoreInfo, error) {
	out, err := s.openFGASource.chosen(ctx, names)
	if err != nil || len(names) > 0 {
		return out, err
	}
	named, err := s.StoresNamed(ctx, ostiary.SystemDoor)
	for _, found := range named {
		if isSystem(found) {
			out = append(out, found)
		}
	}
	return out, err
}

func isSystem(s client.StoreInfo) bool { return s.Aliases[ostiary.SystemDoor] != "" }

func (s *ostiarySource) ask(ctx context.Context, c *client.Client) error {
	_, err := c.Stores(ctx, ostiary.SystemDoor) // a list that is short
	return err
}

// hides reports whether the client may not see the system store, although there may be keys:
// who may see it may see all.
func (s *ostiarySource) hides(ctx context.Context, stores []client.StoreInfo) bool {
	if slices.ContainsFunc(stores, isSystem) {
		return false
	}
	keys, err := s.Keys(ctx)
	return err != nil || len(keys) > 0
}

func (s *ostiarySource) models(ctx context.Context, store, token string) ([]authz.SchemaSource, error) {
	list, err := s.Store(store).Schemas(ctx)
	if err != nil {
		return nil, err
	}
	if list, err = upTo(token, list); err != nil {
		return nil, err
	}
	var out []authz.SchemaSource
	for _, known := range slices.Backward(list) { // the API lists the newest schema first
		found, err := s.Store(store).Schema(ctx, known.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, authz.SchemaSource{Dialect: found.Dialect, Source: []byte(found.Source), Model: found.Model, WithID: known.ID})
	}
	return out, nil
}

func (s *ostiarySource) assertions(ctx context.Context, store, model string) (int, []byte, error) {
	n, body, err := s.openFGASource.assertions(ctx, store, model)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound {
		return 0, nil, nil // the server does not serve OpenFGA's API, so it has no assertions
	}
	return n, body, err
}
