package keystone

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/storage"
)

// notified are the operations that Keystone notifies about, by the name of the route: what
// has happened to which type of resource. The types are Keystone's.
var notified = map[string]struct{ resource, operation string }{
	"ChangePassword": {"user", "updated"}, "AddMember": {"group", "updated"}, "RemoveMember": {"group", "updated"},
	"PutRegion":          {"region", "created"},
	"ReplaceProjectTags": {"project", "updated"}, "RemoveProjectTags": {"project", "updated"},
	"AddProjectTag": {"project", "updated"}, "RemoveProjectTag": {"project", "updated"},
	"CreateApplicationCredential": {"application_credential", "created"}, "DeleteApplicationCredential": {"application_credential", "deleted"},
	"CreateTrust": {"OS-TRUST:trust", "created"}, "DeleteTrust": {"OS-TRUST:trust", "deleted"},
	"CreateConsumer": {"OS-OAUTH1:consumer", "created"}, "UpdateConsumer": {"OS-OAUTH1:consumer", "updated"},
	"DeleteConsumer": {"OS-OAUTH1:consumer", "deleted"}, "DeleteAccessToken": {"OS-OAUTH1:access_token", "deleted"},
}

// notifiedResources are the resources that have routes Create, Update and Delete, and their
// types in notifications.
var notifiedResources = map[string]string{"User": "user", "Group": "group", "Domain": "domain", "Project": "project", "Role": "role",
	"Region": "region", "Service": "service", "Endpoint": "endpoint", "Policy": "policy"}

// cadfTypes are the types of resources in CADF.
var cadfTypes = map[string]string{"group": "data/security/group", "project": "data/security/project", "role": "data/security/role",
	"user": "data/security/account/user", "domain": "data/security/domain", "region": "data/security/region",
	"endpoint": "data/security/endpoint", "service": "data/security/service", "policy": "data/security/policy",
	"OS-TRUST:trust": "data/security/trust", "OS-OAUTH1:access_token": "data/security/credential",
	"OS-OAUTH1:consumer": "data/security/account", "application_credential": "data/security/credential"}

const (
	cadfEvent = "http://schemas.dmtf.org/cloud/audit/1.0/event"
	// cadfUser is the type of initiators, and of the targets of logins and grants.
	cadfUser    = "service/security/account/user"
	cadfService = "service/security"
	cadfSuccess = "success"
	cadfFailure = "failure"
	cadfPending = "pending" // another factor is needed
)

// notification is a message of oslo.messaging.
type notification struct {
	MessageID string   `json:"message_id"`
	Publisher string   `json:"publisher_id"`
	EventType string   `json:"event_type"`
	Priority  string   `json:"priority"`
	Payload   cadfBody `json:"payload"`
	Timestamp string   `json:"timestamp"`
}

// cadfBody is an event of CADF, with the members that Keystone adds.
type cadfBody struct {
	TypeURI      string       `json:"typeURI"`
	EventType    string       `json:"eventType"`
	ID           string       `json:"id"`
	EventTime    string       `json:"eventTime"`
	Action       string       `json:"action"`
	Outcome      string       `json:"outcome"`
	Observer     cadfResource `json:"observer"`
	Initiator    cadfResource `json:"initiator"`
	Target       cadfResource `json:"target"`
	ResourceInfo string       `json:"resource_info,omitempty"`
	Project      string       `json:"project,omitempty"`
	Domain       string       `json:"domain,omitempty"`
	User         string       `json:"user,omitempty"`
	Group        string       `json:"group,omitempty"`
	Role         string       `json:"role,omitempty"`
	Inherited    *bool        `json:"inherited_to_projects,omitempty"`
}

type cadfResource struct {
	TypeURI   string    `json:"typeURI"`
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Username  string    `json:"username,omitempty"`
	Host      *cadfHost `json:"host,omitempty"`
	UserID    string    `json:"user_id,omitempty"`
	ProjectID string    `json:"project_id,omitempty"`
	DomainID  string    `json:"domain_id,omitempty"`
	RequestID string    `json:"request_id,omitempty"`
}

type cadfHost struct {
	Address string `json:"address,omitempty"`
	Agent   string `json:"agent,omitempty"`
}

