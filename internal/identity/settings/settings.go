// Package settings has the settings of a deployment of OpenStack's Identity, for
// programs that serve the door keystone: its main type is [Deployment]. It checks
// none of them; the door does when it is made.
package settings

import (
	"sync/atomic"
	"time"
)

// Deployment are the settings of a deployment. The zero value is useful.
type Deployment struct {
	// Clock returns the current time. The default is [time.Now].
	Clock func() time.Time
	// TokenLife is the life of a token. The default is one hour.
	TokenLife time.Duration
	// ExpiredWindow is how long an expired token is valid for a service that asks for
	// it. Revocations are kept for as long. The default is [ExpiredWindowDefault];
	// negative means not at all.
	ExpiredWindow time.Duration
	// Methods are the methods of authentication that are switched on, in the order
	// that tokens need: all servers that share keys have the same list. Nil means
	// those of Keystone.
	Methods []string
	// Rounds are the rounds of new bcrypt hashes, 4 to 17. The default is 12.
	Rounds int
	// Limits is the model of limits. The default is [FlatLimits].
	Limits LimitModel
	// Compliance are the rules for passwords and logins. The default has none.
	Compliance Compliance
	// HashThreads is the number of hashes of passwords that are computed at the same
	// time, on threads of their own. The default is the number of processors.
	HashThreads int
	// HashQueueMax is the largest number of hashes that wait for a thread. If more
	// come, those of the callers with the most waiting hashes, and with wrong
	// passwords, fail first. The default is 256.
	HashQueueMax int
	// HashesWaiting is set to the number of hashes that wait for a thread. Nil is not set.
	HashesWaiting *atomic.Int64
	// Leads reports whether this process is the one of several nodes that writes, and so
	// counts wrong passwords and one-time passwords, and removes what has ended. It must be
	// quick. A call that needs the node that writes fails with authz.ErrNoHolder on the
	// others, before it has had an effect. Nil means a single node.
	Leads func() bool
	// PasswordCache is how long a verified password is accepted again without
	// computing its hash, which makes further logins as quick as other requests. In
	// return, a reader of the memory of the process can guess the passwords in
	// the cache quickly. A changed password is never accepted. The default is 0: no
	// cache.
	PasswordCache time.Duration
}

// ExpiredWindowDefault is the default of [Deployment.ExpiredWindow].
const ExpiredWindowDefault = 48 * time.Hour

// LimitModel is how the limits of a project depend on those of its domain. The
// texts are Keystone's.
type LimitModel string

// The models of limits.
const (
	// FlatLimits compares no limits.
	FlatLimits LimitModel = "flat"
	// TwoLevelLimits allows projects directly below their domain only. The limit of
	// a project is at most that of its domain.
	TwoLevelLimits LimitModel = "strict_two_level"
)

// Compliance are rules for passwords and logins: the options of Keystone's
// section security_compliance. The zero value has no rules.
type Compliance struct {
	// LockoutAttempts is the number of wrong passwords after which a user is locked;
	// 0 means never. The right password resets the number.
	LockoutAttempts int
	// LockoutDuration is how long a user stays locked after the last wrong password.
	// The default is [LockoutDurationDefault]. If it is negative, users stay locked
	// until an administrator updates them.
	LockoutDuration time.Duration
	// ExpiresDays is how many days a new password is valid; 0 means forever.
	ExpiresDays int
	// UniqueCount is the number of previous passwords, the current one included, that
	// users cannot choose when they change their password; 0 allows all.
	UniqueCount int
	// MinimumAgeDays is how many days users keep a password that they chose before
	// they can change it again; 0 means none. It is less than ExpiresDays.
	MinimumAgeDays int
	// Pattern is a regular expression that new passwords match; "" allows all.
	// Lookaheads may be at its beginning only.
	Pattern string
	// PatternDescription explains Pattern in the error of a password that does not
	// match.
	PatternDescription string
	// ChangeUponFirstUse makes users change a password that an administrator set
	// before they can log in.
	ChangeUponFirstUse bool
	// InactiveDays is the number of days without a login after which a user counts as
	// disabled; 0 means never.
	InactiveDays int
}

// LockoutDurationDefault is the default of [Compliance.LockoutDuration].
const LockoutDurationDefault = 30 * time.Minute

// Bounds of [Compliance].
const (
	// UniqueCountMax bounds UniqueCount, because a change of a password verifies as
	// many hashes.
	UniqueCountMax = 50
	// DaysMax bounds the numbers of days.
	DaysMax = 36_500
	// LockoutAttemptsMax bounds LockoutAttempts.
	LockoutAttemptsMax = 1_000_000
)

// Permissions are the names of the roles that give a permission, by the
// permission, for example "compute_create": ["member"]. A role that implies such a
// role gives the permission, too. Other doors ask about a permission as a relation
// of a project.
type Permissions map[string][]string

// Bounds of [Permissions].
const (
	// PermissionsMax is the largest number of permissions.
	PermissionsMax = 500
	// PermissionBytesMax is the largest size of the name of a permission, so that every
	// door accepts it.
	PermissionBytesMax = 40
)
