package served

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// requests are those of TestSideBySide, in order: later ones see what earlier
// ones wrote.
func requests() []request {
	return slices.Concat(goodRequests(), bodyRequests(), pathRequests(), nameRequests(), questionRequests(),
		writeRequests(), pageRequests(), modelRequests(), assertionRequests(), lastRequests())
}

func post(name, path, body string) request {
	return request{name: name, method: http.MethodPost, path: "/stores/{store}/" + path, body: body}
}

func get(name, path string) request {
	return request{name: name, method: http.MethodGet, path: path}
}

const anne = `{"user":"user:anne","relation":"viewer","object":"document:roadmap"}`

func checkBody(user, relation, object string) string {
	return fmt.Sprintf(`{"tuple_key":{"user":%q,"relation":%q,"object":%q}}`, user, relation, object)
}

func goodRequests() []request {
	return []request{
		post("check", "check", `{"tuple_key":`+anne+`,"authorization_model_id":"{model}"}`),
		post("check without a model", "check", `{"tuple_key":`+anne+`}`),
		post("check, denied", "check", checkBody("user:eve", "viewer", "document:roadmap")),
		post("check, context", "check", `{"tuple_key":{"user":"user:carl","relation":"viewer","object":"document:roadmap"},"context":{"hour":10}}`),
		post("check, contextual", "check", `{"tuple_key":{"user":"user:eve","relation":"viewer","object":"document:roadmap"},"contextual_tuples":{"tuple_keys":[{"user":"user:eve","relation":"member","object":"group:eng"}]}}`),
		post("check, userset", "check", checkBody("group:eng#member", "viewer", "document:roadmap")),
		post("check, wildcard", "check", checkBody("user:*", "viewer", "document:roadmap")),
		post("check, trace", "check", `{"tuple_key":`+anne+`,"trace":true}`),
		post("check, consistency", "check", `{"tuple_key":`+anne+`,"consistency":"HIGHER_CONSISTENCY"}`),
		post("batch", "batch-check", `{"checks":[{"tuple_key":`+anne+`,"correlation_id":"a"},{"tuple_key":{"user":"user:carl","relation":"viewer","object":"document:roadmap"},"correlation_id":"b"},{"tuple_key":{"user":"user:a","relation":"no","object":"document:roadmap"},"correlation_id":"c"}]}`),
		post("list objects", "list-objects", `{"type":"document","relation":"viewer","user":"user:anne"}`),
		post("list objects, none", "list-objects", `{"type":"document","relation":"viewer","user":"user:nobody"}`),
		post("stream", "streamed-list-objects", `{"type":"document","relation":"viewer","user":"user:anne"}`),
		post("stream, none", "streamed-list-objects", `{"type":"document","relation":"viewer","user":"user:nobody"}`),
		post("list users", "list-users", `{"object":{"type":"document","id":"roadmap"},"relation":"viewer","user_filters":[{"type":"user"}],"context":{"hour":10}}`),
		post("list users, usersets", "list-users", `{"object":{"type":"folder","id":"plans"},"relation":"viewer","user_filters":[{"type":"group","relation":"member"}]}`),
		post("expand", "expand", `{"tuple_key":{"relation":"viewer","object":"document:roadmap"}}`),
		post("expand, direct", "expand", `{"tuple_key":{"relation":"member","object":"group:eng"}}`),
		post("read all", "read", `{}`),
		post("read, no body", "read", ``),
		post("read object", "read", `{"tuple_key":{"object":"document:roadmap"}}`),
		post("read by user", "read", `{"tuple_key":{"object":"document:","user":"user:carl"}}`),
		post("read one", "read", `{"tuple_key":{"object":"group:eng","relation":"member","user":"user:anne"}}`),
		get("changes", "/stores/{store}/changes"),
		get("changes of a type", "/stores/{store}/changes?type=document"),
		get("store", "/stores/{store}"),
		get("stores", "/stores?name=story"),
		get("model", "/stores/{store}/authorization-models/{model}"),
		get("models", "/stores/{store}/authorization-models"),
		get("health", "/healthz"),
		{name: "assertions", method: http.MethodPut, path: "/stores/{store}/assertions/{model}", body: `{"assertions":[{"tuple_key":` + anne + `,"expectation":true}]}`},
		get("assertions read", "/stores/{store}/assertions/{model}"),
	}
}