// notify notifies about a request to a route whose result is err, if Keystone would.
func (c *call) notify(r *route, err error) {
	if c.options.Notify == nil || journal.Of(c.Context()).Forwardable() {
		return // without a node that may write, the request had no effect
	}
	var e cadfBody
	var event string
	n, known := notified[r.name]
	if !known {
		for _, verb := range [...]struct{ name, operation string }{{"Create", "created"}, {"Update", "updated"}, {"Delete", "deleted"}} {
			if resource, is := strings.CutPrefix(r.name, verb.name); is && notifiedResources[resource] != "" {
				n.resource, n.operation, known = notifiedResources[resource], verb.operation, true
			}
		}
	}
	switch {
	case r.login:
		event, e.Action, e.Outcome = "identity.authenticate", "authenticate", outcome(err)
		if c.pending {
			e.Outcome = cadfPending
		}
		e.Target = cadfResource{TypeURI: cadfUser, ID: newEventID()}
	case c.granted != nil:
		verb := "created"
		if r.method == http.MethodDelete {
			verb = "deleted"
		}
		event, e.Action, e.Outcome = "identity.role_assignment."+verb, verb+".role_assignment", outcome(err)
		e.Target = cadfResource{TypeURI: cadfUser, ID: newEventID()}
		e.setGrant(c.granted)
	case known && err == nil:
		id := c.shown
		if id == "" || n.operation != "created" {
			id = c.notifiedID(r.name)
		}
		event, e.Action, e.Outcome = "identity."+n.resource+"."+n.operation, n.operation+"."+n.resource, cadfSuccess
		e.Target, e.ResourceInfo = cadfResource{TypeURI: cadfTypes[n.resource], ID: id}, id
	default:
		return
	}
	opted := event
	if r.login {
		opted += "." + e.Outcome
	}
	if slices.Contains(c.options.NotifyOptOut, opted) {
		return
	}
	now := c.now().UTC()
	e.TypeURI, e.EventType, e.ID, e.EventTime = cadfEvent, "activity", newEventID(), now.Format("2006-01-02T15:04:05.000000+0000")
	e.Observer = cadfResource{TypeURI: cadfService, ID: c.observer()}
	e.Initiator = c.initiator()
	text, wrong := json.Marshal(notification{MessageID: newEventID(), Publisher: "identity." + c.options.Publisher, EventType: event, Priority: "INFO", Payload: e,
		Timestamp: now.Format("2006-01-02 15:04:05.000000")})
	if wrong != nil {
		c.options.Report(wrong)
		return
	}
	c.options.Notify(text)
}

func outcome(err error) string {
	if err != nil {
		return cadfFailure
	}
	return cadfSuccess
}

// notifiedID returns the id of the resource that the path of a request names.
func (c *call) notifiedID(name string) string {
	switch name {
	case "DeleteApplicationCredential", "DeleteAccessToken":
		return c.Params.Named("id")
	}
	return c.Params.At(0)
}

// observer returns the id of the service identity in the catalog.
func (c *call) observer() string {
	if c.id != nil {
		found, _, err := c.id.List(c.Context(), identity.ListRequest{Kind: identity.CatalogService, Limit: 1,
			Match: func(r *identity.Record) bool { return r.Members.Text("type") == "identity" }})
		if err == nil && len(found) > 0 {
			return found[0].ID
		}
	}
	return "unknown"
}

// initiator describes the caller.
func (c *call) initiator() cadfResource {
	host := c.R.RemoteAddr
	if address, _, err := net.SplitHostPort(host); err == nil {
		host = address
	}
	i := cadfResource{TypeURI: cadfUser, ID: "unknown", Host: &cadfHost{Address: host, Agent: shorten(c.R.UserAgent())}, RequestID: c.W.Header().Get(headerRequestID)}
	if c.caller != nil {
		i.ProjectID, i.DomainID = c.caller.Scope.ProjectID, c.caller.Scope.DomainID
	}
	if a := authz.AuthorOf(c.Context()); a != nil && a.Name != storage.CallerLocal {
		i.UserID, i.ID = a.Name, eventID(a.Name)
		if c.id != nil {
			if r, err := c.id.Get(c.Context(), identity.User, i.UserID); err == nil {
				i.Name, i.Username = r.Name, r.Name
			}
		}
	}
	return i
}

// newEventID returns a random id in the form of a UUID.
func newEventID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return dashed(b[:])
}

func dashed(b []byte) string {
	x := hex.EncodeToString(b)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:32]
}

// resourceNamespace is the namespace of Keystone for ids that are no UUID.
var resourceNamespace = []byte{0x43, 0x32, 0xec, 0xab, 0x77, 0x0b, 0x42, 0x88, 0xa6, 0x80, 0xb9, 0xac, 0xa3, 0xb1, 0xb1, 0x53}

// eventID returns an id as Keystone has it in an event: itself if it is a UUID, otherwise
// a UUID of version 5.
func eventID(id string) string {
	plain := strings.ReplaceAll(id, "-", "")
	if b, err := hex.DecodeString(plain); err == nil && len(b) == 16 {
		return plain
	}
	h := sha1.New()
	h.Write(resourceNamespace)
	h.Write([]byte(id))
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x50, b[8]&0x3f|0x80
	return hex.EncodeToString(b)
}

// setGrant adds a grant to the event.
func (e *cadfBody) setGrant(g *notifiedGrant) {
	e.User, e.Group, e.Role, e.Inherited = g.UserID, g.GroupID, g.RoleID, &g.Inherited
	switch {
	case g.Target == identity.System:
	case g.domain:
		e.Domain = g.Target
	default:
		e.Project = g.Target
	}
}

// notifiedGrant is a grant that a request makes or removes.
type notifiedGrant struct {
	identity.Grant
	domain bool // the target is a domain
}
