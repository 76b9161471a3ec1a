package access

import (
	"fmt"
	"slices"
	"strings"
)

// attributesOf are the attributes of operations beside those of the request (see
// [requestAttributes]): the names of the arguments in their paths, and of what they read or
// change, as in Keystone 30. A name that ends with a dot is a record, of which rules can name
// each member.
func attributesOf(operation string) []string {
	const (
		user, group, project, domain, role = "target.user.", "target.group.", "target.project.", "target.domain.", "target.role."
	)
	switch name := strings.TrimPrefix(operation, "identity:"); name {
	case "get_user", "update_user", "delete_user", "list_user_projects", "list_groups_for_user", "revoke_tokens_for_user", "list_access_rules":
		return []string{"user_id", user}
	case "get_access_rule", "delete_access_rule":
		return []string{"user_id", "access_rule_id", user}
	case "create_user":
		return []string{user}
	case "list_users", "list_projects", "list_role_assignments":
		return []string{"target.domain_id"}
	case "get_group", "update_group", "delete_group", "list_users_in_group":
		return []string{"group_id", group}
	case "create_group":
		return []string{group}
	case "list_groups":
		return []string{"target.group.domain_id"}
	case "check_user_in_group", "add_user_to_group", "remove_user_from_group":
		return []string{"group_id", "user_id", group, user}
	case "get_project", "update_project", "delete_project", "list_project_tags", "update_project_tags", "delete_project_tags":
		return []string{"project_id", project}
	case "get_project_tag", "create_project_tag", "delete_project_tag":
		return []string{"project_id", "value", project}
	case "create_project":
		return []string{project}
	case "get_domain", "update_domain", "delete_domain":
		return []string{"domain_id", domain}
	case "list_domains":
		return []string{"target.domain.id"}
	case "get_domain_config", "update_domain_config", "delete_domain_config", "create_domain_config", "get_security_compliance_domain_config":
		return []string{"domain_id", "group", "option"}
	case "get_domain_config_default":
		return []string{"group", "option"}
	case "list_grants", "check_grant", "create_grant", "revoke_grant":
		return []string{"project_id", "domain_id", "user_id", "group_id", "role_id", project, domain, user, group, role}
	case "list_system_grants_for_user", "check_system_grant_for_user", "create_system_grant_for_user", "revoke_system_grant_for_user":
		return []string{"user_id", "role_id", user, role}
	case "list_system_grants_for_group", "check_system_grant_for_group", "create_system_grant_for_group", "revoke_system_grant_for_group":
		return []string{"group_id", "role_id", group, role}
	case "get_role", "update_role", "delete_role", "get_domain_role", "update_domain_role", "delete_domain_role":
		return []string{"role_id", role}
	case "create_domain_role":
		return []string{role}
	case "list_implied_roles", "get_implied_role", "check_implied_role", "create_implied_role", "delete_implied_role":
		return []string{"prior_role_id", "implied_role_id", "target.prior_role.", "target.implied_role."}
	case "list_role_assignments_for_tree":
		return []string{"target.domain_id", project}
	case "get_credential", "update_credential", "delete_credential":
		return []string{"credential_id", "target.credential."}
	case "create_credential":
		return []string{"target.credential."}
	case "list_credentials":
		return []string{"target.credential.user_id"}
	case "ec2_list_credentials":
		return []string{"user_id"}
	case "ec2_create_credential", "ec2_get_credential", "ec2_delete_credential":
		return []string{"user_id", "credential_id", "target.credential.user_id"}
	case "list_access_tokens", "get_access_token", "delete_access_token", "list_access_token_roles", "get_access_token_role":
		return []string{"user_id", "access_token_id", "role_id"}
	case "list_application_credentials", "create_application_credential", "get_application_credential", "delete_application_credential":
		return []string{"user_id", "application_credential_id"}
	case "get_trust", "delete_trust", "list_roles_for_trust", "get_role_for_trust":
		return []string{"trust_id", "role_id", "target.trust."}
	case "create_trust":
		return []string{"target.trust."}
	case "list_trusts_for_trustor":
		return []string{"target.trust.trustor_user_id"}
	case "list_trusts_for_trustee":
		return []string{"target.trust.trustee_user_id"}
	case "validate_token", "check_token", "revoke_token":
		return []string{"target.token.user_id", "target.token.user.domain.id"}
	case "get_limit", "update_limit", "delete_limit":
		return []string{"limit_id", "target.limit."}
	case "get_endpoint", "update_endpoint", "delete_endpoint":
		return []string{"endpoint_id", "target.endpoint."}
	case "get_service", "update_service", "delete_service":
		return []string{"service_id"}
	case "get_region", "update_region", "delete_region":
		return []string{"region_id"}
	case "get_registered_limit", "update_registered_limit", "delete_registered_limit":
		return []string{"registered_limit_id"}
	case "get_policy", "update_policy", "delete_policy":
		return []string{"policy_id"}
	case "get_consumer", "update_consumer", "delete_consumer":
		return []string{"consumer_id"}
	case "get_identity_provider", "create_identity_provider", "update_identity_provider", "delete_identity_provider", "list_protocols":
		return []string{"idp_id"}
	case "get_protocol", "create_protocol", "update_protocol", "delete_protocol":
		return []string{"idp_id", "protocol_id"}
	case "get_mapping", "create_mapping", "update_mapping", "delete_mapping":
		return []string{"mapping_id"}
	case "get_service_provider", "create_service_provider", "update_service_provider", "delete_service_provider":
		return []string{"service_provider_id"}
	case "authorize_request_token":
		return []string{"request_token_id"}
	case "list_projects_for_endpoint", "check_endpoint_in_project", "add_endpoint_to_project", "remove_endpoint_from_project", "list_endpoints_for_project":
		return []string{"project_id", "endpoint_id"}
	case "list_endpoints_for_policy", "get_policy_for_endpoint":
		return []string{"policy_id", "endpoint_id"}
	default:
		switch {
		case strings.Contains(name, "endpoint_group"):
			return []string{"endpoint_group_id", "project_id"}
		case strings.Contains(name, "policy_association"):
			return []string{"policy_id", "endpoint_id", "service_id", "region_id"}
		}
	}
	return nil
}

