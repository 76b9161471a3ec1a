// Package graphtest generates data for the benchmarks of graph, eval and the
// root package, and questions about it whose answers are known. Its main type
// is [Shape]: folders, groups, documents and users in fixed proportions, at any
// size, computed from a seed. It stores nothing and does not use the engine.
package graphtest

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"strconv"

	"github.com/ostiary/ostiary/rel"
)

// Model is the OpenFGA model of the tuples of a [Shape].
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

// Shape describes a set of about Tuples tuples. For each tuple there are 0.745
// documents. Each document has a random parent folder, and one in five has an
// owner. There is a group of 50 members for every 670 tuples, and a folder,
// viewed by two groups, for every 134. The tuples name about 0.77 objects each.
// The list and fan-out cases are added to that; their number does not depend on
// Tuples. All methods are safe for concurrent use.
type Shape struct {
	// Tuples is the size of the proportional part, at least [TuplesMin].
	Tuples int
	// UUID makes ids of 36 bytes, like those of random UUIDs, instead of short
	// ones.
	UUID bool
	// Fan is the number of groups in each fan-out case; 0 omits these cases.
	Fan int
	// Lists is the number of users with a list of 100 documents, and of those
	// with a list of 1,000; 0 omits these cases.
	Lists int
	// Seed selects one of many data sets of the same shape.
	Seed uint64
}

// TuplesMin is the smallest [Shape]: with it there are enough users for a
// group.
const TuplesMin = 4_000

const (
	membersPerGroup = 50
	fanFew          = 5 // groups on the small side of a fan-out case
)

// Documents returns the number of documents in the proportional part.
func (s Shape) Documents() int { return s.Tuples * 745 / 1000 }

// Folders returns the number of folders.
func (s Shape) Folders() int { return s.Tuples / 134 }

// Groups returns the number of groups.
func (s Shape) Groups() int { return s.Tuples / 670 }

// Users returns the number of users.
func (s Shape) Users() int { return s.Tuples / 67 }

// Document returns the i-th document.
func (s Shape) Document(i int) rel.Object { return rel.Object{Type: "document", ID: s.id('d', i)} }

// Folder returns the i-th folder.
func (s Shape) Folder(i int) rel.Object { return rel.Object{Type: "folder", ID: s.id('f', i)} }

// Group returns the i-th group.
func (s Shape) Group(i int) rel.Object { return rel.Object{Type: "group", ID: s.id('g', i)} }

// User returns the i-th user.
func (s Shape) User(i int) rel.Object { return rel.Object{Type: "user", ID: s.id('u', i)} }

// Parent returns the number of document i's folder.
func (s Shape) Parent(i int) int { return s.pick('p', i, s.Folders()) }

// Owner returns the number of document i's owner, and false if it has none.
func (s Shape) Owner(i int) (int, bool) {
	// 0.15 of the tuples over 0.745 of them are close to one document in five.
	return s.pick('o', i, s.Users()), i%5 == 0
}

// Member returns the number of the j-th of the 50 members of group i.
func (s Shape) Member(i, j int) int { return (s.pick('m', i, s.Users()) + j) % s.Users() }

// Viewer returns the number of one of the two groups that view folder i. j is 0
// or 1; the groups differ if there are at least two.
func (s Shape) Viewer(i, j int) int {
	first := s.pick('v', i, s.Groups())
	if j == 0 || s.Groups() == 1 {
		return first
	}
	return (first + 1 + s.pick('w', i, s.Groups()-1)) % s.Groups()
}

// InGroup reports whether user u is one of the 50 members of group i.
func (s Shape) InGroup(i, u int) bool {
	return (u-s.pick('m', i, s.Users())+s.Users())%s.Users() < membersPerGroup
}

// Sees reports whether user u views document i through the groups of its
// folder.
func (s Shape) Sees(i, u int) bool {
	f := s.Parent(i)
	return s.InGroup(s.Viewer(f, 0), u) || s.InGroup(s.Viewer(f, 1), u)
}

// All returns every tuple of s once: groups, folders and documents, with the
// documents of the list cases spread among them, then the rest of the list
// cases and the fan-out cases.
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

// ListUser returns the i-th user who views exactly n documents. n is 100 or
// 1,000.
func (s Shape) ListUser(n, i int) rel.Object {
	return rel.Object{Type: "user", ID: "list" + strconv.Itoa(n) + "-" + strconv.Itoa(i)}
}

// lists yields the groups and folders of the list cases. Each list user has a
// group with no other members, which views one folder for every 100 documents.
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

// listRound yields the j-th document of every long list and, for every tenth j,
// one document of every short list. So the documents of one list are spread
// among all documents, as if users had written them one by one.
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

// FanUser returns a user in 5 groups.
//
// The fan-out cases are: FanUser and FanDocument, which is shared with Fan
// groups; MirrorUser, who is in Fan groups, and MirrorDocument, which is shared
// with 5. The user may view the document only if allowed is true; then the user
// and the document share exactly one group.
func (s Shape) FanUser() rel.Object { return rel.Object{Type: "user", ID: "fan"} }

// FanDocument returns a document that is shared with Fan groups. If allowed is
// true, it is also shared with one of FanUser's groups.
func (s Shape) FanDocument(allowed bool) rel.Object { return fanDocument("fan", allowed) }

// MirrorUser returns a user in Fan groups.
func (s Shape) MirrorUser() rel.Object { return rel.Object{Type: "user", ID: "mirror"} }

// MirrorDocument returns a document that is shared with 5 groups. If allowed is
// true, it is also shared with one of MirrorUser's groups.
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

// Question is a check with its known result.
type Question struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
	Allowed  bool // whether the subject has the relation
}

// Direct returns n random questions that one stored tuple decides: "owner" of a
// document. Half of them are allowed.
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

// ThreeHop returns n random questions that need three hops, from document to
// folder to group to user: "viewer" of a document that the user does not own.
// Half of them are allowed.
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

// pick returns a random number below n that depends only on the seed, the
// purpose and i.
func (s Shape) pick(purpose byte, i, n int) int {
	return int(mix(s.Seed^uint64(purpose)<<56^uint64(i)) % uint64(n))
}

// id returns the id of the i-th object of a kind.
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

// mix is a bijection of 64-bit numbers whose result looks random: two rounds of
// xor, shift and multiplication by an odd constant.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
