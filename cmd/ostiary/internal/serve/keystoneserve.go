package serve

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/server"
)

// loginFlags are the settings of passwords and logins of the Keystone door.
type loginFlags struct {
	policy string // name of the policy file; "" for none
	// permissions is the name of the file of permissions; "" for none
	permissions string
}

// add adds the flags. The names after "keystone-" are those of Keystone's options
// in the section security_compliance.
func (f *loginFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.policy, "keystone-policy", "", "policy file of oslo.policy, in YAML or JSON, whose rules replace the defaults of Identity; SIGHUP reads it again")
	s.StringVar(&f.permissions, "keystone-permissions", "", "YAML file that lists the roles that give a permission, for example compute_create: [member]; other doors ask about permissions as relations of projects")
}

// addRare adds the flags that few deployments set.
func (f *loginFlags) addRare(s *pflag.FlagSet, o *settings.Deployment) {
	c := &o.Compliance
	s.DurationVar(&o.ExpiredWindow, "keystone-allow-expired-window", settings.ExpiredWindowDefault, "how long an expired token is valid for a service that asks for it with allow_expired")
	s.IntVar(&o.HashThreads, "keystone-hash-threads", 0, "number of password hashes that are computed at the same time, on threads of low priority; default: the number of processors")
	s.IntVar(&o.HashQueueMax, "keystone-hash-queue", password.QueueMaxDefault, "number of password hashes that may wait; others get 503 with Retry-After")
	s.DurationVar(&o.PasswordCache, "keystone-password-cache", 0, "how long a verified password is accepted again without computing its hash, for example 5m; a reader of the memory of the process can then guess these passwords quickly; 0 means never")
	s.IntVar(&o.Rounds, "keystone-password-hash-rounds", password.RoundsDefault, "rounds of bcrypt of new password hashes, 4 to 17; a login replaces a hash of another number")
	s.IntVar(&c.LockoutAttempts, "keystone-lockout-failure-attempts", 0, "number of wrong passwords after which a user is locked; 0 means never")
	s.DurationVar(&c.LockoutDuration, "keystone-lockout-duration", settings.LockoutDurationDefault, "how long a user stays locked after the last wrong password; negative means until an administrator updates the user")
	s.IntVar(&c.ExpiresDays, "keystone-password-expires-days", 0, "number of days that a new password is valid; 0 means forever")
	s.IntVar(&c.UniqueCount, "keystone-unique-last-password-count", 0, "number of previous passwords that users cannot choose again, the current one included; 0 allows all")
	s.IntVar(&c.MinimumAgeDays, "keystone-minimum-password-age", 0, "number of days before users can change a password that they chose")
	s.StringVar(&c.Pattern, "keystone-password-regex", "", "regular expression that new passwords match, for example ^(?=.*\\d)(?=.*[a-zA-Z]).{7,}$; lookaheads may be at its beginning only")
	s.StringVar(&c.PatternDescription, "keystone-password-regex-description", "", "explanation of --keystone-password-regex in the error of a password that does not match")
	s.BoolVar(&c.ChangeUponFirstUse, "keystone-change-password-upon-first-use", false, "users must change a password that an administrator set before they can log in")
	s.IntVar(&c.InactiveDays, "keystone-disable-user-account-days-inactive", 0, "number of days without a login by password after which a user counts as disabled; 0 means never")
}

// servedDoors returns the doors that a server serves, each once. Without a common
// port, it serves only doors with a port of their own.
func servedDoors(o *server.Options) (doors []*door.Door) {
	seen := map[*door.Door]bool{}
	add := func(d *door.Door) {
		if !seen[d] {
			seen[d] = true
			doors = append(doors, d)
		}
	}
	if o.HTTP != "" || o.GRPC != "" {
		for _, d := range o.Doors {
			add(d)
		}
	}
	for _, d := range o.Dedicated {
		add(d.Door)
	}
	return doors
}

// makeRoomForHashes raises the number of processors of Go's scheduler by the
// threads of password hashes, so that a hash never takes the processor of a
// request (decision 0014). It does nothing if no served door has a deployment of
// the Identity API.
func makeRoomForHashes(ctx context.Context, e *ostiary.Engine, doors []*door.Door, threads int) {
	if threads <= 0 {
		threads = runtime.NumCPU()
	}
	for _, d := range doors {
		if d.Name != keystone.Name {
			continue
		}
		if _, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore); err == nil {
			runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
		}
	}
}

// prepareDoors does what doors do before their first request. It logs errors,
// which requests then report.
func prepareDoors(ctx context.Context, doors []*door.Door, log *slog.Logger) {
	for _, d := range doors {
		if d.Prepare == nil {
			continue
		}
		if err := d.Prepare(ctx); err != nil && ctx.Err() == nil {
			log.Error("a door could not be prepared", "door", d.Name, "error", err)
		}
	}
}

// runDoors runs the background work of doors until the caller calls stop, which
// waits for its end.
func runDoors(doors []*door.Door) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, d := range doors {
		if d.Background != nil {
			running.Go(func() { d.Background(ctx) })
		}
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// warnKeystoneKeys logs a warning if there is a deployment of the Identity API whose keys
// are missing, so that every login fails.
func (s *prepared) warnKeystoneKeys(ctx context.Context) {
	if _, err := s.engine.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore); err != nil || s.Data == cli.InMemory {
		return
	}
	if key, err := s.ReadSecretKey(); key == nil || err != nil {
		s.log.Warn("logins to the Identity API will fail: the key of passwords is missing", "file", s.SecretKeyFile())
	}
	s.warnKeyFolders(ctx)
}

// prepareIdentity reads the files of the Identity door, and returns its policy file.
func (s *prepared) prepareIdentity() (rules *policyFile, err error) {
	door, log := &s.flags.door, s.log
	door.keystone.Identity.HashesWaiting = new(atomic.Int64)
	if s.Data != cli.InMemory {
		if err := s.CheckKeystoneModes(); err != nil {
			return nil, err
		}
		door.keystone.Keys = withoutContext((&cli.FernetKeys{Repository: s.KeystoneKeysFolder()}).Load)
		door.keystone.ReceiptKeys = withoutContext(s.ReceiptKeys())
	}
	rules = &policyFile{name: door.logins.policy, log: log}
	if err := rules.reload(); err != nil {
		return nil, err
	}
	if door.keystone.Permissions, err = door.logins.readPermissions(); err != nil {
		return nil, err
	}
	door.keystone.Policy = rules.current.Load
	door.caCert = s.CaCert
	door.keystone.Refused = func(remote, id string, why error) {
		log.Debug("Identity: caller not authenticated", "remote", remote, "why", why, "id", id)
		s.failures.Failed(keystone.Name, remote, id, why.Error())
	}
	door.keystone.Warn = func(err error) { log.Warn("Identity", "warning", err) }
	return rules, door.checkKeystone(log)
}
