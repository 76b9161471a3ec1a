package rules

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// workshop is the floor whose rooms no other floor imports.
const workshop = "Workshop"

// lineMax is the length of the longest line of the picture of rooms, in runes.
const lineMax = 96

// floor is a group of rooms, with its name, the meaning that follows its name, and
// its rooms in the order of the table of imports.
type floor struct {
	name, meaning string
	rooms         []string
}

// floors returns the floors of the table of imports, the highest one first and the
// workshop last.
func floors(t *testing.T) []floor {
	t.Helper()
	var out []floor
	for line := range strings.Lines(strings.TrimSpace(rooms)) {
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			name, meaning, _ := strings.Cut(strings.TrimSpace(heading), ": ")
			out = append(out, floor{name: name, meaning: meaning})
			continue
		}
		if len(out) == 0 {
			t.Fatalf("rooms: %q is above the first floor", line)
		}
		room, _, _ := strings.Cut(line, ":")
		last := &out[len(out)-1]
		last.rooms = append(last.rooms, room)
	}
	if out[len(out)-1].name != workshop {
		t.Fatalf("rooms: the last floor is %q, expected %q", out[len(out)-1].name, workshop)
	}
	return out
}

// TestFloors checks that no room may import a room of a higher floor, and that only
// the workshop may import the workshop.
func TestFloors(t *testing.T) {
	height := map[string]int{}
	all := floors(t)
	for i, f := range all {
		for _, room := range f.rooms {
			if _, twice := height[room]; twice {
				t.Errorf("rooms: %s is listed twice", room)
			}
			height[room] = len(all) - i
		}
	}
	for room, may := range rules(t) {
		for _, other := range may {
			at, ok := height[other]
			switch {
			case other == "*":
			case !ok:
				t.Errorf("rooms: %s may import %s, which has no line of its own", room, other)
			case height[room] == 1:
			case at == 1:
				t.Errorf("rooms: %s may import %s, but only the floor %q imports it", room, other, workshop)
			case at > height[room]:
				t.Errorf("rooms: %s may import %s, which is on a higher floor", room, other)
			}
		}
	}
}

// family returns the box in which the picture shows a room: the highest room above it
// on the same floor, or the room itself. Each door has a box of its own; the small tools
// share one, and so do the rooms of all programs.
func (f floor) family(room string) string {
	for _, folder := range []string{"internal/tool", "cmd/internal"} {
		if strings.HasPrefix(room, folder+"/") {
			return folder + "/*"
		}
	}
	for parent := path.Dir(room); parent != "."; parent = path.Dir(parent) {
		if slices.Contains(f.rooms, parent) && parent != "door" {
			return f.family(parent)
		}
	}
	return room
}

// levels sorts the boxes of a floor: each box imports only boxes of later levels. It
// fails if two boxes import each other.
func (f floor) levels(t *testing.T, may map[string][]string) [][]string {
	t.Helper()
	uses := map[string][]string{}
	everything := func(box string) bool { return slices.Contains(may[box], "*") }
	for _, room := range f.rooms {
		box := f.family(room)
		uses[box] = append(uses[box], may[room]...)
		if everything(box) {
			uses[box] = append(uses[box], slices.DeleteFunc(slices.Clone(f.rooms), everything)...)
		}
	}
	height := map[string]int{}
	var climb func(box string, above []string) int
	climb = func(box string, above []string) int {
		if slices.Contains(above, box) {
			t.Fatalf("rooms: boxes import each other: %s", strings.Join(append(above, box), ", "))
		}
		if known, ok := height[box]; ok {
			return known
		}
		level := 0
		for _, other := range uses[box] {
			if slices.Contains(f.rooms, other) && f.family(other) != box {
				level = max(level, 1+climb(f.family(other), append(above, box)))
			}
		}
		height[box] = level
		return level
	}
	var out [][]string
	for _, room := range f.rooms {
		box := f.family(room)
		level := climb(box, nil)
		for len(out) <= level {
			out = append(out, nil)
		}
		if !slices.Contains(out[level], box) {
			out[level] = append(out[level], box)
		}
	}
	slices.Reverse(out)
	return out
}

// label returns the text of a box.
func label(box string) string {
	if box == "." {
		return "ostiary"
	}
	return box
}

// line returns the labels of boxes, after a mark. A box that does not fit into the line
// begins the next one.
func line(mark string, boxes []string) string {
	var out strings.Builder
	text := mark
	for i, box := range boxes {
		switch {
		case i == 0:
			text += label(box)
		case len([]rune(text+"   "+label(box))) <= lineMax:
			text += "   " + label(box)
		default:
			out.WriteString(text + "\n")
			text = "   " + label(box)
		}
	}
	return out.String() + text + "\n"
}

// picture draws the floors as text. Of the workshop it has the folders only.
func picture(t *testing.T) string {
	t.Helper()
	may := rules(t)
	var out strings.Builder
	for _, f := range floors(t) {
		if f.name == workshop {
			fmt.Fprintf(&out, "\n┄┄ %s: %s\n%s", f.name, f.meaning, line("   ", f.folders()))
			continue
		}
		fmt.Fprintf(&out, "── %s: %s\n", f.name, f.meaning)
		for i, level := range f.levels(t, may) {
			mark := " ↓ "
			if i == 0 {
				mark = "   "
			}
			out.WriteString(line(mark, level))
		}
	}
	return "```text\n" + out.String() + "```\n"
}

// folders returns the rooms of the workshop: one name for those in its own folder.
func (f floor) folders() (all []string) {
	for _, room := range f.rooms {
		if above, _, found := strings.Cut(room, "workshop/"); found {
			room = above + "workshop/*"
		}
		if !slices.Contains(all, room) {
			all = append(all, room)
		}
	}
	return all
}

const (
	pictureBegin = "<!-- rooms: made by OSTIARY_REWRITE=1 go test ./internal/workshop/rules -->\n"
	pictureEnd   = "<!-- end of rooms -->\n"
)

// TestRoomsInArchitecture checks that ARCHITECTURE.md has the picture of the table of
// imports. With OSTIARY_REWRITE it draws the picture.
func TestRoomsInArchitecture(t *testing.T) {
	const file = "../../../ARCHITECTURE.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, drawn := strings.Cut(string(text), pictureBegin)
	_, after, closed := strings.Cut(rest, pictureEnd)
	if !drawn || !closed {
		t.Fatalf("%s: expected %q and %q", file, pictureBegin, pictureEnd)
	}
	golden.Equal(t, file, before+pictureBegin+picture(t)+pictureEnd+after)
}
