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

// family returns the room in whose box the picture shows a room: the highest room
// above it on the same floor, or itself. Each door has a box of its own.
func (f floor) family(room string) string {
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

// label returns the text of a box: the room, and the rooms below it in parentheses.
func (f floor) label(box string) string {
	var inner []string
	for _, room := range f.rooms {
		if room != box && f.family(room) == box {
			inner = append(inner, strings.TrimPrefix(room, box+"/"))
		}
	}
	if box == "." {
		box = "ostiary"
	}
	if len(inner) == 0 {
		return box
	}
	return box + " (" + strings.Join(inner, ", ") + ")"
}

// line returns the labels of boxes, after a mark. A box that does not fit into the line
// begins the next one, and a box that fits into no line goes on further in.
func (f floor) line(mark string, boxes []string) string {
	var out strings.Builder
	line := mark
	fits := func(text string) bool { return len([]rune(line+strings.TrimRight(text, " "))) <= lineMax }
	next := func(indent string) {
		out.WriteString(strings.TrimRight(line, " ") + "\n")
		line = indent
	}
	for i, box := range boxes {
		label := f.label(box)
		if i > 0 && fits("   "+label) {
			line += "   "
		} else if i > 0 {
			next("   ")
		}
		for _, word := range strings.SplitAfter(label, ", ") {
			if !fits(word) {
				next("      ")
			}
			line += word
		}
	}
	next("")
	return out.String()
}

// picture draws the floors as text.
func picture(t *testing.T) string {
	t.Helper()
	may := rules(t)
	var out strings.Builder
	for _, f := range floors(t) {
		title := " " + f.name + ": " + f.meaning + " "
		edge := "─"
		if f.name == workshop {
			out.WriteString("\n")
			edge = "┄"
		}
		fmt.Fprintf(&out, "%s%s%s\n", strings.Repeat(edge, 2), title, strings.Repeat(edge, lineMax-2-len([]rune(title))))
		for i, level := range f.levels(t, may) {
			mark := " ↓ "
			if i == 0 {
				mark = "   "
			}
			out.WriteString(f.line(mark, level))
		}
	}
	return "```text\n" + out.String() + "```\n"
}

const (
	pictureBegin = "<!-- rooms: made by OSTIARY_REWRITE=1 go test ./internal/workshop/rules -->\n"
	pictureEnd   = "<!-- end of rooms -->\n"
	tableHead    = "| room | what it does | what it never does |\n|---|---|---|\n"
)

// TestRoomsInArchitecture checks that the section on rooms of ARCHITECTURE.md has the
// picture of the table of imports, and for each floor a table with a row for each
// room or a folder above it. With OSTIARY_REWRITE it draws the picture, and moves
// each row to the floor of its room.
func TestRoomsInArchitecture(t *testing.T) {
	const file = "../../../ARCHITECTURE.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, section, found := strings.Cut(string(text), "\n## Rooms\n")
	section, after, ended := strings.Cut(section, "\n## ")
	intro, rest, drawn := strings.Cut(section, pictureBegin)
	if _, _, closed := strings.Cut(rest, pictureEnd); !found || !ended || !drawn || !closed {
		t.Fatalf("%s: expected a section Rooms with %q and %q", file, pictureBegin, pictureEnd)
	}
	made := intro + pictureBegin + picture(t) + pictureEnd + tables(t, rest)
	if t.Failed() {
		return // a row without a room would get lost
	}
	golden.Equal(t, file, before+"\n## Rooms\n"+made+"\n## "+after)
}

// tables returns the rows of a text as one table for each floor, in the order of the
// table of imports. It fails for a row without a room, and for a room without a row.
func tables(t *testing.T, text string) string {
	t.Helper()
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		if cell, ok := strings.CutPrefix(line, "| "); ok && !strings.Contains(tableHead, line) {
			rows[rowRoom(cell)] = line
		}
	}
	var out strings.Builder
	used := map[string]bool{}
	for _, f := range floors(t) {
		fmt.Fprintf(&out, "\n### %s\n\n%s", f.name, tableHead)
		for _, room := range f.rooms {
			at := room
			for rows[at] == "" && at != "." {
				at = path.Dir(at)
			}
			if rows[at] == "" || at == "." && room != "." {
				if !namedIn(text, room) {
					t.Errorf("ARCHITECTURE.md, section Rooms: no row for `%s`: add one to any of its tables", room)
				}
				continue
			}
			if !used[at] {
				out.WriteString(rows[at])
			}
			used[at] = true
		}
	}
	for room := range rows {
		if !used[room] {
			t.Errorf("ARCHITECTURE.md, section Rooms: the row `%s` has no room in the table of imports: rename or delete it", room)
		}
	}
	return out.String()
}

// rowRoom returns the room that a row begins with.
func rowRoom(cell string) string {
	if strings.HasPrefix(cell, "root (") {
		return "."
	}
	_, room, _ := strings.Cut(cell, "`")
	room, _, _ = strings.Cut(room, "`")
	return room
}

// namedIn reports whether a row that begins with another room also has this one.
func namedIn(text, room string) bool { return strings.Contains(text, ", `"+room+"`") }