// bodyRequests are bodies that are no message, or nearly none. Each is sent to
// check.
func bodyRequests() (out []request) {
	for _, b := range []struct{ name, body string }{
		{name: "empty", body: ``}, {name: "blank", body: " \n"}, {name: "null", body: `null`}, {name: "list", body: `[]`}, {name: "string", body: `"x"`}, {name: "number", body: `1`},
		{name: "truncated", body: `{"tuple_key":{"user":"user:anne","rel`}, {name: "truncated after a value", body: `{"tuple_key":{"user":"user:anne"`},
		{name: "brace", body: `{`}, {name: "garbage", body: `%$#`}, {name: "comma", body: `{"tuple_key":` + anne + `,}`},
		{name: "duplicate key", body: `{"tuple_key":` + anne + `,"tuple_key":` + anne + `}`},
		{name: "duplicate unknown key", body: `{"tuple_key":` + anne + `,"x":1,"x":2}`},
		{name: "unknown field", body: `{"tuple_key":` + anne + `,"x":{"y":[1,null]}}`},
		{name: "camel case", body: `{"tupleKey":` + anne + `}`},
		{name: "wrong type", body: `{"tuple_key":5}`}, {name: "wrong type inside", body: `{"tuple_key":{"user":5}}`}, {name: "list for an object", body: `{"tuple_key":[]}`},
		{name: "null key", body: `{"tuple_key":null}`}, {name: "null user", body: `{"tuple_key":{"user":null,"relation":"viewer","object":"document:1"}}`},
		{name: "null in a list", body: `{"tuple_key":` + anne + `,"contextual_tuples":{"tuple_keys":[null]}}`},
		{name: "store in the body", body: `{"store_id":"nonsense","tuple_key":` + anne + `}`}, {name: "store of a wrong type", body: `{"store_id":5,"tuple_key":` + anne + `}`},
		{name: "enum, unknown name", body: `{"tuple_key":` + anne + `,"consistency":"SOMETHING"}`}, {name: "enum, number", body: `{"tuple_key":` + anne + `,"consistency":200}`},
		{name: "enum, unknown number", body: `{"tuple_key":` + anne + `,"consistency":7}`}, {name: "enum, fraction", body: `{"tuple_key":` + anne + `,"consistency":1.5}`},
		{name: "invalid UTF-8", body: "{\"tuple_key\":{\"user\":\"user:\xff\",\"relation\":\"viewer\",\"object\":\"document:1\"}}"},
		{name: "half a surrogate", body: `{"tuple_key":{"user":"user:\ud83d","relation":"viewer","object":"document:1"}}`},
		{name: "surrogates", body: `{"tuple_key":{"user":"user:\ud83d\ude00","relation":"viewer","object":"document:1"}}`},
		{name: "byte order mark", body: "\ufeff{}"}, {name: "number 1e400", body: `{"tuple_key":` + anne + `,"context":{"n":1e400}}`}, {name: "context twice a name", body: `{"tuple_key":` + anne + `,"context":{"n":1,"n":2}}`},
		{name: "context list", body: `{"tuple_key":` + anne + `,"context":[]}`},
		{name: "control character in context", body: `{"tuple_key":` + anne + `,"context":{"n":"a\u0000b"}}`},
		{name: "nesting 400", body: `{"tuple_key":` + anne + `,"x":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`},
		{name: "nesting 600", body: `{"tuple_key":` + anne + `,"x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`},
		{name: "nesting 20000", body: `{"tuple_key":` + anne + `,"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`},
		{name: "text after", body: `{"tuple_key":` + anne + `} x`}, {name: "two bodies", body: `{"tuple_key":` + anne + `}{}`},
		{name: "blanks after", body: `{"tuple_key":` + anne + `}` + "\n\n"},
	} {
		out = append(out, post("body: "+b.name, "check", b.body))
	}
	for _, contentType := range []string{"-", "text/plain", "application/xml", "application/json; charset=utf-8", "application/grpc", "nonsense"} {
		r := post("content type "+contentType, "check", `{"tuple_key":`+anne+`}`)
		r.contentType = contentType
		out = append(out, r)
	}
	return out
}

