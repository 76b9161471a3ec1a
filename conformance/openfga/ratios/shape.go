// Package ratios compares the speed of the library with OpenFGA's. Both are
// embedded in one process and asked in turns. The data has users in groups, groups
// on folders, documents in folders, and owners. Its main type is [Shape]. It is for
// benchmarks only.
package ratios

import (
	"fmt"
	"math/rand/v2"

	"github.com/ostiary/ostiary/rel"
)

// model is the model of both: owner is direct, viewer is three hops away.
const model = `model
  schema 1.1
type user
type group
  relations
    define member: [user]
type folder
  relations
    define viewer: [group#member]
type document
  relations
    define parent: [folder]
    define owner: [user]
    define viewer: viewer from parent
`

// Shape has the numbers of users, groups and so on.
type Shape struct {
	Name                                       string
	Users, Groups, Members, Folders, Documents int
	Owners                                     int
}

// Small has 2,835 tuples, Large 67,004. Both hold two users who own 100 and
// 1,000 documents and two who see as many through a group and a folder.
func Small() Shape {
	return Shape{Name: "2835", Users: 100, Groups: 10, Members: 10, Folders: 13, Documents: 400, Owners: 105}
}

// Large is the shape of the published baseline.
func Large() Shape {
	return Shape{Name: "67k", Users: 1000, Groups: 100, Members: 50, Folders: 500, Documents: 49_900, Owners: 8_900}
}

// Question is one check.
type Question struct {
	Document, User string
}

// Data is a shape's tuples and questions of which half are granted.
type Data struct {
	Tuples            []rel.Tuple
	Direct, ThreeHops []Question
	members           map[int][]int // of a group
	groups            map[int][]int // on a folder
	*rand.Rand
}

// Make draws the data, always the same for a shape.
func (s Shape) Make() *Data {
	d := &Data{members: map[int][]int{}, groups: map[int][]int{}, Rand: rand.New(rand.NewPCG(67, 113))}
	for g := range s.Groups {
		for _, u := range d.some(s.Members, s.Users) {
			d.members[g] = append(d.members[g], u)
			d.add("group", fmt.Sprint("g", g), "member", user(u))
		}
	}
	for f := range s.Folders {
		for _, g := range d.some(2, s.Groups) {
			d.groups[f] = append(d.groups[f], g)
			d.add("folder", fmt.Sprint("f", f), "viewer", rel.Subject{Type: "group", ID: fmt.Sprint("g", g), Relation: "member"})
		}
	}
	for i := range s.Documents {
		f := d.IntN(s.Folders)
		d.add("document", document(i), "parent", rel.Subject{Type: "folder", ID: fmt.Sprint("f", f)})
		d.ThreeHops = append(d.ThreeHops, d.through(i, f, s.Users))
	}
	for i := range s.Owners {
		u := d.IntN(s.Users)
		d.add("document", document(i), "owner", user(u))
		if d.IntN(2) == 0 {
			u = (u + 1) % s.Users
		}
		d.Direct = append(d.Direct, Question{document(i), fmt.Sprint("u", u)})
	}
	for _, n := range []int{100, 1000} {
		name := fmt.Sprint("list", n)
		d.add("group", name, "member", rel.Subject{Type: "user", ID: "sees" + name})
		d.add("folder", name, "viewer", rel.Subject{Type: "group", ID: name, Relation: "member"})
		for i := range n {
			d.add("document", fmt.Sprint(name, "-", i), "parent", rel.Subject{Type: "folder", ID: name})
			d.add("document", fmt.Sprint(name, "-", i), "owner", rel.Subject{Type: "user", ID: "owns" + name})
		}
	}
	return d
}

// through draws a question about a document of a folder.
func (d *Data) through(i, folder, users int) Question {
	q := Question{document(i), fmt.Sprint("u", d.IntN(users))}
	if d.IntN(2) == 0 {
		members := d.members[d.groups[folder][d.IntN(2)]]
		q.User = fmt.Sprint("u", members[d.IntN(len(members))])
	}
	return q
}

// some draws n different numbers below max.
func (d *Data) some(n, max int) []int { return d.Perm(max)[:n] }

func (d *Data) add(typ, id, relation string, s rel.Subject) {
	d.Tuples = append(d.Tuples, rel.Tuple{Object: rel.Object{Type: typ, ID: id}, Relation: relation, Subject: s})
}

func user(u int) rel.Subject { return rel.Subject{Type: "user", ID: fmt.Sprint("u", u)} }
func document(i int) string  { return fmt.Sprint("d", i) }
