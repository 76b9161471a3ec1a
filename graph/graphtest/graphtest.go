// Package graphtest makes the data that benchmarks of graph, eval and the
// root package ask questions of. Its main type is Shape: folders, groups,
// documents and users in fixed proportions, at any size, from a seed, without
// holding them in memory. It stores nothing and answers nothing but what
// follows from its own arithmetic.
package graphtest

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"strconv"

	"github.com/ostiary/ostiary/rel"
)

// Model is the OpenFGA model that the tuples of a Shape obey.
const Model = `model
  schema 1.1

type user

type group
  relations
    define member: [user]

type folder
  relations
    define viewer: [user, group#member]

type document
  relations
    define parent: [folder]
    define owner: [user]
    define viewer: [user, group#member] or owner or viewer from parent
`

// Shape is a world of about Tuples tuples: 0.745 documents a tuple, each with
// a random parent folder, 0.15 of them besides with an owner; a group of 50
// members for every 670 tuples; a folder for every 134, seen by two groups;
// users enough for 0.77 names a tuple. Upon that come the list and fan-out
// cases, whose number does not grow with Tuples. It is a value; all methods
// are safe for concurrent use.
type Shape struct {
	// Tuples is the size of the proportional part, at least TuplesMin.
	Tuples int
	// UUID makes ids of 36 bytes, as random UUIDs have, instead of short ones.
	UUID bool
	// Fan is the number of groups in each fan-out case; 0 leaves them out.
	Fan int
	// Lists is the number of users with lists of 100 and of 1,000 documents;
	// 0 leaves them out.
	Lists int
	// Seed makes another world of the same shape.
	Seed uint64
}

// TuplesMin is the least Tuples of a Shape: enough users for a group.
const TuplesMin = 4_000

const (
	membersPerGroup = 50
	fanFew          = 5 // groups on the small side of a fan-out case
)

// Documents, Folders, Groups and Users count the proportional part.
func (s Shape) Documents() int { return s.Tuples * 745 / 1000 }

// Folders counts the folders.
func (s Shape) Folders() int { return s.Tuples / 134 }

// Groups counts the groups.
func (s Shape) Groups() int { return s.Tuples / 670 }

// Users counts the users.
func (s Shape) Users() int { return s.Tuples / 67 }

// Document, Folder, Group and User name the i-th of their type.
func (s Shape) Document(i int) rel.Object { return rel.Object{Type: "document", ID: s.id('d', i)} }

// Folder names the i-th folder.
func (s Shape) Folder(i int) rel.Object { return rel.Object{Type: "folder", ID: s.id('f', i)} }

// Group names the i-th group.
func (s Shape) Group(i int) rel.Object { return rel.Object{Type: "group", ID: s.id('g', i)} }

// User names the i-th user.
func (s Shape) User(i int) rel.Object { return rel.Object{Type: "user", ID: s.id('u', i)} }

// Parent returns the folder of document i.
func (s Shape) Parent(i int) int { return s.pick('p', i, s.Folders()) }

// Owner returns the user that owns document i, or false.
func (s Shape) Owner(i int) (int, bool) {
	// 0.15 of the tuples over 0.745 of them are close to one document in five.
	return s.pick('o', i, s.Users()), i%5 == 0
}

// Member returns the j-th of the 50 members of group i.
func (s Shape) Member(i, j int) int { return (s.pick('m', i, s.Users()) + j) % s.Users() }

// Viewer returns the first or second (j is 0 or 1) of the groups that see
// folder i; the two differ where there are two groups.
func (s Shape) Viewer(i, j int) int {
	first := s.pick('v', i, s.Groups())
	if j == 0 || s.Groups() == 1 {
		return first
	}
	return (first + 1 + s.pick('w', i, s.Groups()-1)) % s.Groups()
}

// InGroup says whether user u is one of the 50 members of group i.
func (s Shape) InGroup(i, u int) bool {
	return (u-s.pick('m', i, s.Users())+s.Users())%s.Users() < membersPerGroup
}

// Sees says whether user u has document i through its folder's groups.
func (s Shape) Sees(i, u int) bool {
	f := s.Parent(i)
	return s.InGroup(s.Viewer(f, 0), u) || s.InGroup(s.Viewer(f, 1), u)
}

