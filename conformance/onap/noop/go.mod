module github.com/ostiary/ostiary/conformance/onap/noop

go 1.26.8
