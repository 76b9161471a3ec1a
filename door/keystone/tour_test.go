package keystone_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestTours plays the files testdata/*.tour, each on a new deployment with a clock
// that stands still. A line is a request:
//
//	TOKEN METHOD PATH [HEADER:VALUE …] [BODY] [-> NAME]
//
// TOKEN is "-" for none. NAME is a variable for the new token or for the first id in
// the response; {NAME} is its value in later requests and responses. The response
// follows, indented: the status, and the body with the objects of each list in the
// order of their texts. OSTIARY_REWRITE=1 writes the responses.
func TestTours(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.tour", 6, func(t *testing.T, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, file, newTour(t).play(string(text)))
	})
}

// tour is a deployment and the variables of a tour.
type tour struct {
	*cloud
	vars map[string]string
}

func newTour(t *testing.T) *tour {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	x := &tour{newCloudWith(t, settings.Deployment{Rounds: 4, Clock: func() time.Time { return now }}), map[string]string{}}
	x.vars["admin"] = x.admin
	for name, id := range x.roles {
		x.vars["role."+name] = id
	}
	for name, path := range map[string]string{"user.admin": "users", "project.admin": "projects", "service.identity": "services"} {
		for _, r := range x.do("GET", "/v3/"+path, x.admin, "").body[path].([]any) {
			x.vars[name] = r.(map[string]any)["id"].(string)
		}
	}
	return x
}

// play returns the text with the responses to its requests.
func (x *tour) play(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "\t"):
			continue
		case line == "\n" || line[0] == '#':
			out.WriteString(line)
			continue
		}
		out.WriteString(line)
		out.WriteString(x.request(strings.TrimSuffix(line, "\n")))
	}
	return out.String()
}

// request sends the request of a line and describes the response.
func (x *tour) request(line string) string {
	x.t.Helper()
	line, name, _ := strings.Cut(line, " -> ")
	part := strings.SplitN(line, " ", 4)
	if len(part) < 3 {
		x.t.Fatalf("%q: expected a token, a method and a path", line)
	}
	var headers []string
	rest := ""
	if len(part) == 4 {
		rest = part[3]
	}
	for rest != "" && !strings.ContainsAny(rest[:1], `{["`) {
		word, more, _ := strings.Cut(rest, " ")
		header, value, ok := strings.Cut(word, ":")
		if !ok { // a form
			break
		}
		headers, rest = append(headers, header, x.fill(value)), more
	}
	a := x.do(part[1], x.fill(part[2]), x.vars[part[0]], x.fill(rest), headers...)
	if name != "" {
		x.set(name, a)
	}
	location := ""
	if to := a.header.Get("Location"); to != "" {
		location = " Location:" + x.describe(to)
	}
	return fmt.Sprintf("\t%d%s%s\n", a.status, location, x.describe(a.text))
}

// fill replaces the variables of a text.
func (x *tour) fill(text string) string {
	for name, value := range x.vars {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// set sets a variable to the new token, the receipt or the first id of a response.
func (x *tour) set(name string, a answer) {
	x.t.Helper()
	value := a.header.Get("X-Subject-Token") + a.header.Get("Openstack-Auth-Receipt")
	for _, record := range a.body {
		if list, ok := record.([]any); ok && len(list) > 0 {
			record = list[0]
		}
		members, _ := record.(map[string]any)
		for _, id := range []string{"id", "access"} {
			if text, ok := members[id].(string); ok && value == "" {
				value = text
			}
		}
	}
	if value == "" {
		x.t.Fatalf("no token and no id for %s in %d %s", name, a.status, a.text)
	}
	x.vars[name] = value
}

// random matches the parts of a response that differ in every run, and as are their
// replacements.
var random = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`"audit_ids":\["[^",]*"\]`), `"audit_ids":[1]`},
	{regexp.MustCompile(`"audit_ids":\["[^",]*","[^",]*"\]`), `"audit_ids":[2]`},
	{regexp.MustCompile(`"(audit_id|audit_chain_id)":"[^"]*"`), `"$1":"<audit>"`},
	{regexp.MustCompile(`"secret":"[^"]{32,}"`), `"secret":"<secret>"`},
	{regexp.MustCompile(`gAAAA[0-9A-Za-z_-]*`), `<token>`},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), `<id64>`},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), `<id>`},
}

// withoutRandom replaces the parts of a text that differ in every run.
func withoutRandom(text string) string {
	for _, r := range random {
		text = r.what.ReplaceAllString(text, r.as)
	}
	return text
}

// describe returns the body of a response without what differs in every run.
func (x *tour) describe(body string) string {
	names := slices.SortedFunc(maps.Keys(x.vars), func(a, b string) int { return strings.Compare(a, b) })
	for _, name := range names {
		if value := x.vars[name]; len(value) >= 8 {
			body = strings.ReplaceAll(body, value, "{"+name+"}")
		}
	}
	body = withoutRandom(body)
	if strings.TrimSpace(body) == "" {
		return ""
	}
	return " " + sorted([]byte(body), "\n\t\t")
}

// sorted returns JSON with the objects of each list in the order of their texts, and
// those of the outermost lists on lines of their own.
func sorted(text []byte, newline string) string {
	d := json.NewDecoder(bytes.NewReader(text))
	start, err := d.Token()
	if err != nil || start != json.Delim('{') && start != json.Delim('[') {
		return string(text)
	}
	var items []string
	for d.More() {
		name := ""
		if start == json.Delim('{') {
			token, _ := d.Token() // the text was read before
			quoted, _ := json.Marshal(token)
			name = string(quoted) + ":"
		}
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return string(text)
		}
		inner := newline
		if start == json.Delim('[') {
			inner = ""
		}
		items = append(items, name+sorted(item, inner))
	}
	if start == json.Delim('{') {
		return "{" + strings.Join(items, ",") + "}"
	}
	if len(items) == 0 || items[0][0] != '{' {
		return "[" + strings.Join(items, ",") + "]"
	}
	slices.Sort(items)
	if newline != "" && len(items) > 1 {
		return "[" + newline + strings.Join(items, ","+newline) + "]"
	}
	return "[" + strings.Join(items, ",") + "]"
}