// All yields every tuple of s, each once: groups, folders, documents, with those
// of the list cases spread among them, then the rest of the list and fan-out
// cases.
func (s Shape) All() iter.Seq[rel.Tuple] {
	return func(yield func(rel.Tuple) bool) {
		_ = s.groups(yield) && s.folders(yield) && s.documents(yield) && s.lists(yield) && s.fans(yield)
	}
}

func (s Shape) groups(yield func(rel.Tuple) bool) bool {
	for i := range s.Groups() {
		for j := range membersPerGroup {
			if !yield(tuple(s.Group(i), "member", s.User(s.Member(i, j)).AsSubject())) {
				return false
			}
		}
	}
	return true
}

func (s Shape) folders(yield func(rel.Tuple) bool) bool {
	for i := range s.Folders() {
		for j := range 2 {
			if j == 1 && s.Groups() == 1 {
				continue
			}
			if !yield(tuple(s.Folder(i), "viewer", members(s.Group(s.Viewer(i, j))))) {
				return false
			}
		}
	}
	return true
}

func (s Shape) documents(yield func(rel.Tuple) bool) bool {
	round := 0
	for i := range s.Documents() {
		d := s.Document(i)
		if !yield(tuple(d, "parent", s.Folder(s.Parent(i)).AsSubject())) {
			return false
		}
		if u, ok := s.Owner(i); ok && !yield(tuple(d, "owner", s.User(u).AsSubject())) {
			return false
		}
		for ; round < listLong*(i+1)/s.Documents(); round++ {
			if !s.listRound(round, yield) {
				return false
			}
		}
	}
	return true
}

// The lengths of the two kinds of lists.
const (
	listShort = 100
	listLong  = 1000
)

// ListUser names the i-th user whose list of documents through "viewer" has
// exactly n entries, n being 100 or 1,000.
func (s Shape) ListUser(n, i int) rel.Object {
	return rel.Object{Type: "user", ID: "list" + strconv.Itoa(n) + "-" + strconv.Itoa(i)}
}

// lists gives each list user a group of his own, that sees one folder for
// every 100 documents, in which nobody else has a part.
func (s Shape) lists(yield func(rel.Tuple) bool) bool {
	for i := range s.Lists {
		for _, n := range []int{listShort, listLong} {
			u := s.ListUser(n, i)
			g := rel.Object{Type: "group", ID: u.ID}
			if !yield(tuple(g, "member", u.AsSubject())) {
				return false
			}
			for j := 0; j < n; j += listShort {
				if !yield(tuple(s.listFolder(n, i, j), "viewer", members(g))) {
					return false
				}
			}
		}
	}
	return true
}

func (s Shape) listFolder(n, i, j int) rel.Object {
	return rel.Object{Type: "folder", ID: s.ListUser(n, i).ID + "-" + strconv.Itoa(j/listShort)}
}

// listRound yields the j-th document of every long list, and for some j one of
// every short list: so that a list's documents stand far from each other among
// all the others, as they do where they were written one by one.
func (s Shape) listRound(j int, yield func(rel.Tuple) bool) bool {
	const every = listLong / listShort
	for i := range s.Lists {
		for _, n := range []int{listShort, listLong} {
			at := j
			if n == listShort {
				if at = j / every; j%every != 0 {
					continue
				}
			}
			d := rel.Object{Type: "document", ID: s.ListUser(n, i).ID + "-" + strconv.Itoa(at)}
			if !yield(tuple(d, "parent", s.listFolder(n, i, at).AsSubject())) {
				return false
			}
		}
	}
	return true
}

// The fan-out cases: FanUser is in 5 groups and FanDocument is shared with Fan
// groups; MirrorUser is in Fan groups and MirrorDocument is shared with 5.
// Check(FanUser, viewer, FanDocument) and its mirror are false; with the
// Allowed documents, that one common group reaches, they are true.
func (s Shape) FanUser() rel.Object { return rel.Object{Type: "user", ID: "fan"} }

// FanDocument is shared with Fan groups, one of them FanUser's if allowed.
func (s Shape) FanDocument(allowed bool) rel.Object { return fanDocument("fan", allowed) }

// MirrorUser is in Fan groups.
func (s Shape) MirrorUser() rel.Object { return rel.Object{Type: "user", ID: "mirror"} }

// MirrorDocument is shared with 5 groups, one of them MirrorUser's if allowed.
func (s Shape) MirrorDocument(allowed bool) rel.Object { return fanDocument("mirror", allowed) }

