package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// limitation matches the words with which a package comment describes what the
// package never does.
var limitation = regexp.MustCompile(`(?i)\b(never|no|not|nothing|neither|nor|none|only|without|cannot)\b`)

// TestRoomsAreDescribed checks that each room has one package comment, and that it
// describes what the room is for and what it never does. There is no other
// description of a room: "go doc" shows this one.
func TestRoomsAreDescribed(t *testing.T) {
	t.Parallel()
	comments := map[string][]string{}
	sources(t, func(room, file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		comments[room] = append(comments[room], packageComment(parsed)...)
	})
	for room, all := range comments {
		if len(all) != 1 {
			t.Errorf("%s has %d package comments, expected 1", room, len(all))
			continue
		}
		name := path.Base(room)
		if room == "." {
			name = "ostiary"
		}
		if text := all[0]; !strings.HasPrefix(text, "Package "+name+" ") && !strings.HasPrefix(text, "Command "+name+" ") {
			t.Errorf("%s: the package comment begins with %.40q, expected \"Package %s\" or \"Command %s\"", room, text, name, name)
		} else if strings.HasPrefix(text, "Package ") && !limitation.MatchString(text) {
			t.Errorf("%s: the package comment has no sentence about what the package never does", room)
		}
	}
	if len(comments) < 100 {
		t.Errorf("found %d rooms, expected at least 100", len(comments))
	}
}

// packageComment returns the comment in front of a package clause, if there is one.
func packageComment(file *ast.File) []string {
	if file.Doc == nil {
		return nil
	}
	if text := strings.TrimSpace(file.Doc.Text()); text != "" {
		return []string{text}
	}
	return nil
}
