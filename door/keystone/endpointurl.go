package keystone

import (
	"net/http"
	"strings"
)

// placeholders are the names that the URL of an endpoint may have, as "$(name)s" or
// "%(name)s". Keystone accepts all of them. Those after public_endpoint were settings
// of old servers, for which no catalog has a value.
var placeholders = map[string]string{"user_id": "", "project_id": "", "tenant_id": "", "public_endpoint": "",
	"admin_endpoint": "", "admin_bind_host": "", "admin_port": "", "compute_host": "", "public_bind_host": "", "public_port": ""}

// expand replaces the placeholders of the URL of an endpoint by values. "%%" is a
// percent sign. It returns false if a placeholder has no value, or if a percent sign
// or "$(" does not begin a placeholder.
func expand(url string, values map[string]string) (string, bool) {
	var out strings.Builder
	for rest := url; ; {
		at := strings.IndexAny(rest, "%$")
		if at < 0 {
			out.WriteString(rest)
			return out.String(), true
		}
		out.WriteString(rest[:at])
		sign, after := rest[at:at+1], rest[at+1:]
		name, opened := strings.CutPrefix(after, "(")
		switch {
		case opened:
			name, after, closed := strings.Cut(name, ")s")
			value, known := values[name]
			if !closed || !known {
				return "", false
			}
			out.WriteString(value)
			rest = after
		case sign == "$":
			out.WriteString(sign)
			rest = after
		case strings.HasPrefix(after, "%"):
			out.WriteString(sign)
			rest = after[1:]
		default:
			return "", false
		}
	}
}

// checkEndpointURL fails if no catalog could show the URL of an endpoint.
func checkEndpointURL(url string) error {
	if _, ok := expand(url, placeholders); !ok {
		return &statusError{http.StatusBadRequest, "Cannot create an endpoint with an invalid URL: " + shorten(url) +
			". Expected placeholders like $(project_id)s, and %% for a percent sign."}
	}
	return nil
}