func fanDocument(name string, allowed bool) rel.Object {
	if allowed {
		name += "-allowed"
	}
	return rel.Object{Type: "document", ID: name}
}

func (s Shape) fans(yield func(rel.Tuple) bool) bool {
	if s.Fan == 0 {
		return true
	}
	group := func(name string, i int) rel.Object {
		return rel.Object{Type: "group", ID: name + "-" + strconv.Itoa(i)}
	}
	for i := range s.Fan {
		mine, other := group("many", i), group("lone", i)
		if !yield(tuple(mine, "member", s.MirrorUser().AsSubject())) ||
			!yield(tuple(s.FanDocument(false), "viewer", members(other))) ||
			!yield(tuple(s.FanDocument(true), "viewer", members(other))) {
			return false
		}
	}
	for i := range fanFew {
		few, strange := group("few", i), group("strange", i)
		if !yield(tuple(few, "member", s.FanUser().AsSubject())) ||
			!yield(tuple(s.MirrorDocument(false), "viewer", members(strange))) ||
			!yield(tuple(s.MirrorDocument(true), "viewer", members(strange))) {
			return false
		}
	}
	return yield(tuple(s.FanDocument(true), "viewer", members(group("few", fanFew/2)))) &&
		yield(tuple(s.MirrorDocument(true), "viewer", members(group("many", s.Fan/2))))
}

// Question is one question by words, with its answer.
type Question struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
	Allowed  bool
}

// Direct returns n questions that one stored tuple decides ("owner" of a
// document), uniformly random, half of them allowed.
func (s Shape) Direct(n int) []Question {
	qs := make([]Question, 0, n)
	for i := range n {
		d := s.pick('a', i, s.Documents()/5) * 5
		u, _ := s.Owner(d)
		allowed := i%2 == 0
		if !allowed {
			u = (u + 1 + s.pick('b', i, s.Users()-1)) % s.Users()
		}
		qs = append(qs, Question{s.Document(d), "owner", s.User(u).AsSubject(), allowed})
	}
	return qs
}

// ThreeHop returns n questions that take the way document, folder, group,
// user ("viewer" of a document that the user does not own), uniformly random,
// half of them allowed.
func (s Shape) ThreeHop(n int) []Question {
	qs := make([]Question, 0, n)
	for i := 0; len(qs) < n; i++ {
		d := s.pick('c', i, s.Documents())
		want := len(qs)%2 == 0
		u := s.pick('e', i, s.Users())
		if want {
			u = s.Member(s.Viewer(s.Parent(d), i&1), s.pick('h', i, membersPerGroup))
		}
		if o, ok := s.Owner(d); s.Sees(d, u) != want || ok && o == u {
			continue
		}
		qs = append(qs, Question{s.Document(d), "viewer", s.User(u).AsSubject(), want})
	}
	return qs
}

func tuple(o rel.Object, relation string, s rel.Subject) rel.Tuple {
	return rel.Tuple{Object: o, Relation: relation, Subject: s}
}

func members(g rel.Object) rel.Subject {
	return rel.Subject{Type: g.Type, ID: g.ID, Relation: "member"}
}

// pick is a random number below n that depends on the seed, a purpose and i.
func (s Shape) pick(purpose byte, i, n int) int {
	return int(mix(s.Seed^uint64(purpose)<<56^uint64(i)) % uint64(n))
}

// id is the name of the i-th thing of a kind.
func (s Shape) id(kind byte, i int) string {
	var buf [36]byte
	if !s.UUID {
		return string(strconv.AppendInt(append(buf[:0], kind), int64(i), 10))
	}
	var raw [16]byte
	hi := mix(s.Seed ^ uint64(kind)<<48 ^ uint64(i))
	binary.BigEndian.PutUint64(raw[:8], hi)
	binary.BigEndian.PutUint64(raw[8:], mix(hi+1))
	hex.Encode(buf[:8], raw[:4])
	hex.Encode(buf[9:13], raw[4:6])
	hex.Encode(buf[14:18], raw[6:8])
	hex.Encode(buf[19:23], raw[8:10])
	hex.Encode(buf[24:], raw[10:])
	buf[8], buf[13], buf[18], buf[23] = '-', '-', '-', '-'
	return string(buf[:])
}

// mix is a bijection of 64 bits that looks random (two rounds of
// xor, shift and multiply by odd constants).
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
