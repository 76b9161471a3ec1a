package keystone_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// personaFile is testdata/personas.txt, which describes its own form. The module
// conformance/keystone asks a real Keystone the same questions.
type personaFile struct {
	personas []string
	lets     []string          // names, in the order of the file
	recipes  map[string]recipe // by name; those of lets and the others
	calls    []personaCall
}

// recipe makes a record.
type recipe struct {
	request []string // "as" and a token if the administrator does not do it, method, path, and a body if there is one
	value   string
}

// personaCall is a line of the matrix.
type personaCall struct {
	words []string // method, path, body and subject
	want  []string // status of each persona
}

// personaMethods begin the lines that are calls.
var personaMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

func readPersonas(t *testing.T) *personaFile {
	t.Helper()
	text, err := os.ReadFile("testdata/personas.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := &personaFile{recipes: map[string]recipe{}}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#") || words[0] == "keystone":
		case words[0] == "personas":
			f.personas = words[1:]
		case words[0] == "let", words[0] == "each":
			if words[0] == "let" {
				f.lets = append(f.lets, words[1])
			}
			f.recipes[words[1]] = recipe{request: words[2 : len(words)-2], value: words[len(words)-1]}
		case slices.Contains(personaMethods, words[0]):
			n := len(words) - len(f.personas)
			f.calls = append(f.calls, personaCall{words[:n], words[n:]})
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return f
}

// personaWorld is a deployment with the records of the file.
type personaWorld struct {
	*cloud
	*personaFile
	values  map[string]string            // of lets
	tokens  map[string]map[string]string // self and selftoken of each persona
	counter int
}

