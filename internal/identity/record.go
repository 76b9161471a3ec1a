package identity

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"time"
)

// Kind is the kind of a record. The texts are Keystone's.
type Kind string

// The kinds. A domain is a project whose member is_domain is true.
const (
	User    Kind = "user"
	Group   Kind = "group"
	Project Kind = "project"
	Role    Kind = "role"
	Region  Kind = "region"
	// CatalogService is a service of the catalog, which has endpoints.
	CatalogService Kind = "service"
	Endpoint       Kind = "endpoint"
	// RegisteredLimit is a resource of a service with its default limit.
	RegisteredLimit Kind = "registered_limit"
	// Limit is the limit of one project or domain for such a resource.
	Limit Kind = "limit"
	// ApplicationCredential is a secret with which programs log in as a user, with
	// some of the user's roles on one project.
	ApplicationCredential Kind = "application_credential"
	// AccessRule is a request that an application credential permits.
	AccessRule Kind = "access_rule"
	// Trust lets one user act with some roles of another one on one project.
	Trust Kind = "trust"
	// DomainConfig is the configuration of a domain. Its id is that of the domain.
	DomainConfig Kind = "domain_config"
	// IdentityProvider is a server that vouches for users.
	IdentityProvider Kind = "identity_provider"
	// Protocol is a way in which an identity provider vouches. Its id is that of
	// [ProtocolKey].
	Protocol Kind = "federation_protocol"
	// Mapping holds the rules of package mapping.
	Mapping Kind = "mapping"
	// ServiceProvider is another deployment that accepts users of this one.
	ServiceProvider Kind = "service_provider"
	// Credential is a secret that a user keeps in the service, for example an EC2
	// key or the seed of one-time passwords.
	Credential Kind = "credential"
	// Consumer is a program to which users delegate roles with OAuth 1.
	Consumer Kind = "consumer"
	// RequestToken is the request of a consumer for roles on a project.
	RequestToken Kind = "request_token"
	// AccessToken is what a user has delegated to a consumer.
	AccessToken Kind = "access_token"
	// EndpointGroup selects endpoints by their members.
	EndpointGroup Kind = "endpoint_group"
	// EndpointFilter is the association of a project with an endpoint or with an
	// endpoint group, which limits the catalog of the project.
	EndpointFilter Kind = "endpoint_filter"
	// Policy is a text that other services may read, for example their rules.
	Policy Kind = "policy"
	// PolicyAssociation is the association of a policy with an endpoint, a service, or
	// a service in a region.
	PolicyAssociation Kind = "policy_association"
)

// kinds lists all kinds of records.
var kinds = []Kind{
	User, Group, Project, Role, Region, CatalogService, Endpoint,
	RegisteredLimit, Limit,
	ApplicationCredential, AccessRule, Trust,
	DomainConfig,
	Credential,
	Consumer, RequestToken, AccessToken,
	EndpointGroup, EndpointFilter, Policy, PolicyAssociation,
	IdentityProvider, Protocol, Mapping, ServiceProvider,
}

// DefaultDomain is the id of the domain that records belong to if they name
// none.
const DefaultDomain = "default"

// System is the id of the target of grants on the whole deployment.
const System = "~system"

// Record is a record of a deployment. It never changes: an update makes a new
// record.
type Record struct {
	Kind Kind   `json:"-"`  // kind of the record
	ID   string `json:"id"` // unique within the kind
	// Name is unique within the domain, and within the whole deployment for domains
	// and for roles without a domain. Records of some kinds have none, and names of
	// services may repeat.
	Name string `json:"name,omitempty"`
	// Domain is the id of the domain that the record belongs to; "" if there is
	// none. A limit belongs to the domain that it is for, or to that of its project.
	Domain string `json:"domain,omitempty"`
	// Parent is the parent of a project or a region, the service of an endpoint or a
	// limit, and the consumer of a request token or an access token; "" if there is
	// none.
	Parent string `json:"parent,omitempty"`
	// IsDomain is true for a domain.
	IsDomain bool `json:"isDomain,omitempty"`
	// Disabled is true if the record is not enabled.
	Disabled bool `json:"disabled,omitempty"`
	// Members are all other members, in the order in which a response shows them.
	Members Members `json:"members,omitempty"`
	// Password describes the password of a user; nil if the user has none.
	Password *Password `json:"password,omitempty"`
	// Owner is the user who owns an application credential, an access rule or a
	// credential, who has authorized a request token or an access token, and the
	// trustor of a trust; "" for other kinds.
	Owner string `json:"owner,omitempty"`
	// Delegation is what an application credential, a trust, a request token or an
	// access token delegates; nil for other kinds.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Connects are the ids of the records that an association connects, by their
	// kinds; nil for other kinds.
	Connects map[Kind]string `json:"connects,omitempty"`
	// UsedStep is the period of the last one-time password that was accepted with a
	// credential of type [TypeTOTP]; 0 before the first one.
	UsedStep int64 `json:"usedStep,omitempty"`
	// SecretVersion is a random text that is another one each time that the password of
	// a user, or the secret of a credential, a consumer or a request token, is set. It
	// is "" for records whose secret never changes, and for those that were made by an
	// older version.
	SecretVersion string `json:"secretVersion,omitempty"`
	// Federated describes a user whom an identity provider vouches for; nil for
	// others.
	Federated *Federated `json:"federated,omitempty"`
	// HasSecret is true for the configuration of a domain that has a secret option.
	HasSecret bool `json:"hasSecret,omitempty"`
	// Created is the time at which a user was created; zero if it is not known, and
	// for other kinds.
	Created time.Time `json:"created,omitzero"`

	// pattern returns the expression of the paths of an access rule, which the first
	// call makes; nil for a record that is not in a directory, and for other kinds.
	pattern func() *regexp.Regexp
}

// Password describes a password. The hash itself is a secret of the store.
type Password struct {
	Changed time.Time  `json:"changed"`           // time at which it was set
	Expires *time.Time `json:"expires,omitempty"` // end of its validity; nil if it does not expire
	// ByOwner is true if the user set it, and false if an administrator did.
	ByOwner bool `json:"byOwner,omitempty"`
}

// body returns the document of the record.
func (r *Record) body() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // all members are valid JSON
	}
	return text
}

// newID returns a random id of 32 hexadecimal digits.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
