module github.com/ostiary/ostiary/conformance/keystone/gophercloud

go 1.26.8

require github.com/gophercloud/gophercloud/v2 v2.15.0