func newPersonaWorld(t *testing.T) *personaWorld {
	t.Helper()
	w := &personaWorld{cloud: newCloud(t), personaFile: readPersonas(t), values: map[string]string{}, tokens: map[string]map[string]string{}, counter: 100_000}
	for _, name := range w.lets {
		w.values[name] = w.make(name, w.values)
	}
	scopes := map[string][2]string{ // scope in a login, path of a grant
		"s": {`{"system":{"all":true}}`, "/v3/system"},
		"d": {`{"domain":{"id":"` + w.values["A"] + `"}}`, "/v3/domains/" + w.values["A"]},
		"p": {`{"project":{"id":"` + w.values["a"] + `"}}`, "/v3/projects/" + w.values["a"]},
	}
	for _, p := range w.personas {
		kind, role, granted := strings.Cut(p, "-")
		user := w.id("users", "user", fmt.Sprintf(`"name":%q,"domain_id":%q,"password":"x"`, p, w.values["A"]))
		scope := `{"unscoped":{}}`
		if granted {
			scope = scopes[kind][0]
			w.ok(204, "PUT", scopes[kind][1]+"/users/"+user+"/roles/"+w.roles[role], "", "")
		}
		a := w.do("POST", "/v3/auth/tokens", "", fmt.Sprintf(
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":%q,"password":"x"}}},"scope":%s}}`, user, scope))
		if a.status != 201 {
			t.Fatal(p, a.status, a.text)
		}
		w.tokens[p] = map[string]string{"self": user, "selftoken": a.header.Get("X-Subject-Token")}
	}
	return w
}

// tokenOf returns the token of a persona.
func (w *personaWorld) tokenOf(persona string) string { return w.tokens[persona]["selftoken"] }

// personaName matches a name in a request. {0} belongs to a mapping.
var personaName = regexp.MustCompile(`\{[A-Za-z]\w*\}`)

// fill replaces the names in a text by their values. Records of "each" are made, and
// noted in values.
func (w *personaWorld) fill(text string, values map[string]string) string {
	return personaName.ReplaceAllStringFunc(text, func(name string) string {
		name = name[1 : len(name)-1]
		if name == "n" {
			w.counter++
			return strconv.Itoa(w.counter)
		}
		if v, known := values[name]; known {
			return v
		}
		if v, known := w.values[name]; known {
			return v
		}
		values[name] = w.make(name, values)
		return values[name]
	})
}

// make makes the record of a recipe and returns its value.
func (w *personaWorld) make(name string, values map[string]string) string {
	w.t.Helper()
	r, known := w.recipes[name]
	if !known {
		w.t.Fatalf("unknown name {%s}", name)
	}
	token, request := w.admin, r.request
	if request[0] == "as" {
		token, request = w.fill(request[1], values), request[2:]
	}
	path, body := w.fill(request[1], values), ""
	if len(request) > 2 {
		body = w.fill(request[2], values)
	}
	a := w.do(request[0], path, token, body)
	if a.status >= 300 {
		w.t.Fatalf("{%s}: %s %s %s: %d %s", name, request[0], path, body, a.status, a.text)
	}
	switch {
	case strings.Contains(r.value, "{"):
		return w.fill(r.value, values)
	case r.value == "X-Subject-Token":
		return a.header.Get(r.value)
	}
	var found any = a.body
	for part := range strings.SplitSeq(r.value, ".") {
		if list, ok := found.([]any); ok {
			i, _ := strconv.Atoi(part)
			found = list[i]
			continue
		}
		found = found.(map[string]any)[part]
	}
	return found.(string)
}

// ask makes one call as a persona.
func (w *personaWorld) ask(c personaCall, method, persona string) answer {
	values := map[string]string{}
	for name, v := range w.tokens[persona] {
		values[name] = v
	}
	path, body, subject := w.fill(c.words[1], values), "", ""
	for _, word := range c.words[2:] {
		if s, ok := strings.CutPrefix(word, "subject="); ok {
			subject = w.fill(s, values)
			continue
		}
		body = w.fill(word, values)
	}
	return w.do(method, path, w.tokenOf(persona), body, "X-Subject-Token", subject)
}

// TestPersonas makes each call of the file as each persona. Where the file has GET,
// it calls HEAD, too.
func TestPersonas(t *testing.T) {
	t.Parallel()
	w := newPersonaWorld(t)
	heads := map[string]bool{}
	for _, c := range w.calls {
		if c.words[0] == "HEAD" {
			heads[c.words[1]] = true
		}
	}
	for _, c := range w.calls {
		methods := []string{c.words[0]}
		if c.words[0] == "GET" && !heads[c.words[1]] {
			methods = append(methods, "HEAD")
		}
		for _, method := range methods {
			w.checkCall(c, method)
		}
	}
}

// checkCall compares the statuses of a call. A refusal of a rule names the rule.
func (w *personaWorld) checkCall(c personaCall, method string) {
	var got []string
	for _, p := range w.personas {
		a := w.ask(c, method, p)
		got = append(got, strconv.Itoa(a.status))
		if a.status >= 500 && a.status != 501 {
			w.t.Errorf("%s %s as %s: %d %s", method, c.words[1], p, a.status, a.text)
		}
		if a.status == 403 && !strings.Contains(a.text, `"code":403`) {
			w.t.Errorf("%s %s as %s: a refusal without a reason: %s", method, c.words[1], p, a.text)
		}
	}
	if !slices.Equal(got, c.want) {
		w.t.Errorf("%s %s:\n got %s\nwant %s", method, strings.Join(c.words[1:], " "), strings.Join(got, " "), strings.Join(c.want, " "))
	}
}

// TestPersonasAreComplete checks that the file has a call for each route of the
// door, and that no line names a route that does not exist.
func TestPersonasAreComplete(t *testing.T) {
	t.Parallel()
	f := readPersonas(t)
	c := newCloud(t)
	called := map[string]bool{}
	for _, call := range f.calls {
		if len(call.want) != len(f.personas) {
			t.Errorf("%s: %d statuses, want %d", strings.Join(call.words, " "), len(call.want), len(f.personas))
		}
		path, _, _ := strings.Cut(personaName.ReplaceAllString(call.words[1], "x"), "?")
		var p door.Params
		r, _ := c.router.Find(call.words[0], path, &p)
		if r == nil {
			t.Errorf("%s: no such route", strings.Join(call.words, " "))
			continue
		}
		called[call.words[0]+" "+r.Pattern] = true
	}
	for _, r := range c.door.Routes {
		if request := r.Method + " " + r.Pattern; r.Method != "HEAD" && strings.HasPrefix(r.Pattern, "/v3") && !called[request] {
			t.Errorf("testdata/personas.txt lacks %s, operation %s", request, r.Name)
		}
	}
}

// TestDomainLists checks that a token with the scope of a domain sees the
// records of this domain only, even an administrator's.
func TestDomainLists(t *testing.T) {
	t.Parallel()
	w := newPersonaWorld(t)
	for path, foreign := range map[string]string{"users": "vB", "groups": "gB", "projects": "b", "domains": "B"} {
		for _, p := range w.personas {
			a := w.do("GET", "/v3/"+path, w.tokenOf(p), "")
			if a.status != 200 {
				continue
			}
			if seen := strings.Contains(a.text, w.values[foreign]); seen != !strings.HasPrefix(p, "d-") {
				t.Errorf("%s as %s: sees domain B: %v", path, p, seen)
			}
		}
	}
	a := w.do("GET", "/v3/role_assignments", w.tokenOf("d-admin"), "")
	if strings.Contains(a.text, `"system"`) || !strings.Contains(a.text, w.values["vA"]) {
		t.Error("assignments of a domain:", a.text)
	}
}

// TestDomainMembers lists the groups of a user and the users of a group, which are
// in two domains.
func TestDomainMembers(t *testing.T) {
	t.Parallel()
	w := newPersonaWorld(t)
	for _, group := range []string{"gA", "gB"} {
		for _, user := range []string{"vA", "vB"} {
			w.ok(204, "PUT", "/v3/groups/"+w.values[group]+"/users/"+w.values[user], "", "")
		}
	}
	for path, in := range map[string][2]string{"groups/" + w.values["gA"] + "/users": {"vA", "vB"}, "users/" + w.values["vA"] + "/groups": {"gA", "gB"}} {
		own, foreign := w.values[in[0]], w.values[in[1]]
		for token, both := range map[string]bool{w.tokenOf("d-admin"): false, w.admin: true} {
			if a := w.do("GET", "/v3/"+path, token, ""); a.status != 200 || !strings.Contains(a.text, own) || strings.Contains(a.text, foreign) != both {
				t.Errorf("%s: %d %s, want domain B: %v", path, a.status, a.text, both)
			}
		}
		if a := w.do("GET", "/v3/"+path+"?name="+in[1], w.admin, ""); strings.Contains(a.text, own) || !strings.Contains(a.text, foreign) {
			t.Errorf("%s with a name: %s", path, a.text)
		}
	}
}
