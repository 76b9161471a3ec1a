package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// Types of credentials that the service itself uses. Other types are only kept.
const (
	TypeEC2  = "ec2"  // access key and secret that sign requests
	TypeTOTP = "totp" // seed of one-time passwords, in base32
)

// credentialsMax is the largest number of credentials of one user.
const credentialsMax = 1000

// EC2Blob is the content of a credential of type [TypeEC2].
type EC2Blob struct {
	Access string `json:"access"` // access key, which names the credential
	Secret string `json:"secret"` // secret key, which signs requests
	// TrustID, ApplicationCredentialID and AccessTokenID name the delegation that
	// the credential was made with; null if a user made it.
	TrustID                 *string `json:"trust_id"`
	ApplicationCredentialID *string `json:"app_cred_id,omitempty"`
	AccessTokenID           *string `json:"access_token_id,omitempty"`
}

// Delegated returns whether the credential was made with delegated rights. Such a
// credential makes no tokens.
func (b *EC2Blob) Delegated() bool {
	return b.TrustID != nil || b.ApplicationCredentialID != nil || b.AccessTokenID != nil
}

// ParseEC2 reads the content of an EC2 credential. It fails with Invalid if it is
// not an object with an access key.
func ParseEC2(blob string) (*EC2Blob, error) {
	b := &EC2Blob{}
	if err := json.Unmarshal([]byte(blob), b); err != nil {
		return nil, &Error{Reason: Invalid, Field: "blob", Text: "Invalid blob in credential"}
	}
	if b.Access == "" {
		return nil, &Error{Reason: Invalid, Field: "access", Text: "expected an object with the access key \"access\""}
	}
	return b, nil
}

// parseNewEC2 is like [ParseEC2], for a content that is not stored yet: every reader
// finds the same members in it.
func parseNewEC2(blob string) (*EC2Blob, error) {
	if err := jsonread.Unmarshal([]byte(blob), &EC2Blob{}); err != nil {
		return nil, &Error{Reason: Invalid, Field: "blob", Text: "Invalid blob in credential: " + err.Error()}
	}
	return ParseEC2(blob)
}

// EC2ID returns the id of the credential with an access key.
func EC2ID(access string) string {
	h := sha256.Sum256([]byte(access))
	return hex.EncodeToString(h[:])
}

// CreateCredential adds a credential of the user r.Owner, with the content blob.
// The member "type" is its type, and "project_id" the project of an EC2
// credential, whose id follows from its access key. It fails with NotFound if the
// user does not exist, and with Invalid, Forbidden or Conflict.
func (s *Service) CreateCredential(ctx context.Context, r Record, blob string) (*Record, error) {
	r.Kind, r.ID = Credential, newID()
	if strings.EqualFold(r.Members.Text("type"), TypeEC2) {
		b, err := parseNewEC2(blob)
		if err != nil {
			return nil, err
		}
		if b.Delegated() {
			return nil, &Error{Reason: Invalid, Field: "blob", Text: "trust_id, app_cred_id and access_token_id cannot be set: expected null"}
		}
		r.ID = EC2ID(b.Access)
	}
	return s.keep(ctx, &r, blob, func(d *directory) error {
		if _, err := d.get(User, r.Owner); err != nil {
			return err
		}
		if len(d.referring(link{User, r.Owner}, Credential)) >= credentialsMax {
			return failf(Forbidden, "Unable to create additional credentials, maximum of %d already exceeded for user.", credentialsMax)
		}
		return nil
	})
}

// CreateEC2 adds an EC2 credential with a random key and secret for a user and a
// project. It fails with NotFound.
func (s *Service) CreateEC2(ctx context.Context, user, project string) (*Record, *EC2Blob, error) {
	if p, err := s.Get(ctx, Project, project); err != nil || p.IsDomain {
		return nil, nil, missing(Project, project)
	}
	b := &EC2Blob{Access: newID(), Secret: newID()}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.CreateCredential(ctx, Record{Owner: user, Members: Members{}.With("type", TypeEC2).With("project_id", project)}, string(text))
	return r, b, err
}

// UpdateCredential replaces the content of a credential. An EC2 credential keeps
// its id and the delegation that it was made with. It fails with NotFound and
// Invalid.
func (s *Service) UpdateCredential(ctx context.Context, id, blob string) (*Record, error) {
	d, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		r, err := d.get(Credential, id)
		if err == nil && strings.EqualFold(r.Members.Text("type"), TypeEC2) {
			err = s.checkEC2Update(ctx, r, blob)
		}
		if err != nil {
			return authz.WriteRequest{}, err
		}
		x := *r
		x.SecretVersion = newID()
		return authz.WriteRequest{Documents: []authz.Document{x.document()}, Secrets: []authz.Document{x.sealed(blob)}}, nil
	})
	if err != nil {
		return nil, err
	}
	return d.get(Credential, id)
}

// checkEC2Update refuses a new content with another delegation.
func (s *Service) checkEC2Update(ctx context.Context, r *Record, blob string) error {
	b, err := parseNewEC2(blob)
	if err != nil {
		return err
	}
	text, err := s.reveal(ctx, r)
	if err != nil {
		return err
	}
	old, err := ParseEC2(text)
	if err != nil {
		return err
	}
	for name, pair := range map[string][2]*string{
		"trust_id":        {old.TrustID, b.TrustID},
		"app_cred_id":     {old.ApplicationCredentialID, b.ApplicationCredentialID},
		"access_token_id": {old.AccessTokenID, b.AccessTokenID},
	} {
		if (pair[0] == nil) != (pair[1] == nil) || pair[0] != nil && *pair[0] != *pair[1] {
			return &Error{Reason: Invalid, Field: "blob", Text: name + " can not be updated for credential"}
		}
	}
	return nil
}

// Blob returns the content of a credential. It fails with NotFound if the
// credential was deleted meanwhile.
func (s *Service) Blob(ctx context.Context, r *Record) (string, error) { return s.reveal(ctx, r) }

// LoginEC2 makes a token with the project of the EC2 credential that has an access
// key. verify checks the request that the credential signed, with the secret. The
// token has the roles that the owner has on the project now. It fails with
// NotFound if there is no such credential, and with Unauthorized.
func (s *Service) LoginEC2(ctx context.Context, access string, verify func(secret string) error) (*Token, error) {
	if !s.Offers(MethodEC2) {
		return nil, failf(Unavailable, "Cannot mint a token from an EC2 or S3 credential: the method ec2credential is not switched on.")
	}
	ctx = proving(ctx)
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	r, err := d.get(Credential, EC2ID(access))
	if err != nil || r.Members.Text("type") != TypeEC2 {
		return nil, failf(NotFound, "EC2 access key not found.")
	}
	text, err := s.reveal(ctx, r)
	if err != nil {
		return nil, err
	}
	project := r.Members.Text("project_id")
	switch b, err := ParseEC2(text); {
	case err != nil || b.Secret == "" || project == "":
		return nil, unauthorized("EC2 credential " + r.ID + " has no secret or no project")
	case b.Delegated():
		return nil, unauthorized("EC2 credential " + r.ID + " was made with delegated rights, which are not supported")
	default:
		if err := verify(b.Secret); err != nil {
			return nil, unauthorized(err.Error())
		}
	}
	if _, err := s.rely(ctx, secretOfRecord(r)); err != nil {
		return nil, err
	}
	return s.issue(ctx, s.payload(r.Owner, Scope{ProjectID: project}, []string{MethodEC2}))
}
