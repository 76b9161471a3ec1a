package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

const (
	// ResponseBytesMax bounds a response that is read into memory, in bytes.
	ResponseBytesMax = 64 << 20
	PageMax          = 100 // the largest page that OpenFGA's API allows
	HeaderRevision   = "Ostiary-Revision"
	HeaderCut        = "Ostiary-Truncated"
	// headerAuthentication is set by a server that did not check the caller's key.
	headerAuthentication = "Ostiary-Authentication"
)

// errUnsupported means that a command does not work with --server.
var errUnsupported = errors.New("not supported with --server")

// Unsupported returns the error for a command that needs a folder.
func Unsupported(what string) error {
	return fmt.Errorf("%w: %s works on a folder", errUnsupported, what)
}

// Remote is a server with OpenFGA's API over HTTP. For what that API cannot express
// the methods use the native API, which only ostiary serve has.
type Remote struct {
	A    *App
	Base string
	Flag string // the flag that names the server: --server or --from
	HTTP *http.Client
	err  error // every request fails with it, unless it is nil
}

// Remote returns the server that --server names, or nil.
func (a *App) Remote() *Remote {
	if a.Server == "" {
		return nil
	}
	r := &Remote{A: a, Base: strings.TrimRight(a.Server, "/"), Flag: "--server", HTTP: &http.Client{}}
	if a.CaCert != "" {
		r.HTTP.Transport, r.err = Trusting(a.CaCert)
	}
	if a.ambiguous {
		r.err = fmt.Errorf("%w: the variable OSTIARY_DATA names a folder and OSTIARY_SERVER a server: select one with --data or --server", ErrUsage)
	}
	return r
}

// certificatesBytesMax bounds the file of --ca-cert, in bytes.
const certificatesBytesMax = 1 << 20

// Trusting returns a transport that also trusts the certificates of a PEM file.
func Trusting(file string) (http.RoundTripper, error) {
	text, err := ReadFile(file, certificatesBytesMax)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: --ca-cert %s: expected certificates in PEM format", ErrUsage, file)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// Stream is a request body that is sent as it is: lines of JSON.
type Stream struct{ io.Reader }

// RemoteError is an error response of a server.
type RemoteError struct {
	Status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	// Read is the number of imported tuples, for an error of an import.
	Read int `json:"read"`

	from  *Remote // the server; nil for the native door on the folder's engine
	other string  // the protocol that the address serves instead of OpenFGA's; "" if it is unknown
}

func (e *RemoteError) Error() string {
	if e.other != "" {
		return fmt.Sprintf("%s serves %s: expected the HTTP address of OpenFGA's API, which is --http of ostiary serve", e.from.Base, e.other)
	}
	if e.Code == "" {
		return e.foreign()
	}
	if e.Status == http.StatusUnauthorized && e.from != nil {
		return e.from.keyRefused()
	}
	text := "the server refused: "
	if e.Status < 400 || e.Status >= 500 {
		text = "server error " + e.Code + ": "
	}
	text += e.Message
	if hint := e.from.pathHint(); hint != "" && (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest) {
		text += "; " + hint
	}
	return text
}

// keyRefused returns the text for a response that accepts no key of this client.
func (r *Remote) keyRefused() string {
	flag := "token"
	if r.Flag == "--from" {
		flag = "from-token"
	}
	if r.A.Token == "" {
		return fmt.Sprintf("the server at %s requires a key: set the variable %s, or --%s", r.Base, EnvName(flag), flag)
	}
	return fmt.Sprintf("the server at %s does not accept the key of %s or --%s", r.Base, EnvName(flag), flag)
}

// is reports whether the error has a code of the native API, or a message of
// OpenFGA's API that contains a text. A nil error has neither.
func (e *RemoteError) is(code, message string) bool {
	return e != nil && (e.Code == code || strings.Contains(e.Message, message))
}

// parse reads the code and the message of a response body. The body is the error
// itself or, from a stream, an object with the error in the field "error".
func (e *RemoteError) parse(body []byte) {
	if json.Unmarshal(body, e) != nil {
		e.Code = ""
	}
	var stream struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if e.Code == "" && json.Unmarshal(body, &stream) == nil && stream.Error.Message != "" {
		e.Code, e.Message = "error", stream.Error.Message
	}
}

// Send sends a request and returns the response, whose body the caller closes. A
// status of 300 or more is a *RemoteError.
func (r *Remote) Send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	var body io.Reader
	contentType := "application/json"
	if s, ok := in.(Stream); ok {
		body, contentType = s, "application/x-ndjson"
	} else if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.Base+path, body)
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("%w: invalid %s %q: expected http://HOST:PORT or https://HOST:PORT", ErrUsage, r.Flag, r.Base)
	}
	if in != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if r.A.reason != "" {
		req.Header.Set(headerReason, r.A.reason)
	}
	if r.A.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.A.Token)
	}
	resp, err := r.HTTP.Do(req)
	if err != nil {
		return nil, r.explain(err)
	}
	if resp.Header.Get(headerAuthentication) != "" && !r.A.notedNoKeys {
		r.A.notedNoKeys = true
		r.A.Note("warning: the server at %s has no keys: it checked no key, and accepts requests without one", r.Base)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &RemoteError{Status: resp.StatusCode, from: r}
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err == nil {
		e.other = otherProtocol(resp, text)
		if e.parse(text); e.Code == "" && bytes.Contains(text, []byte(plainToTLS)) {
			return nil, ConnectionFailed(fmt.Sprintf("the server on %s uses TLS: expected %s https://%s", req.URL.Host, r.Flag, req.URL.Host), e)
		}
	}
	return nil, e
}

