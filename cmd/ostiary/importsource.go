package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/ostiary/ostiary/door/openfga/tuplefile"
)

// chosen returns the stores with these names or ids, or all stores.
func (r *remote) chosen(ctx context.Context, names []string) ([]remoteStore, error) {
	if len(names) == 0 {
		return r.stores(ctx, "")
	}
	var out []remoteStore
	for _, name := range names {
		s, err := r.find(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// models returns the models of a store in the protocol's JSON, oldest first.
func (r *remote) models(ctx context.Context, store string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	query := url.Values{"page_size": {fmt.Sprint(pageMax)}}
	for {
		var page struct {
			Models []json.RawMessage `json:"authorization_models"`
			Next   string            `json:"continuation_token"`
		}
		if _, err := r.call(ctx, http.MethodGet, "/stores/"+store+"/authorization-models?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Models...)
		if page.Next == "" {
			slices.Reverse(all) // the API lists the newest model first
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
}

// tuplePage is a page of a store's tuples.
type tuplePage struct {
	Tuples []struct {
		Key tuplefile.Record `json:"key"`
	} `json:"tuples"`
	Next string `json:"continuation_token"`
}

// tuples returns the page of tuples at a continuation token.
func (r *remote) tuples(ctx context.Context, store, token string) (page tuplePage, err error) {
	in := map[string]any{"page_size": pageMax, "continuation_token": token, "consistency": "HIGHER_CONSISTENCY"}
	var text json.RawMessage
	if _, err := r.call(ctx, http.MethodPost, "/stores/"+store+"/read", in, &text); err != nil {
		return page, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // a number of a context keeps all its digits
	return page, dec.Decode(&page)
}
