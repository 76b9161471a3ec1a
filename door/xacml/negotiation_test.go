package xacml

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestNegotiation compares the media types that are chosen for Accept and Content-Type
// headers with testdata/negotiation.txt.
func TestNegotiation(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	offers := []offer{{typeXACMLXML, formXML}, {typeXML, formXML}, {typeXACMLJSON, formJSON}, {typeJSON, formJSON}}
	for _, headers := range [][]string{
		{}, {""}, {"*/*"}, {"application/*"}, {"text/*"}, {"application/json"}, {"application/xml"}, {"application/xacml+json"}, {"application/xacml+xml"},
		{"APPLICATION/JSON"}, {" application/json "}, {"application/json;q=0"}, {"application/json;q=0, */*;q=0.1"}, {"application/json;q=0.5, application/xml;q=0.4"},
		{"application/json;q=0.5, application/xml;q=0.5"}, {"application/json;q=0.5", "application/xml;q=0.6"}, {"*/*;q=0.9, application/json;q=0.1"},
		{"application/*;q=0.2, */*;q=0.9"}, {"application/json;q=1"}, {"application/json;q=1.001"}, {"application/json;q=-0.1"}, {"application/json;q=x"}, {"application/json;q=NaN"},
		{"application/json;q=x, application/xml;q=0.1"}, {"application/json; =x"}, {"application/json; =x, application/xml;q=0.1"}, {"application/json;q=0.1;q=0.2"}, {"application/xacml+json;version=3.0"},
		{"application/xacml+json;version=2.0"}, {"application/xacml+json;version=2.0, application/xacml+xml;version=3.0;q=0.1"}, {"text/plain"}, {"text/plain, application/json"}, {"json"}, {","},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		for _, h := range headers {
			r.Header.Add("Accept", h)
		}
		o, err := accept(r, offers...)
		fmt.Fprintf(&out, "Accept %q: %s %v\n", headers, o.name, err)
	}
	for _, header := range []string{
		"", "application/json", "application/xacml+json", "application/xacml+json; version=3.0", "application/xacml+json; version=3", "application/xml; charset=UTF-8", "application/xml; charset=us-ascii",
		"application/xml; charset=latin1", "application/xml; charset", "application/xacml+xml", "text/plain", "text/plain; charset=utf-8", "text/xml", "text/csv", "Application/XML", "application/xml;;", "application/xml; =x",
	} {
		fmt.Fprintf(&out, "Content-Type %q: %d\n", header, formOf(header))
	}
	golden.Equal(t, "testdata/negotiation.txt", out.String())
}

// TestBoundValues checks the values of the bounds of this door.
func TestBoundValues(t *testing.T) {
	t.Parallel()
	got := []int{policiesMax, trialsMax, differencesMax}
	if want := []int{10_000, 10_000, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
