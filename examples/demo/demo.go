// Package demo has the files of the example that the command "ostiary demo" plays. It never
// reads a folder, and decides nothing.
package demo

import "embed"

//go:embed model.fga tuples.yaml
var files embed.FS

// Model returns the model, in OpenFGA's language.
func Model() []byte { return read("model.fga") }

// Tuples returns the tuples, as a file for "ostiary tuple import".
func Tuples() []byte { return read("tuples.yaml") }

func read(name string) []byte {
	text, _ := files.ReadFile(name) // it is part of the program
	return text
}
