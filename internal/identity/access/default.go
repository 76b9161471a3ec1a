package access

// Scopes that rules admit.
const (
	sdp = SystemScope | DomainScope | ProjectScope
	sp  = SystemScope | ProjectScope
)

// defaultRule is a rule of Keystone 30.0.0.
type defaultRule struct {
	name, check string
	scopes      Scope
}

// Parts of rules. A reader or manager of a domain has a token that is scoped to
// the domain.
const (
	admin        = "rule:admin_required"
	systemReader = " or (role:reader and system_scope:all)"
	service      = " or rule:service_role"
)

// domainReader admits readers of the domain in an attribute of the target.
func domainReader(attribute string) string {
	return " or (role:reader and domain_id:%(" + attribute + ")s)"
}

// domainManager admits managers of the domain in an attribute of the target.
func domainManager(attribute string) string {
	return " or (role:manager and domain_id:%(" + attribute + ")s)"
}

// self admits the user in an attribute of the target.
func self(attribute string) string { return " or user_id:%(" + attribute + ")s" }

// grantDomains admits callers whose domain has both the principal and the target
// of a grant. The role is a global one or one of the domain.
func grantDomains(role, more string) (check string) {
	for _, principal := range []string{"target.user.domain_id", "target.group.domain_id"} {
		for _, target := range []string{"target.project.domain_id", "target.domain.id"} {
			check += " or (role:" + role + " and domain_id:%(" + principal + ")s and domain_id:%(" + target + ")s" + more + ")"
		}
	}
	return check
}

const roleInDomain = " and (None:%(target.role.domain_id)s or domain_id:%(target.role.domain_id)s)"

// helpers are the rules that other rules refer to and that a site may replace.
var helpers = []defaultRule{
	{"admin_required", "role:admin or is_admin:1", AnyScope},
	{"service_role", "role:service", AnyScope},
	{"service_or_admin", "rule:admin_required or rule:service_role", AnyScope},
	{"owner", "user_id:%(user_id)s", AnyScope},
	{"admin_or_owner", "rule:admin_required or rule:owner", AnyScope},
	{"token_subject", "user_id:%(target.token.user_id)s", AnyScope},
	{"admin_or_token_subject", "rule:admin_required or rule:token_subject", AnyScope},
	{"service_admin_or_token_subject", "rule:service_or_admin or rule:token_subject", AnyScope},
	{"domain_managed_target_role", "'manager':%(target.role.name)s or 'member':%(target.role.name)s or 'reader':%(target.role.name)s", AnyScope},
}

