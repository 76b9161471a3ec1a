package acp

import (
	"context"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/acp"
)

// TestTexts: which policies both accept, and give the same id. Where they
// differ, the last column gives the reason; "" is no difference.
func TestTexts(t *testing.T) {
	doc := func(relation, expr string) string {
		return "name: p\nresources:\n- name: d\n  relations:\n" + relation + "  permissions:\n  - name: q\n    expr: " + expr + "\n"
	}
	r := "  - {name: r, types: [actor]}\n"
	for _, c := range []struct{ name, text, why string }{
		{"plain", doc(r, "r"), ""},
		{"empty", "", ""},
		{"no resources", "name: p\n", ""},
		{"no name", "resources: []\n", ""},
		{"json", `{"name":"p","resources":[{"name":"d"}]}`, ""},
		{"json with tabs", "{\n\t\"name\": \"p\"\n}", ""},
		{"unknown field", "name: p\nx: y\n", ""},
		{"repeated field", "name: p\nname: q\n", ""},
		{"version", "name: p\nversion: 1\n", ""},
		{"unknown specification", "name: p\nspec: other\n", ""},
		{"specification in capitals", "name: p\nspec: DEFRA\nresources:\n- name: d\n  permissions: [{name: read}, {name: write}]\n", ""},
		{"specification not met", "name: p\nspec: defra\nresources:\n- name: d\n", ""},
		{"meta", "name: p\nmeta: {a: b}\ndescription: x\n", ""},
		{"actor's relations", "name: p\nactor: {relations: [{name: friend, types: [actor]}]}\n", ""},
		{"actor's name", "name: p\nactor: {name: user}\n", ""},
		{"resource without name", "name: p\nresources:\n- relations: [{name: r, types: [actor]}]\n", ""},
		{"relation without types", doc("  - name: r\n", "r"), ""},
		{"relation with types twice", doc("  - {name: r, types: [actor, actor]}\n", "r"), "the same type twice is a slip"},
		{"unknown type", doc("  - {name: r, types: [x]}\n", "r"), ""},
		{"unknown set", doc("  - {name: r, types: [d->x]}\n", "r"), ""},
		{"set of owners", doc("  - {name: r, types: [d->owner]}\n", "r"), ""},
		{"set of a permission", doc("  - {name: r, types: [d->q, actor]}\n", "r"), ""},
		{"manages nothing known", doc("  - {name: r, types: [actor], manages: [x]}\n", "r"), ""},
		{"manages owner", doc("  - {name: r, types: [actor], manages: [owner]}\n", "r"), ""},
		{"manages a permission", doc("  - {name: r, types: [actor], manages: [q]}\n", "r"), ""},
		{"relation owner", doc("  - {name: owner, types: [actor]}\n", "r"), ""},
		{"resource actor", "name: p\nresources: [{name: actor}]\n", ""},
		{"resource twice", "name: p\nresources: [{name: d}, {name: d}]\n", ""},
		{"relation twice", doc(r+r, "r"), ""},
		{"relation and permission of one name", doc(r+"  - {name: q, types: [actor]}\n", "r"), ""},
		{"owner in an expression", doc(r, "owner + r"), ""},
		{"owner before an arrow", doc(r, "owner->r"), ""},
		{"arrow to owner", doc("  - {name: r, types: [d]}\n", "r->owner"), ""},
		{"arrow to nothing", doc("  - {name: r, types: [d]}\n", "r->x"), ""},
		{"arrow from a permission", doc(r, "q->r"), ""},
		{"arrow from nothing", doc(r, "x->r"), ""},
		{"unknown name", doc(r, "x"), ""},
		{"self-reference", doc(r, "q"), ""},
		{"empty expression", doc(r, "''"), ""},
		{"empty parentheses", doc(r, "()"), ""},
		{"blanks", doc(r, "'  r\t+ r '"), ""},
		{"line break", doc(r, "\"r\\n+ r\""), ""},
		{"trailing garbage", doc(r, "r r"), "a slip that would change what is granted"},
		{"trailing parenthesis", doc(r, "r)"), "the same"},
		{"unclosed parenthesis", doc(r, "(r"), ""},
		{"missing operand", doc(r, "r +"), ""},
		{"unknown operator", doc(r, "r | r"), ""},
		{"this", doc(r, "_this"), ""},
		{"two arrows", doc(r, "r->r->r"), "a slip that would change what is granted"},
		{"permission with a dash", doc(r, "r") + "  - {name: read-it, expr: r}\n", ""},
		{"relation with a blank", doc("  - {name: 'r r', types: [actor]}\n"+r, "r"), "a name with a blank cannot be asked for elsewhere"},
		{"relation with a colon", doc("  - {name: 'r:r', types: [actor]}\n"+r, "r"), "it would separate the parts of a name"},
		{"relation with a #", doc("  - {name: 'r#r', types: [actor]}\n"+r, "r"), "the same"},
		{"relation without name", doc("  - {types: [actor]}\n"+r, "r"), "nothing could name it"},
		{"permission without name", doc(r, "r") + "  - {expr: r}\n", "nothing could name it"},
		{"long relation", doc("  - {name: r"+strings.Repeat("r", 49)+", types: [actor]}\n"+r, "r"), "a bound of the store"},
		{"two documents", "name: p\n---\nname: q\n", "the second would be lost"},
		{"alias", "name: &n p\ndescription: *n\n", "a text that names itself is not followed"},
		{"list for a text", "name: [p]\n", ""},
		{"number for a text", "name: 1\n", "YAML's numbers are texts here"},
	} {
		theirs, err := newOriginal()
		if err != nil {
			t.Fatal(err)
		}
		ours, err := acp.Open(context.Background(), acp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		rec, err := ours.CreatePolicy(context.Background(), actors[0], acp.PolicySource{Text: c.text, Dialect: acp.DialectList})
		id := ""
		if err == nil {
			id = rec.ID
		}
		theirID, err2 := theirs.create(actors[0], c.text)
		if same := id == theirID && (err == nil) == (err2 == nil); same != (c.why == "") {
			t.Errorf("%s: ours %s %v\ntheirs %s %v", c.name, id, err, theirID, err2)
		}
	}
}