// pathRequests are paths and methods that are not there.
func pathRequests() (out []request) {
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		out = append(out, request{name: method + " check", method: method, path: "/stores/{store}/check", body: `{"tuple_key":` + anne + `}`})
	}
	for _, path := range []string{"/", "/nothing", "/stores/{store}/nothing", "/stores/{store}/check/more", "/stores/{store}/authorization-models/{model}/more"} {
		out = append(out, get("GET "+path, path), request{name: "POST " + path, method: http.MethodPost, path: path, body: `{}`})
	}
	for _, store := range []string{"nonsense", "01HVMMBCMGZNT3SED4Z17ECXCA", "01hvmmbcmgznt3sed4z17ecxca", "01HVMMBCMGZNT3SED4Z17ECXC", "01HVMMBCMGZNT3SED4Z17ECXCAA", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "01HVMMBCMGZNT3SED4Z17ECXCU", "%20", "{store}%20"} {
		s := "/stores/" + store
		out = append(out, get("store "+store, s), get("models of "+store, s+"/authorization-models"), get("changes of "+store, s+"/changes"),
			request{name: "delete " + store, method: http.MethodDelete, path: s})
		for _, call := range []struct{ path, body string }{
			{"check", `{"tuple_key":` + anne + `}`}, {"check", `{"tuple_key":` + anne + `,"authorization_model_id":"01HVMMBCMGZNT3SED4Z17ECXCA"}`},
			{"batch-check", `{"checks":[{"tuple_key":` + anne + `,"correlation_id":"a"}]}`},
			{"list-objects", `{"type":"document","relation":"viewer","user":"user:anne"}`}, {"streamed-list-objects", `{"type":"document","relation":"viewer","user":"user:anne"}`},
			{"list-users", `{"object":{"type":"document","id":"1"},"relation":"viewer","user_filters":[{"type":"user"}]}`},
			{"expand", `{"tuple_key":{"relation":"viewer","object":"document:1"}}`}, {"read", `{}`}, {"write", `{"writes":{"tuple_keys":[` + anne + `]}}`},
			{"authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`},
		} {
			out = append(out, request{name: call.path + " in store " + store, method: http.MethodPost, path: s + "/" + call.path, body: call.body})
		}
	}
	for _, model := range []string{"nonsense", "01HVMMBCMGZNT3SED4Z17ECXCA", "{store}"} {
		out = append(out, get("model "+model, "/stores/{store}/authorization-models/"+model), get("assertions of "+model, "/stores/{store}/assertions/"+model),
			post("check with model "+model, "check", `{"tuple_key":`+anne+`,"authorization_model_id":"`+model+`"}`),
			post("write with model "+model, "write", `{"writes":{"tuple_keys":[{"user":"user:m","relation":"owner","object":"document:m"}]},"authorization_model_id":"`+model+`"}`),
			post("list with model "+model, "list-objects", `{"type":"document","relation":"viewer","user":"user:anne","authorization_model_id":"`+model+`"}`))
	}
	for _, call := range []struct{ path, body string }{
		{"check", `{"tuple_key":` + anne + `}`}, {"list-objects", `{"type":"document","relation":"viewer","user":"user:anne"}`}, {"read", `{}`},
		{"write", `{"writes":{"tuple_keys":[` + anne + `]}}`}, {"expand", `{"tuple_key":{"relation":"viewer","object":"document:1"}}`},
	} {
		out = append(out, request{name: call.path + " without any model", method: http.MethodPost, path: "/stores/{empty}/" + call.path, body: call.body})
	}
	return append(out, get("changes without any model", "/stores/{empty}/changes"), get("models without any", "/stores/{empty}/authorization-models"))
}

