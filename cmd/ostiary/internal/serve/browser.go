package serve

import (
	"errors"
	"io"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
)

// consoleCommand returns the command that serves a folder for a browser on this machine.
func (a *app) consoleCommand() *cobra.Command {
	noBrowser := false
	cmd := cli.Uses(&cobra.Command{Use: "console", Short: "Open the console on the data, in a browser on this machine", Args: cobra.NoArgs,
		Long: "Open the console on the data, in a browser on this machine, until the command is interrupted. A missing data folder is created.\n\n" +
			"It serves the console, the native API and OpenFGA's on a free port of the loopback address, never to other machines. If the data has keys (ostiary key), the console asks for one.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(cli.RefuseNegative(cmd.Flags()), a.CleanData()); err != nil {
				return err
			}
			f := loopback()
			f.opened = func(address string) error {
				url := "http://" + address + "/console/"
				if err := a.Print(map[string]string{"console": url}, func(w io.Writer) { cli.Printf(w, "%s\n", url) }); err != nil || noBrowser {
					return err
				}
				if err := openBrowser(url); err != nil {
					cli.Printf(a.Err, "no browser was opened (%v): open the address above\n", err)
				}
				return nil
			}
			return a.serve(cmd.Context(), f)
		}}, "data", "secret-key-file", "lock-wait", "model", "tuples")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address and open no browser")
	return cmd
}

// loopback returns the defaults of the command serve, but on a free port that only this machine
// reaches. Neither variables nor a configuration file change them.
func loopback() *serveFlags {
	f, defaults := &serveFlags{}, &cobra.Command{}
	f.add(defaults)
	f.http, f.grpc, f.metrics = "127.0.0.1:0", off, off
	f.doors = []string{native.Name, openfga.Name}
	f.drainTime, f.level = 0, "error"
	return f
}

// openBrowser opens a URL with the program that the system has for it. It does not wait for it.
func openBrowser(url string) error {
	words := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		words = []string{"open"}
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	opener := exec.Command(words[0], append(words[1:], url)...)
	if err := opener.Start(); err != nil {
		return err
	}
	go opener.Wait() // its result does not matter: the address is printed
	return nil
}
