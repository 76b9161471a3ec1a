// Package gophercloud plays a session of gophercloud, the Go client of OpenStack,
// against a server of the Identity API. The script run.sh of the folder above
// starts the server and sets OS_AUTH_URL, OS_USERNAME and OS_PASSWORD of its
// administrator. Each subtest is one check.
package gophercloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// session is the state that the checks share: the clients, and the ids of what
// earlier checks have made.
type session struct {
	*testing.T
	ctx                                                                           context.Context
	url                                                                           string
	admin                                                                         *gophercloud.ServiceClient // the administrator, scoped to the project admin
	adminID, adminProject                                                         string
	domain, project, child, user, group, role, implied, region, service, endpoint string
}

// password is the password of the users that the session makes.
const password = "gopher-secret"

// TestSession runs all checks in order. The checks of an area that the file
// absent.txt names are skipped.
func TestSession(t *testing.T) {
	url := os.Getenv("OS_AUTH_URL")
	if url == "" {
		t.Skip("OS_AUTH_URL is not set: run conformance/keystone/run.sh")
	}
	s := &session{T: t, ctx: t.Context(), url: url}
	absent, err := os.ReadFile("../absent.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, area := range []struct {
		name string
		word string // the area is skipped if absent.txt has this line
		run  func(*session)
	}{
		{"login", "", login}, {"domains", "", testDomains}, {"projects", "", testProjects}, {"users", "", testUsers}, {"groups", "", testGroups},
		{"roles", "", testRoles}, {"grants", "", testGrants}, {"inherited", "", testInherited}, {"assignments", "", testAssignments},
		{"tokens", "", testTokens}, {"catalog", "", testCatalog},
		{"application credentials", "test_application_credentials", testApplicationCredentials}, {"trusts", "test_trusts", testTrusts},
		{"credentials", "test_credentials", testCredentials}, {"ec2", "test_ec2_credentials", testEC2}, {"limits", "gophercloud_limits", testLimits},
		{"policies", "test_policies", testPolicies}, {"deletes", "", testDeletes},
	} {
		if area.word != "" && hasLine(string(absent), area.word) {
			t.Run(area.name, func(t *testing.T) { t.Skip("absent.txt names the area") })
			continue
		}
		area.run(s)
	}
}

func hasLine(text, line string) bool {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// check is one check: it fails if run does.
func (s *session) check(name string, run func() error) {
	s.Helper()
	s.Run(name, func(t *testing.T) {
		t.Helper()
		if err := run(); err != nil {
			t.Error(err)
		}
	})
}

// refused is a check that a call fails with a status.
func (s *session) refused(name string, status int, run func() error) {
	s.Helper()
	s.check(name, func() error {
		var unexpected gophercloud.ErrUnexpectedResponseCode
		err := run()
		if !errors.As(err, &unexpected) || unexpected.Actual != status {
			return fmt.Errorf("got error %v, expected status %d", err, status)
		}
		return nil
	})
}

// made is a check that a call succeeds; it stores the id that the call returns.
func (s *session) made(name string, id *string, run func() (string, error)) {
	s.Helper()
	s.check(name, func() (err error) {
		if *id, err = run(); err == nil && *id == "" {
			err = errors.New("the response has no id")
		}
		return err
	})
}

// equal returns an error if got is not expected.
func equal[T comparable](got, expected T) error {
	if got != expected {
		return fmt.Errorf("got %v, expected %v", got, expected)
	}
	return nil
}

// listed is a check that a list contains an id.
func (s *session) listed(name string, list pagination.Pager, id string) {
	s.Helper()
	s.check(name, func() error {
		page, err := list.AllPages(s.ctx)
		if err != nil {
			return err
		}
		if !strings.Contains(fmt.Sprint(page.GetBody()), id) {
			return fmt.Errorf("the list lacks %s: %.2000v", id, page.GetBody())
		}
		return nil
	})
}

// client logs in and returns a client.
func (s *session) client(o gophercloud.AuthOptions) (*gophercloud.ServiceClient, error) {
	o.IdentityEndpoint = s.url
	provider, err := openstack.AuthenticatedClient(s.ctx, o)
	if err != nil {
		return nil, err
	}
	return openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
}

// asUser returns a client of the session's user, scoped to its project.
func (s *session) asUser(secret string) (*gophercloud.ServiceClient, error) {
	return s.client(gophercloud.AuthOptions{UserID: s.user, Password: secret, Scope: &gophercloud.AuthScope{ProjectID: s.project}})
}

// token returns the token of a client, as the server describes it.
func (s *session) token(c *gophercloud.ServiceClient) tokens.GetResult {
	return tokens.Get(s.ctx, s.admin, c.Token())
}

func login(s *session) {
	o := gophercloud.AuthOptions{Username: os.Getenv("OS_USERNAME"), Password: os.Getenv("OS_PASSWORD"), DomainID: "default",
		Scope: &gophercloud.AuthScope{ProjectName: "admin", DomainID: "default"}}
	s.check("login with a project", func() (err error) {
		s.admin, err = s.client(o)
		return err
	})
	if s.admin == nil {
		s.FailNow()
	}
	s.made("user of the token", &s.adminID, func() (string, error) {
		u, err := s.token(s.admin).ExtractUser()
		return u.ID, err
	})
	s.made("project of the token", &s.adminProject, func() (string, error) {
		p, err := s.token(s.admin).ExtractProject()
		return p.ID, err
	})
	wrong := o
	wrong.Password = "wrong"
	s.refused("login with a wrong password", http.StatusUnauthorized, func() error {
		_, err := s.client(wrong)
		return err
	})
	system := o
	system.Scope = &gophercloud.AuthScope{System: true}
	s.check("login with the system", func() error {
		_, err := s.client(system)
		return err
	})
}
