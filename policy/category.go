package policy

// The identifiers of the standard categories (appendix B.2).
const (
	CategorySubject             = "urn:oasis:names:tc:xacml:1.0:subject-category:access-subject"       // user or program that requests the access
	CategoryRecipientSubject    = "urn:oasis:names:tc:xacml:1.0:subject-category:recipient-subject"    // who receives the result of the access
	CategoryIntermediarySubject = "urn:oasis:names:tc:xacml:1.0:subject-category:intermediary-subject" // who passes the access on
	CategoryCodebase            = "urn:oasis:names:tc:xacml:1.0:subject-category:codebase"             // code that makes the request
	CategoryRequestingMachine   = "urn:oasis:names:tc:xacml:1.0:subject-category:requesting-machine"   // computer that makes the request
	CategoryResource            = "urn:oasis:names:tc:xacml:3.0:attribute-category:resource"           // what is accessed
	CategoryAction              = "urn:oasis:names:tc:xacml:3.0:attribute-category:action"             // how it is accessed
	CategoryEnvironment         = "urn:oasis:names:tc:xacml:3.0:attribute-category:environment"        // everything else
)

// The identifiers of common attributes (appendix B.4 to B.8).
const (
	AttributeSubjectID       = "urn:oasis:names:tc:xacml:1.0:subject:subject-id"           // name of the subject
	AttributeResourceID      = "urn:oasis:names:tc:xacml:1.0:resource:resource-id"         // name of the resource
	AttributeActionID        = "urn:oasis:names:tc:xacml:1.0:action:action-id"             // name of the action
	AttributeCurrentTime     = "urn:oasis:names:tc:xacml:1.0:environment:current-time"     // time of the request
	AttributeCurrentDate     = "urn:oasis:names:tc:xacml:1.0:environment:current-date"     // date of the request
	AttributeCurrentDateTime = "urn:oasis:names:tc:xacml:1.0:environment:current-dateTime" // date and time of the request
)
