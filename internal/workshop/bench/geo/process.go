package geo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a running program of a cell.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // file of what it prints
	end  syscall.Signal
	gone chan struct{} // closed when it has ended
	err  error         // why; valid when gone is closed
}

// start starts a program on an instance and adds it to a group of the deployment. What it
// prints goes to a file in the folder.
func (d *deployment) start(group *[]*process, host int, name string, end syscall.Signal, env []string, command ...string) error {
	p := &process{name: fmt.Sprintf("%s of instance %d", name, host+1), end: end, gone: make(chan struct{}),
		log: filepath.Join(d.folder, fmt.Sprintf("%s-%d.log", name, host+1))}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = d.folder, log, log, append(os.Environ(), env...)
	if err := d.hosts.Start(host, p.cmd); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.gone)
	}()
	*group = append(*group, p)
	return nil
}

// ended returns an error if the program has ended, with the end of what it printed.
func (p *process) ended() error {
	select {
	case <-p.gone:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s %w: %v: %s", p.name, errLost, p.err, tail(text))
	default:
		return nil
	}
}

// tail returns the last lines of a text.
func tail(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("; ")))
}

// stopMax is how long a program may take to end.
const stopMax = 15 * time.Second

// stop ends the program.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(p.end)
	select {
	case <-p.gone:
	case <-time.After(stopMax):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}

// await calls try until it returns nil, a program of the deployment ends, or the time
// for starts is over.
func (d *deployment) await(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.startMax)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if lost := d.lost(); lost != nil {
			return fmt.Errorf("%s: %w", what, lost)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w", what, d.startMax, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// lost returns an error if a program has ended.
func (d *deployment) lost() error {
	for _, p := range slices.Concat(d.databases, d.servers) {
		if err := p.ended(); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command to its end.
func run(ctx context.Context, folder string, env []string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command[:min(3, len(command))], " "), err, tail(out))
	}
	return nil
}

// output returns what a command prints, in one line.
func output(command ...string) (string, error) {
	text, err := exec.Command(command[0], command[1:]...).Output()
	return strings.TrimSpace(string(text)), err
}