// requestAttributes are the attributes that every operation has: the members of the
// request's body, and the parameters of its query.
var requestAttributes = [...]string{"request_body.", "filter_attr."}

// has returns whether an operation can have an attribute.
func has(operation, attribute string) bool {
	covers := func(name string) bool {
		rest, below := strings.CutPrefix(attribute, name)
		return below && (rest != "") == strings.HasSuffix(name, ".")
	}
	return slices.ContainsFunc(requestAttributes[:], covers) || slices.ContainsFunc(attributesOf(operation), covers)
}

// misses is what a check of a rule compares and an operation does not have.
type misses struct {
	rule      string // the rule that has the check
	operation string
	what      string
	negated   bool // the check holds because of what is missing
}

// missing returns what the rule of an operation compares and the operation lacks, and what
// negations compare and every token lacks. A check of it does not hold, and its negation
// always does.
func (p *Policy) missing(operation string) (all []misses) {
	p.walk(operation, p.rules[operation].check, false, map[visited]bool{}, func(rule string, c check, negated bool) {
		var names []string
		switch c := c.(type) {
		case role:
			names = c.name.names
		case compares:
			names = c.match.names
			_, literal := literalOf(c.kind)
			if _, known := (&Credentials{}).value(c.kind); negated && !known && !literal && c.kind != "is_admin" {
				all = append(all, misses{rule, operation, fmt.Sprintf("no token has %.64q", c.kind), negated})
			}
		}
		for _, name := range names {
			if !has(operation, name) {
				all = append(all, misses{rule, operation, fmt.Sprintf("%s has no attribute %.64q", operation, name), negated})
			}
		}
	})
	return all
}

// visited is a rule that walk has been in.
type visited struct {
	rule    string
	negated bool
}

// walk calls visit with each check of a rule that compares something, and of the rules that
// it refers to. negated is true inside of an odd number of negations. It enters a rule once
// with each value of negated.
func (p *Policy) walk(rule string, c check, negated bool, seen map[visited]bool, visit func(rule string, c check, negated bool)) {
	switch c := c.(type) {
	case not:
		p.walk(rule, c.of, !negated, seen, visit)
	case all:
		for _, x := range c {
			p.walk(rule, x, negated, seen, visit)
		}
	case some:
		for _, x := range c {
			p.walk(rule, x, negated, seen, visit)
		}
	case refers:
		if to := (visited{string(c), negated}); !seen[to] {
			seen[to] = true
			p.walk(to.rule, p.rules[to.rule].check, negated, seen, visit)
		}
	case role, compares:
		visit(rule, c, negated)
	}
}