// nameRequests are names at their limits, one beyond, and of odd characters.
func nameRequests() (out []request) {
	long := func(head string, n int) string { return head + strings.Repeat("x", n-len(head)) }
	wide := func(head string, runes int) string { return head + strings.Repeat("é", runes-len(head)) }
	for _, n := range []struct{ what, user, relation, object string }{
		{"user of 512", long("user:", 512), "viewer", "document:1"}, {"user of 513", long("user:", 513), "viewer", "document:1"},
		{"user of 300 wide", wide("user:", 300), "viewer", "document:1"}, {"user of 512 wide", wide("user:", 512), "viewer", "document:1"},
		{"object of 256", "user:a", "viewer", long("document:", 256)}, {"object of 257", "user:a", "viewer", long("document:", 257)},
		{"object of 256 wide", "user:a", "viewer", wide("document:", 256)}, {"object of 257 wide", "user:a", "viewer", wide("document:", 257)},
		{"relation of 50", "user:a", long("", 50), "document:1"}, {"relation of 51", "user:a", long("", 51), "document:1"},
		{"no user", "", "viewer", "document:1"}, {"no relation", "user:a", "", "document:1"}, {"no object", "user:a", "viewer", ""},
		{"user without type", "anne", "viewer", "document:1"}, {"user without id", "user:", "viewer", "document:1"}, {"user with blank", "user:a b", "viewer", "document:1"},
		{"user with two colons", "user:a:b", "viewer", "document:1"}, {"user with two hashes", "group:a#member#x", "viewer", "document:1"},
		{"user of unknown type", "alien:a", "viewer", "document:1"}, {"userset of unknown relation", "group:a#nothing", "viewer", "document:1"}, {"wildcard userset", "group:*#member", "viewer", "document:1"},
		{"object without type", "user:a", "viewer", "1"}, {"object without id", "user:a", "viewer", "document:"}, {"object with two colons", "user:a", "viewer", "document:1:2"}, {"object with a hash", "user:a", "viewer", "document:1#viewer"},
		{"object wildcard", "user:a", "viewer", "document:*"}, {"object of unknown type", "user:a", "viewer", "alien:1"}, {"unknown relation", "user:a", "nothing", "document:1"}, {"relation with colon", "user:a", "view:er", "document:1"},
		{"nul in user", "user:a\x00", "viewer", "document:1"}, {"tab in object", "user:a", "viewer", "document:\t"}, {"no-break space", "user:a\u00a0b", "viewer", "document:1"}, {"slash and dots", "user:../a", "viewer", "document:/1.0/x?y=z"},
		{"percent", "user:%20", "viewer", "document:%2F"}, {"emoji", "user:😀", "viewer", "document:😀"},
	} {
		out = append(out, post("check: "+n.what, "check", checkBody(n.user, n.relation, n.object)),
			post("write: "+n.what, "write", fmt.Sprintf(`{"writes":{"tuple_keys":[{"user":%q,"relation":%q,"object":%q}]}}`, n.user, strings.Replace(n.relation, "viewer", "owner", 1), n.object)),
			post("delete: "+n.what, "write", fmt.Sprintf(`{"deletes":{"tuple_keys":[{"user":%q,"relation":%q,"object":%q}]}}`, n.user, strings.Replace(n.relation, "viewer", "owner", 1), n.object)),
			post("read: "+n.what, "read", checkBody(n.user, n.relation, n.object)),
			post("contextual: "+n.what, "check", fmt.Sprintf(`{"tuple_key":%s,"contextual_tuples":{"tuple_keys":[{"user":%q,"relation":%q,"object":%q}]}}`, anne, n.user, n.relation, n.object)),
			post("list objects, contextual: "+n.what, "list-objects", fmt.Sprintf(`{"type":"document","relation":"viewer","user":"user:anne","contextual_tuples":{"tuple_keys":[{"user":%q,"relation":%q,"object":%q}]}}`, n.user, n.relation, n.object)),
			post("list objects: "+n.what, "list-objects", fmt.Sprintf(`{"type":%q,"relation":%q,"user":%q}`, first(n.object), n.relation, n.user)),
			post("stream: "+n.what, "streamed-list-objects", fmt.Sprintf(`{"type":%q,"relation":%q,"user":%q}`, first(n.object), n.relation, n.user)),
			post("list users: "+n.what, "list-users", fmt.Sprintf(`{"object":{"type":%q,"id":%q},"relation":%q,"user_filters":[{"type":%q}],"context":{"hour":1}}`, first(n.object), after(n.object), n.relation, first(n.user))),
			post("expand: "+n.what, "expand", fmt.Sprintf(`{"tuple_key":{"relation":%q,"object":%q}}`, n.relation, n.object)),
		)
	}
	for i := range out { // Go's quotes are not JSON's
		out[i].body = strings.NewReplacer(`\x00`, `\u0000`, `\x`, `\u00`).Replace(out[i].body)
	}
	for _, name := range []string{"", "ab", "abc", long("", 64), long("", 65), "a b.c-d/^_&@", "a+b", "é é é", "a\tb c", "🙂🙂🙂"} {
		out = append(out, request{name: fmt.Sprintf("create store %.20q", name), method: http.MethodPost, path: "/stores", body: fmt.Sprintf(`{"name":%q}`, name)})
	}
	return append(out, request{name: "create store without a name", method: http.MethodPost, path: "/stores", body: `{}`})
}

func first(s string) string { head, _, _ := strings.Cut(s, ":"); return head }
func after(s string) string { _, tail, _ := strings.Cut(s, ":"); return tail }

func many(n int, format string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.ReplaceAll(format, "#", fmt.Sprint(i))
	}
	return strings.Join(out, ",")
}