// Call sends a request and decodes the response into out, unless out is nil.
func (r *Remote) Call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	resp, err := r.Send(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, ResponseBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > ResponseBytesMax {
		return nil, fmt.Errorf("%s: the response is larger than %d bytes", path, ResponseBytesMax)
	}
	if out == nil {
		return resp.Header, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("%s: the response is not valid in OpenFGA's API: %w", path, err)
	}
	return resp.Header, nil
}

// RemoteStore is a store in OpenFGA's API.
type RemoteStore struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Created string `json:"created_at"`

	Aliases map[string]string // by door; only the native API returns them
}

func (s RemoteStore) JSON() StoreJSON {
	created := s.Created
	if t, err := time.Parse(time.RFC3339Nano, created); err == nil {
		created = Stamp(t)
	}
	return StoreJSON{ID: s.ID, Name: s.Name, Created: created, Aliases: s.Aliases}
}

// Stores lists the stores with this name, or all stores if name is "".
func (r *Remote) Stores(ctx context.Context, name string) (all []RemoteStore, err error) {
	query := url.Values{"page_size": {fmt.Sprint(PageMax)}}
	if name != "" {
		query.Set("name", name)
	}
	for {
		var page struct {
			Stores []RemoteStore `json:"stores"`
			Next   string        `json:"continuation_token"`
		}
		if _, err := r.Call(ctx, http.MethodGet, "/stores?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Stores...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
}

// LabelsOf returns the labels of stores.
func LabelsOf(stores []RemoteStore) (out []storeLabel) {
	for _, s := range stores {
		out = append(out, storeLabel{s.ID, s.Name, s.Aliases})
	}
	return out
}

// NativeStores lists all stores with their aliases, in the native API.
func (r *Remote) NativeStores(ctx context.Context) (all []RemoteStore, err error) {
	for query := (url.Values{}); ; {
		var page struct {
			Stores []struct {
				ID, Name, Created string
				Aliases           map[string]string
			}
			Next string
		}
		if _, err := r.Call(ctx, http.MethodGet, NativePrefix+"/stores?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for _, s := range page.Stores {
			all = append(all, RemoteStore{ID: s.ID, Name: s.Name, Created: s.Created, Aliases: s.Aliases})
		}
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// addAliases sets the aliases of stores, if the server has the native API.
func (r *Remote) addAliases(ctx context.Context, stores []RemoteStore) error {
	known, err := r.NativeStores(ctx)
	if IsForeign(err) {
		return nil
	} else if err != nil {
		return err
	}
	aliases := map[string]map[string]string{}
	for _, s := range known {
		aliases[s.ID] = s.Aliases
	}
	for i := range stores {
		stores[i].Aliases = aliases[stores[i].ID]
	}
	return nil
}

// find finds a store by id, name or alias, as SelectStore does. The empty name is
// the only store.
func (r *Remote) Find(ctx context.Context, name string) (RemoteStore, error) {
	if _, err := storage.ParseStoreID(name); err == nil {
		var s RemoteStore
		_, err := r.Call(ctx, http.MethodGet, "/stores/"+name, nil, &s)
		if at, ok := errors.AsType[*RemoteError](err); ok && at.Status == http.StatusNotFound && at.Code != "" {
			known, _ := r.Stores(ctx, "") // without them, the error lists no stores
			err = noStoreWithID(name, LabelsOf(known), err)
		}
		return s, err
	}
	stores, err := r.Stores(ctx, name)
	if at, refused := errors.AsType[*RemoteError](err); name != "" && (err == nil && len(stores) == 0 || refused && at.Status == http.StatusBadRequest) {
		// For the suggestion of a name. OpenFGA's API refuses to search names that its
		// clients cannot give to a store, for example those of less than three letters.
		stores, err = r.Stores(ctx, "")
	}
	if err == nil && len(namesakes(name, LabelsOf(stores))) == 0 {
		err = r.addAliases(ctx, stores)
	}
	if err != nil {
		return RemoteStore{}, err
	}
	found, err := SelectStore(name, LabelsOf(stores))
	if err != nil {
		return RemoteStore{}, err
	}
	i := slices.IndexFunc(stores, func(s RemoteStore) bool { return s.ID == found.ID })
	return stores[i], nil
}

// Path finds the store that --store names and returns the path of a route below
// it.
func (r *Remote) Path(ctx context.Context, below string) (string, error) {
	s, err := r.Find(ctx, r.A.Store)
	return "/stores/" + s.ID + below, err
}

// RevisionOf reads the revision header that ostiary serve adds. The revision is 0
// if the header is missing.
func RevisionOf(h http.Header) (ostiary.Token, uint64) {
	token := ostiary.Token(h.Get(HeaderRevision))
	revision, err := token.Revision()
	if err != nil {
		return "", 0
	}
	return token, uint64(revision)
}
