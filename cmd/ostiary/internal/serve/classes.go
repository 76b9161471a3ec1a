package serve

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/xacml"
)

// The classes of operations in the metrics.
const (
	classCheck      = "check"      // is it allowed
	classPolicy     = "policy"     // what do policies decide
	classList       = "list"       // what, or who, is allowed; what is stored
	classWrite      = "write"      // of tuples, attributes and documents
	classLogin      = "login"      // a secret for a token; computes a hash
	classValidation = "validation" // of a token
	classAdmin      = "admin"      // all others
	classNone       = ""           // of no class, because it lasts as long as its client wants
)

// classes has the class of each operation that is in none of [doorClasses] and not classAdmin,
// by its name, or by its name without that of its service.
var classes = map[string][]string{
	classCheck: {"Check", "BatchCheck", "Batch", "BulkCheck", "Evaluation", "Evaluations", "SubjectPermission"},
	classList: {"ListObjects", "StreamedListObjects", "ListUsers", "ListSubjects", "LookupEntity", "LookupEntityStream", "LookupSubject",
		"SearchAction", "SearchResource", "SearchSubject", "Expand", "Explain", "Entitlements", "Read", "ReadRelationships", "ReadAttributes",
		"ReadChanges", "Changes", "GetDocument"},
	classWrite: {"Write", "WriteRelationships", "Data.Write", "Data.Delete", "DeleteRelationships", "RunBundle"},
	classNone:  {"", "Watch", "WatchPermission", "Import", "Export"},
}

// doorClasses has the classes of doors whose operations are of other kinds.
var doorClasses = map[string]map[string][]string{
	keystone.Name: {
		classLogin: {"IssueToken", "IssueEC2Token", "IssueS3Token", "IssueOAuth2Token", "CreateAccessToken", "CreateRequestToken",
			"FederatedLogin", "FederatedLoginByPost", "BrowserLogin", "BrowserLoginByPost", "BrowserLoginAt", "BrowserLoginAtByPost"},
		classValidation: {"ValidateToken"},
	},
	xacml.Name:   {classPolicy: {"Decide", "Explain"}},
	onap.NamePDP: {classPolicy: {"Decision", "XACML"}},
	onap.NameAPI: {},
	onap.NamePAP: {},
}

// classOf returns the class of an operation of a door. It is for [server.Options].
func classOf(door, operation string) string {
	of, special := doorClasses[door]
	if !special {
		of = classes
	}
	service, method, inService := strings.Cut(operation, ".")
	for class, operations := range of {
		switch {
		case slices.Contains(operations, operation):
			return class
		case !inService || !slices.Contains(operations, method):
		case service != "Schema" && service != "Bundle":
			return class
		}
	}
	if operation == "" {
		return classNone
	}
	return classAdmin
}