func questionRequests() (out []request) {
	const item = `{"tuple_key":` + anne + `,"correlation_id":"#"}`
	for _, n := range []int{0, 1, 50, 51} {
		out = append(out, post(fmt.Sprintf("batch of %d", n), "batch-check", `{"checks":[`+many(n, item)+`]}`))
	}
	for _, id := range []string{"", "a", strings.Repeat("x", 36), strings.Repeat("x", 37), "a b", "a_b-c", "é", "a.b"} {
		out = append(out, post(fmt.Sprintf("correlation id %.10q of %d", id, len(id)), "batch-check", fmt.Sprintf(`{"checks":[{"tuple_key":%s,"correlation_id":%q}]}`, anne, id)))
	}
	const contextual = `{"user":"user:#","relation":"member","object":"group:eng"}`
	for _, n := range []int{100, 101} {
		tuples := `"contextual_tuples":{"tuple_keys":[` + many(n, contextual) + `]}`
		out = append(out, post(fmt.Sprintf("check with %d contextual", n), "check", `{"tuple_key":`+anne+`,`+tuples+`}`),
			post(fmt.Sprintf("batch with %d contextual", n), "batch-check", `{"checks":[{"tuple_key":`+anne+`,"correlation_id":"a",`+tuples+`}]}`),
			post(fmt.Sprintf("list objects with %d contextual", n), "list-objects", `{"type":"document","relation":"viewer","user":"user:1",`+tuples+`}`),
			post(fmt.Sprintf("stream with %d contextual", n), "streamed-list-objects", `{"type":"document","relation":"viewer","user":"user:1",`+tuples+`}`),
			post(fmt.Sprintf("expand with %d contextual", n), "expand", `{"tuple_key":{"relation":"member","object":"group:x"},`+tuples+`}`),
			post(fmt.Sprintf("list users with %d contextual", n), "list-users", `{"object":{"type":"group","id":"x"},"relation":"member","user_filters":[{"type":"user"}],"contextual_tuples":[`+many(n, contextual)+`]}`))
	}
	return append(out,
		post("batch, one id twice", "batch-check", `{"checks":[`+item+`,`+item+`]}`),
		post("batch, no key", "batch-check", `{"checks":[{"correlation_id":"a"}]}`),
		post("batch, no checks", "batch-check", `{}`),
		post("batch, a bad contextual tuple", "batch-check", `{"checks":[{"tuple_key":`+anne+`,"correlation_id":"a","contextual_tuples":{"tuple_keys":[{"user":"alien:1","relation":"member","object":"group:1"}]}}]}`),
		post("contextual tuple twice", "check", `{"tuple_key":`+anne+`,"contextual_tuples":{"tuple_keys":[`+many(2, `{"user":"user:x","relation":"member","object":"group:eng"}`)+`]}}`),
		post("contextual, unknown condition", "check", `{"tuple_key":`+anne+`,"contextual_tuples":{"tuple_keys":[{"user":"user:x","relation":"viewer","object":"document:1","condition":{"name":"nothing"}}]}}`),
		post("contextual, condition where none may be", "check", `{"tuple_key":`+anne+`,"contextual_tuples":{"tuple_keys":[{"user":"user:x","relation":"member","object":"group:1","condition":{"name":"in_hours"}}]}}`),
		post("check, no context", "check", checkBody("user:carl", "viewer", "document:roadmap")),
		post("check, context of another type", "check", `{"tuple_key":{"user":"user:carl","relation":"viewer","object":"document:roadmap"},"context":{"hour":"ten"}}`),
		post("check, context as text", "check", `{"tuple_key":{"user":"user:carl","relation":"viewer","object":"document:roadmap"},"context":{"hour":"10"}}`),
		post("check, a fraction for an int", "check", `{"tuple_key":{"user":"user:carl","relation":"viewer","object":"document:roadmap"},"context":{"hour":10.5}}`),
		post("check, context of no parameter", "check", `{"tuple_key":{"user":"user:carl","relation":"viewer","object":"document:roadmap"},"context":{"hour":10,"minute":5}}`),
		post("list objects, no context", "list-objects", `{"type":"document","relation":"viewer","user":"user:carl"}`),
		post("stream, no context", "streamed-list-objects", `{"type":"document","relation":"viewer","user":"user:carl"}`),
		post("list users, no context", "list-users", `{"object":{"type":"document","id":"roadmap"},"relation":"viewer","user_filters":[{"type":"user"}]}`),
		post("list objects, no type", "list-objects", `{"relation":"viewer","user":"user:carl"}`),
		post("stream, no type", "streamed-list-objects", `{"relation":"viewer","user":"user:carl"}`),
		post("stream, no body", "streamed-list-objects", ``),
		post("stream, bad JSON", "streamed-list-objects", `{"type":`),
		post("list users, no filter", "list-users", `{"object":{"type":"document","id":"roadmap"},"relation":"viewer"}`),
		post("list users, two filters", "list-users", `{"object":{"type":"document","id":"roadmap"},"relation":"viewer","user_filters":[{"type":"user"},{"type":"group"}]}`),
		post("list users, filter of unknown type", "list-users", `{"object":{"type":"document","id":"roadmap"},"relation":"viewer","user_filters":[{"type":"alien"}]}`),
		post("list users, filter of unknown relation", "list-users", `{"object":{"type":"document","id":"roadmap"},"relation":"viewer","user_filters":[{"type":"group","relation":"nothing"}]}`),
		post("list users, no object", "list-users", `{"relation":"viewer","user_filters":[{"type":"user"}]}`),
		post("expand, no key", "expand", `{}`),
		post("expand, no object", "expand", `{"tuple_key":{"relation":"viewer"}}`),
	)
}

