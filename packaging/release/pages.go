package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pages are the files that the program makes of itself, by their names: completions for
// shells, and a manual page for each command.
type pages struct{ bash, zsh, fish, powershell, manual map[string][]byte }

// makePages runs a program that was built for this system, and returns its pages.
func makePages(ctx context.Context, program string, s *source) (*pages, error) {
	p := &pages{}
	for _, shell := range []struct {
		name, file string
		into       *map[string][]byte
	}{{"bash", "ostiary", &p.bash}, {"zsh", "_ostiary", &p.zsh}, {"fish", "ostiary.fish", &p.fish}, {"powershell", "ostiary.ps1", &p.powershell}} {
		text, err := output(ctx, program, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		*shell.into = map[string][]byte{shell.file: []byte(text)}
	}
	p.manual = map[string][]byte{}
	return p, p.add(ctx, program, s, nil, "")
}

// output runs the program without the caller's environment, whose variables set its flags.
func output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=/"}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// add adds the manual page of a command and those of its commands. short is its line in the
// help of the command above, and empty for the program itself.
func (p *pages) add(ctx context.Context, program string, s *source, command []string, short string) error {
	text, err := output(ctx, program, append(slices.Clone(command), "--help-all")...)
	if err != nil {
		return err
	}
	h := parseHelp(text)
	if short == "" {
		short, _, _ = strings.Cut(strings.TrimRight(h.description, "\n"), "\n")
	}
	names := append([]string{"ostiary"}, command...)
	p.manual[strings.Join(names, "-")+".1"] = []byte(h.manual(names, short, s.version, s.date))
	for _, section := range h.sections {
		for _, e := range section.commands {
			if e.name == "help" {
				continue
			}
			if err := p.add(ctx, program, s, append(slices.Clone(command), e.name), e.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry is a command or a flag with its line of help.
type entry struct{ name, text string }

// section is a part of a help, below a heading. It has commands, flags or lines.
type section struct {
	heading         string
	commands, flags []entry
	lines           []string
}

// help is what a command prints for --help-all.
type help struct {
	description string
	usage       []string
	sections    []section
}

// everywhere is the heading of the flags that each command has. They are in the page of the
// program alone.
const everywhere = "Flags of every command"

var (
	flagLine    = regexp.MustCompile(`^\s+((?:-\w, )?--\S+(?: \S+)?)\s{2,}(\S.*)$`)
	commandLine = regexp.MustCompile(`^  ([a-z][a-z0-9-]*)\s+(\S.*)$`)
)

// parseHelp parses the help of a command.
func parseHelp(text string) *help {
	h := &help{}
	lines := strings.Split(text, "\n")
	at := slices.Index(lines, "Usage:")
	if at < 0 {
		at = len(lines)
	}
	h.description = strings.TrimSpace(strings.Join(lines[:at], "\n"))
	var current *section
	for _, line := range lines[at:] {
		name, heading := strings.CutSuffix(line, ":")
		switch {
		case heading && !strings.HasPrefix(line, " "):
			h.sections = append(h.sections, section{heading: name})
			current = &h.sections[len(h.sections)-1]
		case !strings.HasPrefix(line, " ") && line != "":
			current = nil // where other flags are
		case current == nil:
		case current.heading == "Usage":
			if line != "" {
				h.usage = append(h.usage, strings.TrimSpace(line))
			}
		case current.heading == "Examples":
			current.lines = append(current.lines, line)
		default:
			if m := flagLine.FindStringSubmatch(line); m != nil {
				current.flags = append(current.flags, entry{m[1], m[2]})
			} else if m := commandLine.FindStringSubmatch(line); m != nil {
				current.commands = append(current.commands, entry{m[1], m[2]})
			}
		}
	}
	return h
}

// manual returns the manual page of a command: names is the program and the command.
func (h *help) manual(names []string, short, version string, date time.Time) string {
	var out strings.Builder
	title := strings.Join(names, "-")
	fmt.Fprintf(&out, ".TH %s 1 %s \"ostiary %s\" \"Ostiary\"\n", strings.ToUpper(roff(title)), date.Format(time.DateOnly), roff(version))
	fmt.Fprintf(&out, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(title), roff(strings.TrimSuffix(short, ".")))
	for i, u := range h.usage {
		if i > 0 {
			out.WriteString(".br\n")
		}
		fmt.Fprintf(&out, ".B %s\n", roff(u))
	}
	out.WriteString(".SH DESCRIPTION\n")
	for line := range strings.SplitSeq(h.description, "\n") {
		if line == "" {
			out.WriteString(".PP\n")
		} else {
			fmt.Fprintf(&out, "%s\n.br\n", roff(line))
		}
	}
	for _, s := range h.sections {
		if s.heading == "Usage" || s.heading == everywhere || len(s.commands)+len(s.flags)+len(s.lines) == 0 {
			continue
		}
		fmt.Fprintf(&out, ".SH %s\n", strings.ToUpper(roff(s.heading)))
		if len(s.lines) > 0 {
			out.WriteString(".nf\n")
			for _, line := range s.lines {
				fmt.Fprintf(&out, "%s\n", roff(line))
			}
			out.WriteString(".fi\n")
		}
		for _, e := range slices.Concat(s.commands, s.flags) {
			fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(e.name), roff(e.text))
		}
	}
	see := "ostiary"
	if len(names) > 2 {
		see = strings.Join(names[:len(names)-1], "-")
	}
	if len(names) > 1 {
		out.WriteString(".SH SEE ALSO\n")
		if see != "ostiary" {
			out.WriteString(".BR ostiary (1),\n")
		}
		fmt.Fprintf(&out, ".BR %s (1)\n", roff(see))
	}
	return out.String()
}

// roff returns a text with the marks of the manual's language escaped.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// names returns the names of the files in order.
func names(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
