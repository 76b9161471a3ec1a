package served

import "regexp"

// difference is an accepted difference between two answers.
type difference struct {
	kind string
	// names match the names of the requests.
	names *regexp.Regexp
	why   string
}

// differences are those that TestSideBySide accepts. docs/openfga.md describes them
// for users.
func differences() []difference {
	at := func(kind, names, why string) difference {
		return difference{kind, regexp.MustCompile(`^(?:` + names + `)$`), why}
	}
	const nobody = `01HVMMBCMGZNT3SED4Z17ECXCA|ZZZZZZZZZZZZZZZZZZZZZZZZZZ`
	return []difference{
		// Ours has more detail.
		at(inStatus, `(models|changes) of (`+nobody+`)|(read|authorization-models) in store (`+nobody+`)|create a model in a deleted store`,
			"a store that does not exist is 404 store_id_not_found; theirs reads nothing from it, and even writes models to it"),
		at(inStatus, `read: no object`, "reading by user alone is an addition"),
		at(inStatus, `rename a store`, "PATCH renames a store; theirs has the route and answers 404 unimplemented"),
		at(inStatus, `(body|model).*(text after|two bodies)`, "text after the message is refused; theirs ignores it"),
		at(inJSON, `models after`, "the model with text after it is not there"),
		at(inStatus, `body: nesting 600`, "objects and lists in each other are bounded at 500, theirs at 10,000"),
		at(inStatus, `tuples of another filter|models with a stranger's token`, "a token belongs to its list and is refused on another; theirs gives whatever comes out"),
		at(inStatus, `(stores|models), token (AAAA.*|eyJ.*)`, "a token that is none is 400 invalid_continuation_token; theirs fails with 500 in its memory datastore"),
		at(inStatus, `larger context`, "a body may have 4 MiB; theirs fails with 500 resource_exhausted beyond 616,448 bytes of gRPC message"),
		// Theirs is odd.
		at(inHeaders, `stream(, none|:.*)`, "an empty stream is application/json as others are; theirs is application/grpc"),
		at(inText, `body: nesting 20000`, "another bound, another name"),
		at(inText, `(contextual|list objects, contextual).*|batch, a bad contextual tuple`, "a bad contextual tuple is named as o#r@u; theirs as %!s(<nil>) in checks, as a protobuf text elsewhere"),
		at(inText, `(check|list objects|stream|list users|write), (no context|context of another type|a fraction for an int)|batch`, "what is missing, or of the wrong type, is said in the engine's words"),
		at(inText, `model, .*`, "the error of a model has our own text"),
		// The order is not defined.
		at(inJSON, `read, page of .*|tuples [12]`, "tuples are listed in the order of their keys, theirs in that of their writing"),
	}
}
