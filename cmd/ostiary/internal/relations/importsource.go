package relations

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/door/openfga/tuplefile"
	"github.com/ostiary/ostiary/rel"
)

// moveSource is a server that an import copies stores from.
type moveSource interface {
	// url returns the URL of the server.
	url() string
	// allow sets how long the server may send no byte of a response.
	allow(silence time.Duration)
	// chosen returns the stores with these names or ids, or all stores.
	chosen(ctx context.Context, names []string) ([]cli.RemoteStore, error)
	// models returns the models of a store, oldest first: those at a token, or all for
	// the token "".
	models(ctx context.Context, store, token string) ([]ostiary.SchemaSource, error)
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
func newSource(ctx context.Context, r *remote, silence time.Duration) (moveSource, error) {
	transport := &patientTransport{cmp.Or(r.HTTP.Transport, http.DefaultTransport), silence}
	r.HTTP.Transport = transport
	native, err := r.isOstiary(ctx)
	if native {
		return &ostiarySource{openFGASource{r, transport}}, err
	}
	return &openFGASource{r, transport}, err
}

// isOstiary reports whether the server is an Ostiary with the native API, whose
// description is public.
func (r *remote) isOstiary(ctx context.Context) (bool, error) {
	resp, err := r.Send(ctx, http.MethodGet, cli.NativePrefix+"/openapi.json", nil)
	if _, refused := errors.AsType[*cli.RemoteError](err); refused {
		return false, nil // the source is another server
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var described struct{ Paths map[string]json.RawMessage }
	err = json.NewDecoder(http.MaxBytesReader(nil, resp.Body, cli.ResponseBytesMax)).Decode(&described)
	_, stores := described.Paths[cli.NativePrefix+"/stores"]
	return err == nil && stores, nil
}

// ownedBy returns the reason why a store with the records of a door is not copied.
func ownedBy(protocol string) string {
	return "it has records of the protocol " + protocol + ", which only a copy of the data folder moves"
}

// openFGASource is a server with OpenFGA's API.
type openFGASource struct {
	*remote
	transport *patientTransport
}

func (s *openFGASource) url() string                 { return s.Base }
func (s *openFGASource) allow(silence time.Duration) { s.transport.silence = silence }

func (s *openFGASource) chosen(ctx context.Context, names []string) ([]cli.RemoteStore, error) {
	if len(names) == 0 {
		return s.Stores(ctx, "")
	}
	var out []cli.RemoteStore
	for _, name := range names {
		found, err := s.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, found)
	}
	return out, nil
}

func (s *openFGASource) models(ctx context.Context, store, _ string) (all []ostiary.SchemaSource, _ error) {
	query := url.Values{"page_size": {fmt.Sprint(cli.PageMax)}}
	for {
		var page struct {
			Models []json.RawMessage `json:"authorization_models"`
			Next   string            `json:"continuation_token"`
		}
		if _, err := s.Call(ctx, http.MethodGet, "/stores/"+store+"/authorization-models?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for _, body := range page.Models {
			model, err := openFGAModel(body)
			if err != nil {
				return nil, err
			}
			all = append(all, model)
		}
		if page.Next == "" {
			slices.Reverse(all) // the API lists the newest model first
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
}

// openFGAModel translates a model of a response of OpenFGA's API.
func openFGAModel(body []byte) (ostiary.SchemaSource, error) {
	var head struct{ ID string }
	if err := json.Unmarshal(body, &head); err != nil {
		return ostiary.SchemaSource{}, err
	}
	model, text, err := language.ParseJSON(body)
	if err != nil {
		return ostiary.SchemaSource{}, fmt.Errorf("model %s: %w", head.ID, err)
	}
	return ostiary.SchemaSource{Model: model, Dialect: language.LanguageJSON, Source: text, WithID: head.ID}, nil
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
	in := map[string]any{"page_size": cli.PageMax, "continuation_token": position, "consistency": "HIGHER_CONSISTENCY"}
	var text json.RawMessage
	h, err := s.Call(ctx, http.MethodPost, "/stores/"+store+"/read", in, &text)
	if err != nil {
		return out, err
	}
	if h.Get(cli.HeaderRevision) != "" {
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

func (s *ostiarySource) chosen(ctx context.Context, names []string) ([]cli.RemoteStore, error) {
	all, err := s.NativeStores(ctx)
	if err != nil || len(names) == 0 {
		return all, err
	}
	var out []cli.RemoteStore
	for _, name := range names {
		i := slices.IndexFunc(all, func(known cli.RemoteStore) bool { return strings.EqualFold(known.ID, name) })
		if i < 0 {
			found, err := cli.SelectStore(name, cli.LabelsOf(all))
			if err != nil {
				return nil, err
			}
			i = slices.IndexFunc(all, func(known cli.RemoteStore) bool { return known.ID == found.ID })
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (s *ostiarySource) models(ctx context.Context, store, token string) ([]ostiary.SchemaSource, error) {
	list, err := s.nativeSchemas(ctx, store)
	if err != nil {
		return nil, err
	}
	if list, err = upTo(token, list); err != nil {
		return nil, err
	}
	var out []ostiary.SchemaSource
	for _, known := range slices.Backward(list) { // the API lists the newest schema first
		found, err := s.schemaOf(ctx, store, known.ID)
		if err != nil {
			return nil, err
		}
		found.SchemaSource.WithID = known.ID
		out = append(out, found.SchemaSource)
	}
	return out, nil
}

func (s *ostiarySource) assertions(ctx context.Context, store, model string) (int, []byte, error) {
	n, body, err := s.openFGASource.assertions(ctx, store, model)
	if refused, ok := errors.AsType[*cli.RemoteError](err); ok && refused.Status == http.StatusNotFound {
		return 0, nil, nil // the server does not serve OpenFGA's API, so it has no assertions
	}
	return n, body, err
}
