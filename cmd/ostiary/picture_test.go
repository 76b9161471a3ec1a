package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestPicture compares the picture of README, docs/explain.svg, with what the commands that
// it shows print on the example of examples/demo. OSTIARY_REWRITE=1 draws it again.
func TestPicture(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	ostiary := func(line string) string {
		return runUntil(t, append(words(line), "--data", data), 0)
	}
	ostiary("store create acme")
	ostiary("schema write ../../examples/demo/model.fga")
	ostiary("tuple import ../../examples/demo/tuples.yaml")
	var want strings.Builder
	for _, line := range []string{"explain user:anne can_view document:budget", "explain user:bob can_view document:budget"} {
		want.WriteString("$ ostiary " + line + "\n" + ostiary(line) + "\n")
	}
	text := strings.TrimRight(want.String(), "\n")
	const file = "../../docs/explain.svg"
	golden.Equal(t, file, draw(text))
	drawn, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Lines []struct {
			Text string `xml:",innerxml"`
		} `xml:"text"`
	}
	if err := xml.Unmarshal(drawn, &picture); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range picture.Lines {
		got = append(got, shown(t, line.Text))
	}
	if strings.Join(got, "\n") != text {
		t.Errorf("the text of %s is\n%s\nexpected\n%s", file, strings.Join(got, "\n"), text)
	}
}

// shown returns the text of a part of an SVG document, without its elements.
func shown(t *testing.T, part string) string {
	t.Helper()
	var out strings.Builder
	for decoder := xml.NewDecoder(strings.NewReader(part)); ; {
		token, err := decoder.Token()
		if token == nil {
			if out.Len() == 0 && part != "" {
				t.Fatalf("%q has no text: %v", part, err)
			}
			return out.String()
		}
		if text, ok := token.(xml.CharData); ok {
			out.Write(text)
		}
	}
}

// draw returns a picture of a terminal with a text, as SVG: its lines appear one after the
// other, those of a command at once, and a viewer without animations shows all.
func draw(text string) string {
	const width, height, margin = 8.5, 20, 20 // of a character and of a line, in pixels
	lines := strings.Split(text, "\n")
	longest := 0
	for _, line := range lines {
		longest = max(longest, utf8.RuneCountInString(line))
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="two commands in a terminal">`+"\n", int(float64(longest)*width)+2*margin, len(lines)*height+2*margin)
	out.WriteString(`<style>
text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #d0d7de; white-space: pre; animation: show 0.2s backwards }
.command { fill: #ffffff; font-weight: bold } .yes { fill: #3fb950 } .no { fill: #f85149 }
@keyframes show { from { opacity: 0 } to { opacity: 1 } }
@media (prefers-reduced-motion: reduce) { text { animation: none } }
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
`)
	delay := 0.0
	for i, line := range lines {
		class := ""
		if strings.HasPrefix(line, "$ ") {
			class = ` class="command"`
			delay += 0.8
		}
		marked := strings.NewReplacer("&", "&amp;", "<", "&lt;", "✓", `<tspan class="yes">✓</tspan>`, "✗", `<tspan class="no">✗</tspan>`).Replace(line)
		fmt.Fprintf(&out, `<text x="%d" y="%d"%s style="animation-delay: %.2fs" xml:space="preserve">%s</text>`+"\n", margin, margin+height*i+14, class, delay, marked)
		delay += 0.12
	}
	out.WriteString("</svg>\n")
	return out.String()
}