// defaults returns the rules of the operations that the service has.
func defaults() []defaultRule {
	rules := append([]defaultRule(nil), helpers...)
	add := func(check string, scopes Scope, names ...string) {
		for _, name := range names {
			rules = append(rules, defaultRule{"identity:" + name, check, scopes})
		}
	}
	add(admin+systemReader+domainReader("target.user.domain_id")+self("target.user.id"), sdp,
		"get_user", "list_groups_for_user", "list_user_projects")
	add(admin+systemReader+domainReader("target.domain_id"), sdp, "list_users", "list_projects")
	add(admin+systemReader+domainReader("target.group.domain_id"), sdp, "list_groups")
	add(admin+domainManager("target.user.domain_id"), sdp, "create_user", "update_user", "delete_user")
	add(admin+systemReader+domainReader("target.group.domain_id"), sdp, "get_group", "list_users_in_group")
	add(admin+domainManager("target.group.domain_id"), sdp, "create_group", "update_group", "delete_group")
	both := "domain_id:%(target.group.domain_id)s and domain_id:%(target.user.domain_id)s"
	add(admin+systemReader+" or (role:reader and "+both+")", sdp, "check_user_in_group")
	add(admin+" or (role:manager and "+both+")", sdp, "add_user_to_group", "remove_user_from_group")

	add(admin+systemReader+domainReader("target.project.domain_id")+" or project_id:%(target.project.id)s", sdp,
		"get_project", "list_project_tags", "get_project_tag")
	add(admin+domainManager("target.project.domain_id"), sdp, "create_project", "update_project", "delete_project",
		"create_project_tag", "update_project_tags", "delete_project_tag", "delete_project_tags")
	add(admin+systemReader+" or domain_id:%(target.domain.id)s or project_domain_id:%(target.domain.id)s", sdp, "get_domain")
	add(admin+systemReader+" or (role:reader and domain_id:%(target.domain.id)s)", sdp, "list_domains")
	add(admin, sp, "create_domain", "update_domain", "delete_domain")

	add(admin+systemReader+" or (role:manager and rule:domain_managed_target_role)", sdp, "get_role")
	add(admin+systemReader+" or (role:manager and not domain_id:None)", sdp, "list_roles")
	add(admin, sp, "create_role", "update_role", "delete_role", "create_domain_role", "update_domain_role", "delete_domain_role",
		"create_implied_role", "delete_implied_role")
	add(admin+systemReader, sp, "get_domain_role", "list_domain_roles", "get_implied_role", "list_implied_roles", "check_implied_role",
		"list_role_inference_rules", "list_system_grants_for_user", "check_system_grant_for_user", "list_system_grants_for_group", "check_system_grant_for_group")
	add(admin, sp, "create_system_grant_for_user", "revoke_system_grant_for_user", "create_system_grant_for_group", "revoke_system_grant_for_group")
	add(admin+systemReader+grantDomains("reader", roleInDomain), sdp, "check_grant")
	add(admin+systemReader+grantDomains("reader", ""), sdp, "list_grants")
	// Keystone lacks roleInDomain here: a manager could grant another domain's role "member".
	add(admin+grantDomains("manager", " and rule:domain_managed_target_role"+roleInDomain), sdp, "create_grant", "revoke_grant")
	add(admin+systemReader+domainReader("target.domain_id"), sdp, "list_role_assignments")
	add(admin+systemReader+domainReader("target.project.domain_id"), sdp, "list_role_assignments_for_tree")

	add("@", sdp, "get_region", "list_regions")
	add(admin+systemReader, sp, "get_service", "list_services", "get_endpoint", "list_endpoints")
	add(admin, sp, "create_region", "update_region", "delete_region", "create_service", "update_service", "delete_service",
		"create_endpoint", "update_endpoint", "delete_endpoint")

	for _, kind := range []string{"identity_provider", "protocol", "mapping", "service_provider"} {
		add(admin+systemReader, sp, "get_"+kind, "list_"+kind+"s")
		add(admin, sp, "create_"+kind, "update_"+kind, "delete_"+kind)
	}
	add(admin, sp, "create_domain_config", "update_domain_config", "delete_domain_config")
	add(admin+systemReader, sp, "get_domain_config", "get_domain_config_default")
	add("@", sdp, "get_security_compliance_domain_config")

	add("@", sdp, "get_limit_model", "list_limits", "get_registered_limit", "list_registered_limits")
	add(admin+systemReader+" or domain_id:%(target.limit.domain.id)s or domain_id:%(target.limit.project.domain_id)s"+
		" or (project_id:%(target.limit.project_id)s and not None:%(target.limit.project_id)s)", sdp, "get_limit")
	add(admin, sp, "create_limits", "update_limit", "delete_limit", "create_registered_limits", "update_registered_limit", "delete_registered_limit")
	add(admin+systemReader, sp, "get_endpoint_group", "list_endpoint_groups", "list_endpoints_associated_with_endpoint_group",
		"list_projects_associated_with_endpoint_group", "get_endpoint_group_in_project", "list_endpoint_groups_for_project",
		"list_projects_for_endpoint", "list_endpoints_for_project", "check_endpoint_in_project",
		"get_policy", "list_policies", "list_endpoints_for_policy", "get_policy_for_endpoint", "check_policy_association_for_endpoint",
		"check_policy_association_for_service", "check_policy_association_for_region_and_service")
	add(admin, sp, "create_endpoint_group", "update_endpoint_group", "delete_endpoint_group", "add_endpoint_group_to_project",
		"remove_endpoint_group_from_project", "add_endpoint_to_project", "remove_endpoint_from_project",
		"create_policy", "update_policy", "delete_policy")
	for _, of := range []string{"endpoint", "service", "region_and_service"} {
		add(admin, sp, "create_policy_association_for_"+of, "delete_policy_association_for_"+of)
	}

	add("rule:owner", ProjectScope, "create_application_credential")
	add(admin+systemReader+" or rule:owner", sp, "get_application_credential", "list_application_credentials")
	add("rule:admin_or_owner", sp, "delete_application_credential")
	add("(role:reader and system_scope:all)"+self("target.user.id"), sp, "get_access_rule", "list_access_rules")
	add("(role:admin and system_scope:all)"+self("target.user.id"), sp, "delete_access_rule")
	trustor, trustee := self("target.trust.trustor_user_id"), self("target.trust.trustee_user_id")
	add("user_id:%(target.trust.trustor_user_id)s", ProjectScope, "create_trust")
	add(admin+systemReader, sp, "list_trusts")
	add(admin+systemReader+trustor, sp, "list_trusts_for_trustor")
	add(admin+systemReader+trustee, sp, "list_trusts_for_trustee")
	add(admin+systemReader+trustor+trustee, sp, "get_trust", "list_roles_for_trust", "get_role_for_trust")
	add(admin+trustor, sp, "delete_trust")

	add(admin+systemReader+service+" or rule:token_subject", sdp, "validate_token")
	add(admin+systemReader+" or rule:token_subject", sdp, "check_token")
	add("rule:admin_or_token_subject", sdp, "revoke_token")
	add("rule:admin_or_owner", sdp, "revoke_tokens_for_user")
	add("rule:service_or_admin", sp, "list_revoke_events")
	owner := self("target.credential.user_id")
	add(admin+systemReader+owner, sdp, "get_credential", "list_credentials")
	add(admin+owner, sdp, "create_credential", "update_credential", "delete_credential")
	add(admin+systemReader+owner, sp, "ec2_get_credential")
	add(admin+systemReader+" or rule:owner", sp, "ec2_list_credentials")
	add(admin+" or (role:member and user_id:%(target.credential.user_id)s)", sp, "ec2_create_credential", "ec2_delete_credential")
	add("rule:service_or_admin", sdp, "ec2tokens_validate", "s3tokens_validate")

	add(admin, sp, "create_consumer", "update_consumer", "delete_consumer")
	add(admin+systemReader, sp, "get_consumer", "list_consumers")
	add(admin, ProjectScope, "authorize_request_token", "list_access_tokens", "get_access_token", "delete_access_token", "list_access_token_roles", "get_access_token_role")

	add("@", AnyScope, "get_auth_catalog", "get_auth_projects", "get_auth_domains", "get_auth_system")
	return rules
}

// Default returns the rules of Keystone 30.0.0 for the operations that the
// identity service has.
func Default() *Policy {
	p := &Policy{rules: map[string]rule{}}
	for _, r := range defaults() {
		c, err := parse(r.check)
		if err != nil {
			panic("rule " + r.name + ": " + err.Error()) // the texts are constant
		}
		p.rules[r.name] = rule{c, r.scopes}
	}
	return p
}