func writeRequests() (out []request) {
	const tuple = `{"user":"user:#","relation":"owner","object":"document:limit"}`
	write := func(name, tuples, more string) request {
		return post("write, "+name, "write", `{"writes":{"tuple_keys":[`+tuples+`]`+more+`}}`)
	}
	remove := func(name, tuples, more string) request {
		return post("delete, "+name, "write", `{"deletes":{"tuple_keys":[`+tuples+`]`+more+`}}`)
	}
	const one = `{"user":"user:one","relation":"owner","object":"document:one"}`
	const hours = `{"user":"user:one","relation":"viewer","object":"document:one","condition":{"name":"in_hours","context":{"from":1,"until":2}}}`
	return append(out,
		write("one", one, ""), write("the same again", one, ""), write("the same, ignored", one, `,"on_duplicate":"ignore"`), write("the same, error", one, `,"on_duplicate":"error"`),
		write("the same, nonsense", one, `,"on_duplicate":"nonsense"`), write("one twice", one+","+one, ""), write("one twice, ignored", one+","+one, `,"on_duplicate":"ignore"`),
		write("a condition", hours, ""), write("the same condition, ignored", hours, `,"on_duplicate":"ignore"`),
		write("another context, ignored", strings.Replace(hours, `"from":1`, `"from":3`, 1), `,"on_duplicate":"ignore"`),
		write("without its condition, ignored", strings.Replace(hours, `,"condition":{"name":"in_hours","context":{"from":1,"until":2}}`, "", 1), `,"on_duplicate":"ignore"`),
		write("unknown condition", strings.Replace(hours, "in_hours", "nothing", 1), ""), write("context of another type", strings.Replace(hours, `"from":1`, `"from":"one"`, 1), ""),
		write("context of no parameter", strings.Replace(hours, `"from":1`, `"minute":1`, 1), ""), write("condition where none may be", `{"user":"user:x","relation":"member","object":"group:1","condition":{"name":"in_hours"}}`, ""),
		write("condition without a name", strings.Replace(hours, "in_hours", "", 1), ""),
		write("nothing", "", ""), post("write, empty", "write", `{}`), post("write, empty parts", "write", `{"writes":{},"deletes":{}}`), post("write, null parts", "write", `{"writes":null,"deletes":null}`), post("write, no body", "write", ``),
		write("of 100", many(100, tuple), ""), remove("of 100", many(100, tuple), ""), write("of 101", many(101, tuple), ""), remove("of 101", many(101, tuple), ""),
		write("implicit", `{"user":"group:a#member","relation":"member","object":"group:a"}`, ""), write("computed relation", `{"user":"user:a","relation":"viewer","object":"group:a"}`, ""),
		write("wildcard where it may be", `{"user":"user:*","relation":"viewer","object":"folder:open"}`, ""), write("wildcard where it may not", `{"user":"user:*","relation":"owner","object":"document:open"}`, ""),
		write("type that may not", `{"user":"folder:a","relation":"owner","object":"document:open"}`, ""), write("userset that may not", `{"user":"group:a#member","relation":"owner","object":"document:open"}`, ""),
		remove("one", one, ""), remove("the same again", one, ""), remove("the same, ignored", one, `,"on_missing":"ignore"`), remove("the same, nonsense", one, `,"on_missing":"nonsense"`), remove("one twice", one+","+one, ""),
		remove("what no model admits", `{"user":"alien:1","relation":"nothing","object":"thing:1"}`, ""), remove("what no model admits, ignored", `{"user":"alien:1","relation":"nothing","object":"thing:1"}`, `,"on_missing":"ignore"`),
		post("write and delete one", "write", `{"writes":{"tuple_keys":[`+one+`]},"deletes":{"tuple_keys":[`+one+`]}}`),
		post("changes after the writes", "read", `{"tuple_key":{"object":"document:one"}}`),
		get("changes, the last", "/stores/{store}/changes?page_size=100"),
	)
}

