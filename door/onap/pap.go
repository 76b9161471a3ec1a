package onap

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// papDoor returns the door of the PAP API.
func (s *service) papDoor() *door.Door {
	route := func(method, pattern, name string, serve func(*call) error) door.Route {
		return door.Route{Method: method, Pattern: pattern, Name: name, Serve: s.handle(writeDetails, serve)}
	}
	writes := func(method, pattern, name string, serve func(*call) error) door.Route {
		r := route(method, pattern, name, serve)
		r.Writes = true
		return r
	}
	return s.newDoor(NamePAP, prefixPAP, writeDetails, []door.Route{
		route(http.MethodGet, "/healthcheck", "Health", (*call).papHealth),
		route(http.MethodGet, "/components/healthcheck", "ComponentsHealth", (*call).componentsHealth),
		route(http.MethodGet, "/pdps", "Groups", (*call).groups),
		route(http.MethodGet, "/pdps/healthcheck", "PDPsHealth", (*call).pdpsHealth),
		writes(http.MethodPost, "/pdps/groups/batch", "PutGroups", (*call).putGroups),
		writes(http.MethodPut, "/pdps/groups/{group}", "SetGroupState", (*call).setGroupState),
		writes(http.MethodDelete, "/pdps/groups/{group}", "DeleteGroup", (*call).deleteGroup),
		writes(http.MethodPost, "/pdps/policies", "Deploy", (*call).deploy),
		writes(http.MethodDelete, "/pdps/policies/{policy}", "Undeploy", (*call).undeploy),
		writes(http.MethodDelete, "/pdps/policies/{policy}/versions/{version}", "Undeploy", (*call).undeploy),
		writes(http.MethodPost, "/pdps/deployments/batch", "DeployBatch", (*call).deployBatch),
		route(http.MethodGet, "/policies/deployed", "Deployed", (*call).deployed),
		route(http.MethodGet, "/policies/deployed/{policy}", "Deployed", (*call).deployed),
		route(http.MethodGet, "/policies/deployed/{policy}/{version}", "Deployed", (*call).deployed),
		route(http.MethodGet, "/policies/status", "Status", (*call).status),
		route(http.MethodGet, "/policies/status/{group}", "Status", (*call).status),
		route(http.MethodGet, "/policies/status/{group}/{policy}", "Status", (*call).status),
		route(http.MethodGet, "/policies/status/{group}/{policy}/{version}", "Status", (*call).status),
		route(http.MethodGet, "/policies/audit", "Audit", (*call).audit),
		route(http.MethodGet, "/policies/audit/{group}", "Audit", (*call).audit),
		route(http.MethodGet, "/policies/audit/{policy}/{version}", "Audit", (*call).audit),
		route(http.MethodGet, "/policies/audit/{group}/{policy}/{version}", "Audit", (*call).audit),
	})
}

func (c *call) papHealth() error {
	h := c.health("Policy PAP")
	return c.answerAny(h.Code, h)
}

// instance is a PDP in responses.
type instance struct {
	ID      string `json:"instanceId"`
	State   string `json:"pdpState"`
	Health  string `json:"healthy"`
	Message string `json:"message"`
	Updated string `json:"lastUpdate"`
}

// subgroupView is a subgroup in responses.
type subgroupView struct {
	catalog.Subgroup
	Current   int        `json:"currentInstanceCount"`
	Instances []instance `json:"pdpInstances"`
}

// groupView is a group in responses.
type groupView struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	State       string            `json:"pdpGroupState"`
	Properties  map[string]string `json:"properties,omitempty"`
	Subgroups   []subgroupView    `json:"pdpSubgroups"`
}

// view returns a group with the PDPs of its subgroups.
func (c *call) view(g *catalog.Group) groupView {
	out := groupView{Name: g.Name, Description: g.Description, State: g.State, Properties: g.Properties}
	for i := range g.Subgroups {
		s := g.Subgroups[i]
		if s.Policies == nil {
			s.Policies = []catalog.ID{}
		}
		v := subgroupView{Subgroup: s, Current: g.Instances(&s), Instances: []instance{}}
		if v.Current > 0 {
			now := c.catalog.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
			v.Instances = append(v.Instances, instance{catalog.Instance, g.State, "HEALTHY", "the PDP of this server", now})
		}
		out.Subgroups = append(out.Subgroups, v)
	}
	return out
}

func (c *call) groups() error {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	list := []groupView{}
	for _, g := range w.Groups() {
		list = append(list, c.view(g))
	}
	return c.answerAny(http.StatusOK, map[string]any{"groups": list})
}

