module github.com/ostiary/ostiary/conformance/permify

go 1.26.8