// pageRequests are pages and tokens, honest and hostile.
func pageRequests() (out []request) {
	for _, size := range []string{"-1", "0", "1", "100", "101", "2147483648", "abc", "1.5", "", "1e1", `"2"`} {
		out = append(out, post("read, page of "+size, "read", `{"page_size":`+strings.Replace(size, "abc", `"abc"`, 1)+`}`))
		for _, path := range []string{"/stores", "/stores/{store}/changes", "/stores/{store}/authorization-models"} {
			if path == "/stores" && (size == "100" || size == "") {
				continue // how many there are is not the same
			}
			out = append(out, get(path+", page of "+size, path+"?page_size="+url.QueryEscape(size)))
		}
	}
	out = append(out, post("tuples 1", "read", `{"page_size":3}`), post("tuples 2", "read", `{"page_size":100,"continuation_token":"{token:tuples 1}"}`),
		post("tuples of another filter", "read", `{"tuple_key":{"object":"document:roadmap"},"continuation_token":"{token:tuples 1}"}`),
		get("changes 1", "/stores/{store}/changes?page_size=3"), get("changes 2", "/stores/{store}/changes?page_size=3&continuation_token={token:changes 1}"),
		get("changes of another type", "/stores/{store}/changes?type=document&continuation_token={token:changes 1}"),
		get("stores 1", "/stores?page_size=1"), get("models with a stranger's token", "/stores/{store}/authorization-models?continuation_token={token:stores 1}"),
		get("changes of an unknown type", "/stores/{store}/changes?type=nothing"), get("changes, type of 254", "/stores/{store}/changes?type="+strings.Repeat("x", 254)), get("changes, type of 255", "/stores/{store}/changes?type="+strings.Repeat("x", 255)),
		get("changes, type with a colon", "/stores/{store}/changes?type=a:b"),
	)
	for _, token := range []string{"x", "AAAA", "!!!!", "eyJhIjoxfQ==", strings.Repeat("A", 5120), strings.Repeat("A", 5121), "%00", "%FF%FE", "../../x", "';DROP TABLE x;--"} {
		out = append(out, get("changes, token "+clip(token), "/stores/{store}/changes?continuation_token="+url.QueryEscape(token)),
			get("stores, token "+clip(token), "/stores?continuation_token="+url.QueryEscape(token)),
			get("models, token "+clip(token), "/stores/{store}/authorization-models?continuation_token="+url.QueryEscape(token)),
			post("read, token "+clip(token), "read", fmt.Sprintf(`{"continuation_token":%q}`, token)))
	}
	for _, at := range []string{"2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "nonsense", "2020-01-01", "", "1577836800"} {
		out = append(out, get("changes since "+at, "/stores/{store}/changes?start_time="+url.QueryEscape(at)))
	}
	return append(out, get("an unknown parameter", "/stores/{store}/changes?nothing=1&page_size=1"), get("a parameter twice", "/stores/{store}/changes?page_size=1&page_size=2"),
		get("a broken query", "/stores/{store}/changes?page_size=%zz"), get("stores by a name of nobody", "/stores?name=nobody"))
}