// instances returns all PDPs by the type of their subgroup.
func (c *call) instances(w *catalog.World) map[string][]instance {
	all := map[string][]instance{}
	for _, g := range w.Groups() {
		for _, s := range c.view(g).Subgroups {
			all[s.Type] = append(all[s.Type], s.Instances...)
		}
	}
	return all
}

func (c *call) pdpsHealth() error {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	list := []instance{}
	for _, of := range c.instances(w) {
		list = append(list, of...)
	}
	return c.answerAny(http.StatusOK, map[string]any{"pdpList": list})
}

func (c *call) componentsHealth() error {
	h := c.health("Policy PAP")
	out := map[string]any{"pap": h, "healthy": h.Healthy}
	if h.Healthy {
		w, err := c.catalog.World(c.Context())
		if err != nil {
			return err
		}
		out["pdps"] = c.instances(w)
	}
	return c.answerAny(h.Code, out)
}

// empty is the response of a change of groups.
var empty = struct{}{}

func (c *call) putGroups() error {
	v, err := c.body()
	if err != nil {
		return err
	}
	groups, err := readGroups(&v)
	if err != nil {
		return err
	}
	if err := c.catalog.PutGroups(c.Context(), groups, c.user()); err != nil {
		return err
	}
	return c.answerAny(http.StatusOK, empty)
}

// setGroupState sets the state of a group. Another state than ACTIVE and PASSIVE
// is an internal error without a body, as ONAP answers it.
func (c *call) setGroupState() error {
	state, _, err := c.parameter("state")
	if err != nil {
		return err
	}
	if state != catalog.Active && state != catalog.Passive {
		c.W.WriteHeader(http.StatusInternalServerError)
		return nil
	}
	if err := c.catalog.SetState(c.Context(), c.Params.Named("group"), state); err != nil {
		return err
	}
	return c.answerAny(http.StatusOK, empty)
}

func (c *call) deleteGroup() error {
	if err := c.catalog.RemoveGroup(c.Context(), c.Params.Named("group"), c.user()); err != nil {
		return err
	}
	return c.answerAny(http.StatusOK, empty)
}

// accepted is the response of a deployment.
var accepted = struct {
	Message string `json:"message"`
	URI     string `json:"uri"`
}{"The deployment is complete. The URI has the status of the deployed policies; an undeployed policy is no longer listed.", prefixPAP + "/policies/status"}

func (c *call) deploy() error {
	v, err := c.body()
	if err != nil {
		return err
	}
	policies, err := readDeployment(&v)
	if err != nil {
		return err
	}
	err = c.catalog.Deploy(c.Context(), policies, c.user())
	c.statistics.deployed(len(policies), err)
	if err != nil {
		return err
	}
	return c.answerAny(http.StatusAccepted, accepted)
}

func (c *call) undeploy() error {
	id := catalog.ID{Name: c.Params.Named("policy"), Version: c.Params.Named("version")}
	if _, exact := tosca.ParseVersion(id.Version); c.Params.Named("version") != "" && !exact {
		if _, major := tosca.ParseVersion(id.Version + ".0.0"); !major {
			return &requestError{http.StatusBadRequest, fmt.Sprintf("invalid version %.80q: expected x.y.z or x", id.Version)}
		}
	}
	err := c.catalog.Undeploy(c.Context(), id, c.user())
	c.statistics.undeployed(1, err)
	if err != nil {
		return err
	}
	return c.answerAny(http.StatusAccepted, accepted)
}

func (c *call) deployBatch() error {
	v, err := c.body()
	if err != nil {
		return err
	}
	batches, err := readBatches(&v)
	if err != nil {
		return err
	}
	add, remove := 0, 0
	for i := range batches {
		if batches[i].Action == catalog.Remove {
			remove += len(batches[i].Policies)
		} else {
			add += len(batches[i].Policies)
		}
	}
	err = c.catalog.Apply(c.Context(), batches, c.user())
	c.statistics.deployed(add, err)
	c.statistics.undeployed(remove, err)
	if err != nil {
		return err
	}
	return c.answerAny(http.StatusAccepted, accepted)
}

// pattern returns the regular expression of the query, or nil. It must match a
// whole name.
func (c *call) pattern() (*regexp.Regexp, error) {
	text, given, err := c.parameter("regex")
	if err != nil || !given {
		return nil, err
	}
	const bytesMax = 1000
	if text == "" || len(text) > bytesMax {
		return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("invalid regex: expected 1 to %d bytes", bytesMax)}
	}
	if _, err = regexp.Compile(text); err == nil {
		var p *regexp.Regexp
		if p, err = regexp.Compile("^(?:" + text + ")$"); err == nil {
			return p, nil
		}
	}
	return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("invalid regex: %v", err)}
}

