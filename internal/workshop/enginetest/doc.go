// Package enginetest tests the engine through the root package, as a program that
// embeds it uses it: with the drivers in memory and on disk, with drivers that fail,
// and with several engines on one driver. No program imports it.
package enginetest