func modelRequests() (out []request) {
	model := func(name, types string) request {
		return post("model, "+name, "authorization-models", `{"schema_version":"1.1","type_definitions":[`+types+`]}`)
	}
	return append(out,
		model("smallest", `{"type":"user"}`), model("no types", ``), model("a type twice", `{"type":"user"},{"type":"user"}`), model("100 types", many(100, `{"type":"t#"}`)), model("101 types", many(101, `{"type":"t#"}`)),
		model("type of 254", `{"type":"`+strings.Repeat("x", 254)+`"}`), model("type of 255", `{"type":"`+strings.Repeat("x", 255)+`"}`), model("type with a colon", `{"type":"a:b"}`), model("type without a name", `{}`),
		model("relation without types", `{"type":"a","relations":{"r":{"this":{}}}}`), model("unknown relation", `{"type":"a","relations":{"r":{"computedUserset":{"relation":"nothing"}}}}`),
		model("snake case", `{"type":"user"},{"type":"a","relations":{"p":{"this":{}},"r":{"computed_userset":{"relation":"p"}}},"metadata":{"relations":{"p":{"directly_related_user_types":[{"type":"user"}]}}}}`),
		model("cycle", `{"type":"a","relations":{"r":{"computedUserset":{"relation":"s"}},"s":{"computedUserset":{"relation":"r"}}}}`),
		post("model, schema 1.0", "authorization-models", `{"schema_version":"1.0","type_definitions":[{"type":"user"}]}`), post("model, schema 9", "authorization-models", `{"schema_version":"9","type_definitions":[{"type":"user"}]}`),
		post("model, no schema", "authorization-models", `{"type_definitions":[{"type":"user"}]}`), post("model, no body", "authorization-models", ``), post("model, bad JSON", "authorization-models", `{"schema_version":`),
		post("model, text after", "authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"}]} x`),
		post("model, duplicate key", "authorization-models", `{"schema_version":"1.1","schema_version":"1.1","type_definitions":[{"type":"user"}]}`),
		post("model, a condition that does not compile", "authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"}],"conditions":{"c":{"name":"c","expression":"x &&","parameters":{"x":{"type_name":"TYPE_NAME_BOOL"}}}}}`),
		post("model, a condition of another name", "authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"}],"conditions":{"c":{"name":"d","expression":"x","parameters":{"x":{"type_name":"TYPE_NAME_BOOL"}}}}}`),
		get("models after", "/stores/{store}/authorization-models"),
	)
}

func assertionRequests() (out []request) {
	put := func(name, model, body string) request {
		return request{name: "assertions, " + name, method: http.MethodPut, path: "/stores/{store}/assertions/" + model, body: body}
	}
	const one = `{"tuple_key":` + anne + `,"expectation":true}`
	return append(out,
		put("none", "{model}", `{"assertions":[]}`), put("no body", "{model}", ``), put("100", "{model}", `{"assertions":[`+many(100, one)+`]}`), put("101", "{model}", `{"assertions":[`+many(101, one)+`]}`),
		put("a stranger's model", "01HVMMBCMGZNT3SED4Z17ECXCA", `{"assertions":[`+one+`]}`), put("no key", "{model}", `{"assertions":[{"expectation":true}]}`),
		put("unknown relation", "{model}", `{"assertions":[{"tuple_key":{"user":"user:a","relation":"nothing","object":"document:1"},"expectation":true}]}`),
		put("unknown type", "{model}", `{"assertions":[{"tuple_key":{"user":"user:a","relation":"viewer","object":"alien:1"},"expectation":true}]}`),
		put("contextual and context", "{model}", `{"assertions":[{"tuple_key":`+anne+`,"expectation":false,"contextual_tuples":[{"user":"user:anne","relation":"member","object":"group:x"}],"context":{"hour":1}}]}`),
		put("20 contextual", "{model}", `{"assertions":[{"tuple_key":`+anne+`,"contextual_tuples":[`+many(20, `{"user":"user:#","relation":"member","object":"group:x"}`)+`]}]}`),
		put("21 contextual", "{model}", `{"assertions":[{"tuple_key":`+anne+`,"contextual_tuples":[`+many(21, `{"user":"user:#","relation":"member","object":"group:x"}`)+`]}]}`),
		put("a bad contextual", "{model}", `{"assertions":[{"tuple_key":`+anne+`,"contextual_tuples":[{"user":"alien:1","relation":"member","object":"group:x"}]}]}`),
		get("assertions, read", "/stores/{store}/assertions/{model}"),
	)
}

func lastRequests() []request {
	return []request{
		{name: "rename a store", method: http.MethodPatch, path: "/stores/{empty}", body: `{"name":"another name"}`},
		{name: "delete a store", method: http.MethodDelete, path: "/stores/{empty}"},
		get("a deleted store", "/stores/{empty}"), {name: "delete it again", method: http.MethodDelete, path: "/stores/{empty}"},
		{name: "create a model in a deleted store", method: http.MethodPost, path: "/stores/{empty}/authorization-models", body: `{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`},
		post("large body", "check", `{"tuple_key":`+anne+`,"x":"`+strings.Repeat("x", 500<<10)+`"}`),
		post("larger body", "check", `{"tuple_key":`+anne+`,"x":"`+strings.Repeat("x", 700<<10)+`"}`),
		post("larger context", "check", `{"tuple_key":`+anne+`,"context":{"x":"`+strings.Repeat("x", 700<<10)+`"}}`),
	}
}