// deployment is a deployed policy of a subgroup with PDPs.
type deployment struct {
	group, typ string
	policy     catalog.ID
	of         catalog.ID // the policy's type
}

// deployments returns the deployed policies that the path and the query select.
func (c *call) deployments() (found []deployment, err error) {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return nil, err
	}
	p, err := c.pattern()
	if err != nil {
		return nil, err
	}
	group, name, version := c.Params.Named("group"), c.Params.Named("policy"), c.Params.Named("version")
	for _, g := range w.Groups() {
		for i := range g.Subgroups {
			for _, id := range g.Subgroups[i].Policies {
				if group != "" && g.Name != group || name != "" && id.Name != name || version != "" && id.Version != version ||
					p != nil && !p.MatchString(id.Name) {
					continue
				}
				d := deployment{g.Name, g.Subgroups[i].Type, id, catalog.ID{}}
				if e := w.Find(tosca.PolicySection, id.Name, id.Version); e != nil {
					d.of.Name, d.of.Version = e.Type()
				}
				found = append(found, d)
			}
		}
	}
	return found, nil
}

// policyCount is a deployed policy with the number of its PDPs.
type policyCount struct {
	Type        string `json:"policy-type"`
	TypeVersion string `json:"policy-type-version"`
	Name        string `json:"policy-id"`
	Version     string `json:"policy-version"`
	Success     int    `json:"success-count"`
	Failure     int    `json:"failure-count"`
	Incomplete  int    `json:"incomplete-count"`
}

func (c *call) deployed() error {
	found, err := c.deployments()
	if err != nil {
		return err
	}
	out := make([]policyCount, len(found))
	for i, d := range found {
		out[i] = policyCount{d.of.Name, d.of.Version, d.policy.Name, d.policy.Version, 1, 0, 0}
	}
	return answerList(c, out, c.Params.Named("version") != "", false)
}

// answerList answers with a list, with its first item if one is set, or with 404
// and no body for an empty list, unless emptyOK is set.
func answerList[T any](c *call, list []T, one, emptyOK bool) error {
	switch {
	case len(list) == 0 && !emptyOK:
		return &requestError{http.StatusNotFound, ""}
	case one:
		return c.answerAny(http.StatusOK, list[0])
	}
	return c.answerAny(http.StatusOK, list)
}

// policyStatus is the status of a policy on a PDP.
type policyStatus struct {
	Group  string     `json:"pdpGroup"`
	Type   string     `json:"pdpType"`
	PDP    string     `json:"pdpId"`
	Policy catalog.ID `json:"policy"`
	Of     catalog.ID `json:"policyType"`
	Deploy bool       `json:"deploy"`
	State  string     `json:"state"`
}

func (c *call) status() error {
	found, err := c.deployments()
	if err != nil {
		return err
	}
	out := make([]policyStatus, len(found))
	for i, d := range found {
		out[i] = policyStatus{d.group, d.typ, catalog.Instance, d.policy, d.of, true, "SUCCESS"}
	}
	return answerList(c, out, c.Params.Named("version") != "", c.Params.Named("group") == "")
}

// Bounds on a page of audit records.
const (
	auditDefault = 10
	auditMax     = 100
)

func (c *call) audit() error {
	f := catalog.AuditFilter{Group: c.Params.Named("group"), Policy: catalog.ID{Name: c.Params.Named("policy"), Version: c.Params.Named("version")}}
	count, err := c.number("recordCount")
	if err != nil {
		return err
	}
	if f.Max = int(min(count, auditMax)); f.Max <= 0 {
		f.Max = auditDefault
	}
	for _, bound := range []struct {
		name string
		to   *time.Time
	}{{"startTime", &f.From}, {"endTime", &f.To}} {
		seconds, err := c.number(bound.name)
		if err != nil {
			return err
		}
		if seconds != 0 {
			*bound.to = time.Unix(seconds, 0)
		}
	}
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	records := w.Audit(f)
	if len(records) == 0 && (f.Group != "" || f.Policy.Name != "") {
		c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.W.WriteHeader(http.StatusNotFound)
		fmt.Fprint(c.W, "No records found matching the input parameters")
		return nil
	}
	return c.answerAny(http.StatusOK, records)
}

// number returns a number of the query, or 0.
func (c *call) number(name string) (int64, error) {
	text, given, err := c.parameter(name)
	if err != nil || !given {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &requestError{http.StatusBadRequest, fmt.Sprintf("invalid %s %.80q: expected a whole number", name, text)}
	}
	return n, nil
}
