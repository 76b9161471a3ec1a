package server

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/door"
)

// frontHTML is the page without its doors. It has one style, no script, and nothing of
// another address.
//
//go:embed front.html
var frontHTML string

// frontDoor is a door of the port, as the page at / shows it.
type frontDoor struct {
	Door     string   `json:"door"`
	Prefixes []string `json:"prefixes"`
	Guide    string   `json:"guide,omitempty"`
}

// front is what GET / answers on a port with several doors, made once.
type front struct {
	page, text []byte
	policy     string // the header Content-Security-Policy
}

// newFront returns the door of the server's own page. It shows what the 404 shows: the doors
// of the port and their prefixes, and nothing of a store, a key or a version.
func newFront(doors []*servedDoor, m *metrics) (*servedDoor, error) {
	shown := []frontDoor{}
	var rows strings.Builder
	for _, d := range doors {
		shown = append(shown, frontDoor{d.Name, d.Prefixes, d.Guide})
		name := html.EscapeString(d.Name)
		if d.Page != "" {
			name = `<a href="` + html.EscapeString(d.Page) + `">` + name + "</a>"
		}
		fmt.Fprintf(&rows, "<tr><td>%s</td><td>", name)
		for _, prefix := range d.Prefixes {
			fmt.Fprintf(&rows, "<code>%s</code> ", html.EscapeString(prefix))
		}
		fmt.Fprintf(&rows, "</td><td>%s</td></tr>\n", html.EscapeString(d.Guide))
	}
	text, err := json.Marshal(struct {
		About  string      `json:"about"`
		Doors  []frontDoor `json:"doors"`
		Health [2]string   `json:"health"`
		First  string      `json:"first_question"`
	}{"Ostiary answers one question: may this user do this to that object?", shown, [2]string{pathHealth, pathReady},
		"with the address of this server in OSTIARY_SERVER, and a key in OSTIARY_TOKEN if it has keys: ostiary explain USER RELATION OBJECT"})
	if err != nil {
		return nil, err
	}
	f := &front{page: []byte(strings.Replace(frontHTML, "<!-- doors -->\n", rows.String(), 1)), text: append(text, '\n'), policy: frontPolicy()}
	d := &door.Door{Name: "server", Prefixes: []string{"/"}, Missing: func(w http.ResponseWriter, _ *http.Request, methods []string) {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "this path has a page to read: expected "+strings.Join(methods, " or "), nil)
	}, Refuse: func(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
		writeError(w, why.Status(), "refused", why.Error(), nil)
	}}
	for _, method := range [...]string{http.MethodGet, http.MethodHead} {
		d.Routes = append(d.Routes, door.Route{Method: method, Pattern: "/", Name: "Front", Public: true, Serve: f.serve})
	}
	return newServedDoor(d, m)
}

// serve answers with the page if the client prefers HTML to JSON, as browsers do, and
// otherwise with JSON.
func (f *front) serve(w http.ResponseWriter, r *http.Request, _ door.Params) {
	body, kind := f.text, "application/json"
	if accepted := door.Accepted(r, nil); accepted.Quality("text/html") > accepted.Quality("application/json") {
		body, kind = f.page, "text/html; charset=utf-8"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	w.Write(body)
}

// frontPolicy returns the Content-Security-Policy of the page: its own style, and nothing else.
func frontPolicy() string {
	_, rest, _ := strings.Cut(frontHTML, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
