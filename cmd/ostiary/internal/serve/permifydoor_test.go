package serve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// sameAnswersSchema has every way in which a permission of Permify's can hold.
const sameAnswersSchema = `
entity user { relation self @user }
entity team { relation member @user @team#member }
entity folder {
	relation parent @folder
	relation owner @user @team#member
	attribute public boolean
	permission view = owner or parent.view or public
}
entity doc {
	relation folder @folder
	relation editor @user @team#member
	relation banned @user
	attribute public boolean
	attribute level integer
	permission edit = editor not banned
	permission view = (edit or folder.view or public) not banned
	permission read = view and open(level)
}
rule open(level integer) { level <= context.data.clearance }
`

// TestPermifyThroughNative writes random data with attributes and rules through
// Permify's door: the native door gives the same answers, to checks and lists.
func TestPermifyThroughNative(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			x := openEveryDoor(t)
			x.call("permify", "POST", "/v1/tenants/create", m{"id": "acme", "name": "acme"})
			for _, s := range x.call("native", "GET", "/ostiary/v1/stores", nil)["stores"].([]any) {
				if aliases, _ := s.(m)["aliases"].(m); aliases["permify"] == "acme" {
					x.id = s.(m)["id"].(string)
				}
			}
			x.call("permify", "POST", "/v1/tenants/acme/schemas/write", m{"schema": sameAnswersSchema})
			x.call("permify", "POST", "/v1/tenants/acme/data/write", randomPermify(rand.New(rand.NewPCG(seed, 5))))
			allowed := 0
			for _, q := range []struct {
				typ   string
				names []string
			}{{"folder", []string{"owner", "view"}}, {"doc", []string{"edit", "view", "read"}}} {
				for _, name := range q.names {
					for clearance := range 3 {
						allowed += x.sameAnswers(q.typ, name, clearance)
					}
				}
			}
			if allowed < 20 {
				t.Errorf("only %d allowed: the world is too poor", allowed)
			}
		})
	}
}

const sameAnswersIDs = 6 // of each type

func randomPermify(rng *rand.Rand) m {
	var tuples, attributes []m
	id := func() string { return fmt.Sprint(rng.IntN(sameAnswersIDs)) }
	add := func(typ, relation, subject, subjectRelation string) {
		tuples = append(tuples, m{"entity": m{"type": typ, "id": id()}, "relation": relation,
			"subject": m{"type": subject, "id": id(), "relation": subjectRelation}})
	}
	for range sameAnswersIDs {
		add("team", "member", "user", "")
		add("folder", "owner", "team", "member")
		add("folder", "owner", "user", "")
		add("doc", "folder", "folder", "")
		add("doc", "editor", "user", "")
		add("doc", "editor", "team", "member")
		add("doc", "banned", "user", "")
	}
	for i := range sameAnswersIDs - 1 { // no entity is its own parent
		tuples = append(tuples, m{"entity": m{"type": "folder", "id": fmt.Sprint(i)}, "relation": "parent",
			"subject": m{"type": "folder", "id": fmt.Sprint(i + 1)}})
	}
	value := func(typ, id, name, kind string, v any) {
		attributes = append(attributes, m{"entity": m{"type": typ, "id": id}, "attribute": name,
			"value": m{"@type": "type.googleapis.com/base.v1." + kind, "data": v}})
	}
	for i := range sameAnswersIDs {
		if rng.IntN(4) == 0 {
			value("folder", fmt.Sprint(i), "public", "BooleanValue", true)
		}
		if rng.IntN(3) == 0 {
			value("doc", fmt.Sprint(i), "public", "BooleanValue", rng.IntN(2) == 0)
		}
		if rng.IntN(2) == 0 {
			value("doc", fmt.Sprint(i), "level", "IntegerValue", rng.IntN(3))
		}
	}
	return m{"metadata": m{}, "tuples": tuples, "attributes": attributes}
}

// sameAnswers asks both doors about everybody and everything of one permission,
// and returns how much is allowed.
func (x *everyDoor) sameAnswers(typ, name string, clearance int) (allowed int) {
	x.t.Helper()
	metadata := m{"depth": 30}
	data := m{"data": m{"clearance": clearance}}
	for u := range sameAnswersIDs + 1 {
		user := fmt.Sprint(u)
		var checked []string
		for o := range sameAnswersIDs {
			object := fmt.Sprint(o)
			theirs := x.call("permify", "POST", "/v1/tenants/acme/permissions/check", m{"metadata": metadata, "context": data,
				"entity": m{"type": typ, "id": object}, "permission": name, "subject": m{"type": "user", "id": user}})["can"] == "CHECK_RESULT_ALLOWED"
			native := x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/check",
				m{"object": typ + ":" + object, "relation": name, "subject": "user:" + user, "context": m{"context": data}})
			if native["allowed"].(bool) != theirs {
				x.t.Errorf("user %s %s %s %s: %v, and %v through the native door", user, name, typ, object, theirs, native)
			}
			if theirs {
				checked = append(checked, object)
			}
		}
		allowed += len(checked)
		lookup := x.call("permify", "POST", "/v1/tenants/acme/permissions/lookup-entity", m{"metadata": metadata, "context": data,
			"entity_type": typ, "permission": name, "subject": m{"type": "user", "id": user}})
		list := x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/list-objects",
			m{"type": typ, "relation": name, "subject": "user:" + user, "context": m{"context": data}})
		var theirs, native []string
		for _, id := range lookup["entity_ids"].([]any) {
			theirs = append(theirs, id.(string))
		}
		for _, o := range list["objects"].([]any) {
			native = append(native, o.(string)[len(typ)+1:])
		}
		slices.Sort(native)
		if !slices.Equal(theirs, checked) || !slices.Equal(native, checked) {
			x.t.Errorf("user %s %s: checks allow %v, lookup-entity %v, the native list %v", user, name, checked, theirs, native)
		}
	}
	return allowed
}
