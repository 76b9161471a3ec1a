package keystone

import (
	"net/http"

	"github.com/ostiary/ostiary/internal/identity"
)

// domainConfigRoutes are the routes of the configurations of domains. A path ends
// with nothing, a group of options, or a group and an option.
func domainConfigRoutes() (all []route) {
	for _, x := range [][2]string{{"", ""}, {"/{group}", "Group"}, {"/{group}/{option}", "Option"}} {
		part, name := x[0], x[1]
		all = append(all,
			route{method: http.MethodGet, path: "/domains/config" + part + "/default", name: "GetDefaultDomainConfig" + name, serve: (*call).defaultDomainConfig},
			route{method: http.MethodGet, path: "/domains/{id}/config" + part, name: "GetDomainConfig" + name, serve: (*call).domainConfig},
			route{method: http.MethodPatch, path: "/domains/{id}/config" + part, name: "UpdateDomainConfig" + name, serve: (*call).updateDomainConfig},
			route{method: http.MethodDelete, path: "/domains/{id}/config" + part, name: "DeleteDomainConfig" + name, serve: (*call).deleteDomainConfig})
	}
	return append(all, route{method: http.MethodPut, path: "/domains/{id}/config", name: "SetDomainConfig", serve: (*call).setDomainConfig})
}

// configPath returns the group and the option in the path of a request. i is the
// place of the group among the parameters of the path.
func (c *call) configPath(i int) identity.ConfigPath {
	return identity.ConfigPath{Group: c.Params.At(i), Option: c.Params.At(i + 1)}
}

func (c *call) sendConfig(status int, config identity.Members) error {
	var o object
	o.begin("config")
	o.members(config)
	o.end()
	return c.write(status, &o)
}

func (c *call) defaultDomainConfig() error {
	if err := c.may("get_domain_config_default", nil); err != nil {
		return err
	}
	config, err := identity.DefaultDomainConfig(c.configPath(0))
	if err != nil {
		return err
	}
	return c.sendConfig(http.StatusOK, config)
}

func (c *call) domainConfig() error {
	if c.configPath(1).Compliance() {
		return c.complianceConfig()
	}
	domain, err := c.get(domains, "get_domain_config", c.Params.At(0))
	if err != nil {
		return err
	}
	config, err := c.id.DomainConfig(c.Context(), domain.ID, c.configPath(1))
	if err != nil {
		return err
	}
	return c.sendConfig(http.StatusOK, config)
}

// complianceConfig answers a GET of the rules for passwords, which every caller may
// read.
func (c *call) complianceConfig() error {
	domain, err := c.get(domains, "get_security_compliance_domain_config", c.Params.At(0))
	if err != nil {
		return err
	}
	config, err := c.id.ComplianceConfig(domain.ID, c.configPath(1))
	if err != nil {
		return err
	}
	return c.sendConfig(http.StatusOK, config)
}

func (c *call) setDomainConfig() error {
	domain, err := c.get(domains, "create_domain_config", c.Params.At(0))
	if err != nil {
		return err
	}
	given, err := c.body("config")
	if err != nil {
		return err
	}
	config, created, err := c.id.SetDomainConfig(c.Context(), domain.ID, given)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return c.sendConfig(status, config)
}

func (c *call) updateDomainConfig() error {
	domain, err := c.get(domains, "update_domain_config", c.Params.At(0))
	if err != nil {
		return err
	}
	given, err := c.body("config")
	if err != nil {
		return err
	}
	config, err := c.id.UpdateDomainConfig(c.Context(), domain.ID, c.configPath(1), given)
	if err != nil {
		return err
	}
	return c.sendConfig(http.StatusOK, config)
}

func (c *call) deleteDomainConfig() error {
	domain, err := c.get(domains, "delete_domain_config", c.Params.At(0))
	if err != nil {
		return err
	}
	if err := c.id.DeleteDomainConfig(c.Context(), domain.ID, c.configPath(1)); err != nil {
		return err
	}
	return c.done()
}
