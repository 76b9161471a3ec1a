package serve

import (
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/console"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/server"
)

// consoleOn is the value of --console that serves the console; [off] is the other one.
const consoleOn = "on"

// checkConsole fails if --console has another value than on or off.
func (f *serveFlags) checkConsole() error {
	if f.console != consoleOn && f.console != off {
		return fmt.Errorf("%w: invalid --console %q: expected on or off", cli.ErrUsage, f.console)
	}
	return nil
}

// openConsole adds the console to the doors that share a port, if that port is there and has the
// native door, which the console asks.
func (f *serveFlags) openConsole(o *server.Options) error {
	if f.console == off || o.HTTP == "" || !slices.ContainsFunc(o.Doors, func(d *door.Door) bool { return d.Name == native.Name }) {
		return nil
	}
	d, err := console.New()
	o.Doors = append(slices.Clip(o.Doors), d)
	return err
}
