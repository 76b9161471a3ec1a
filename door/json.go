package door

import (
	"net/http"
	"strconv"
)

// jsonType is the header Content-Type of JSON, which all responses share.
var jsonType = []string{"application/json"}

// WriteJSON writes a response of JSON, with the header Retry-After if the status is 503.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	SetRetryAfter(h, status)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone; net/http drops the body of a response to HEAD
}
