package door

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Call is one HTTP request in progress, as every door needs it. Its methods refuse what
// is wrong in any protocol with a *[Refusal]; a door gives the refusal its shape. A Call
// is used by one goroutine.
type Call struct {
	W      http.ResponseWriter
	R      *http.Request
	Params Params // of the path
	body   *Body
}

// Context returns the context of the request.
func (c *Call) Context() context.Context { return c.R.Context() }

// Query returns the parameters of the URL. It refuses a malformed query with [BadQuery].
func (c *Call) Query() (url.Values, error) {
	if c.R.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return nil, &Refusal{Reason: BadQuery, Detail: err.Error()}
	}
	return values, nil
}

// QueryOf is like Query. It also refuses a parameter that is not in names, so that a
// misspelt one is not ignored, and one that comes twice, unless names has it as
// "name...".
func (c *Call) QueryOf(names ...string) (url.Values, error) {
	values, err := c.Query()
	for name, all := range values {
		switch {
		case slices.Contains(names, name+"..."):
		case !slices.Contains(names, name):
			return nil, &Refusal{Reason: BadQuery, Detail: "unknown parameter " + strconv.Quote(ShortText(name))}
		case len(all) > 1:
			return nil, &Refusal{Reason: BadQuery, Detail: "the parameter " + name + " comes twice"}
		}
	}
	return values, err
}

// Media returns the media type of the body, in lower case and without its parameters, or
// "" if the request does not name one. It refuses one that is not in accepted with
// [BadMedia].
func (c *Call) Media(accepted ...string) (string, error) {
	header := c.R.Header.Get("Content-Type")
	if header == "" || slices.Contains(accepted, header) {
		return header, nil
	}
	media, _, _ := strings.Cut(header, ";")
	if media = strings.ToLower(strings.TrimSpace(media)); !slices.Contains(accepted, media) {
		return "", c.RefuseMedia(accepted...)
	}
	return media, nil
}

// RefuseMedia returns the refusal of the request's media type.
func (c *Call) RefuseMedia(accepted ...string) error {
	detail := "none"
	if header := c.R.Header.Get("Content-Type"); header != "" {
		detail = strconv.Quote(ShortText(header))
	}
	return &Refusal{Reason: BadMedia, Detail: detail + ", expected " + strings.Join(accepted, " or ")}
}

// Body reads the whole body, see [ReadBody]. Its bytes are valid until End.
func (c *Call) Body() ([]byte, error) {
	body, err := ReadBody(c.R)
	if err != nil {
		return nil, err
	}
	c.body = body
	return body.Bytes, nil
}

// JSON is like Body. It refuses a body whose media type is not application/json.
func (c *Call) JSON() ([]byte, error) {
	if _, err := c.Media("application/json"); err != nil {
		return nil, err
	}
	return c.Body()
}

// End recycles the body. It may be called again.
func (c *Call) End() {
	if c.body != nil {
		c.body.Free()
		c.body = nil
	}
}
