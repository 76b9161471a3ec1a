package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/node"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// quorumFlags are the settings of a node of a cluster without a database.
type quorumFlags struct {
	cluster bool
	join    string
	vote    bool
}

func (f *quorumFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&f.cluster, "cluster", false, "be a node of a cluster whose nodes keep the log themselves; a new data folder begins a new cluster, unless --join is set")
	s.StringVar(&f.join, "join", "", "like --cluster, but a new data folder joins the cluster of this token, which \"ostiary node token\" makes on another node; not used once it has joined")
}

// addRare adds the flags that few deployments set.
func (f *quorumFlags) addRare(s *pflag.FlagSet) {
	s.BoolVar(&f.vote, "vote", true, "with --cluster: take part in the majority that decides what is written; only the first five nodes do")
}

// on reports whether the server is a node of a cluster without a database.
func (f *quorumFlags) on() bool { return f.cluster || f.join != "" }

// openLogs opens --log, and the log that it may be moved to.
func (m *member) openLogs(ctx context.Context, a *app) (sharedlog.Log, error) {
	log, err := a.OpenLog(ctx, m.flags.log)
	if err != nil || m.flags.next == "" {
		return log, err
	}
	return m.withNext(ctx, a, log)
}

// withNext returns a log that goes on with --next-log once it was moved there.
func (m *member) withNext(ctx context.Context, a *app, log sharedlog.Log) (sharedlog.Log, error) {
	next, err := a.OpenLogOf(ctx, "--next-log", m.flags.next)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return sharedlog.WithNext(log, next, func() {
		m.log.Info("the log was moved: this node goes on with --next-log; start it with that as --log, and without --cluster, the next time")
	}), nil
}

// addNodeCommands adds the commands of the socket that a node of a cluster without a
// database answers: the log has no other address.
func (m *member) addNodeCommands(c *commands) {
	if m.Quorum == nil {
		return
	}
	addCommand(c, node.TokenCommand, led(m, func(ctx context.Context, o node.TokenOptions) (made node.MadeToken, err error) {
		token, err := m.Quorum.Token(ctx, o.Valid)
		if err != nil {
			return made, err
		}
		m.log.Info("made a token for a node", "valid", o.Valid)
		return node.MadeToken{Token: token.String()}, nil
	}), func(o node.TokenOptions) string { return "valid for " + o.Valid.String() })
	addCommand(c, node.ListCommand, onLog(m, m.listNodes), nil)
	addCommand(c, node.RemoveCommand, onLog(m, m.removeNode), func(o node.RemoveOptions) string { return fmt.Sprintf("node %s, force %t", o.ID, o.Force) })
	addCommand(c, node.RotateCommand, led(m, func(ctx context.Context, o node.RotateOptions) (node.Rotated, error) {
		done, err := m.Quorum.Rotate(ctx, o.WithoutAway)
		if errors.Is(err, quorum.ErrAway) {
			err = fmt.Errorf("%w; start it and run the command again, or remove it with \"ostiary node remove\", or go on without it with --without-away", err)
		}
		return node.Rotated(done), err
	}), func(o node.RotateOptions) string { return fmt.Sprintf("without nodes that are away %t", o.WithoutAway) })
	addCommand(c, node.SettingsCommand, onLog(m, node.ChangeRunning), func(want sharedlog.Settings) string {
		if want == (sharedlog.Settings{}) {
			return ""
		}
		return fmt.Sprintf("%+v", want)
	})
	addCommand(c, node.UpgradeCommand, onLog(m, node.Upgrade), func(o node.UpgradeOptions) string { return fmt.Sprintf("to version %d", o.To) })
}

// led returns a command that needs a majority of the nodes that keep the log. It waits for a
// few seconds only until one answers. Once the command has begun, it has its whole time.
func led[O, A any](m *member, run func(context.Context, O) (A, error)) func(context.Context, O) (A, error) {
	return func(ctx context.Context, o O) (answer A, err error) {
		switch err := m.Quorum.AwaitLeader(ctx); {
		case errors.Is(err, raftlog.ErrNoLeader):
			return answer, fmt.Errorf("%w: start the nodes that do not answer, %s", err, thenRecover)
		case err != nil:
			return answer, err
		}
		return run(ctx, o)
	}
}

// thenRecover is what can be done next when a majority does not answer.
const thenRecover = "and run the command again; if a majority of those that vote never comes back, see \"ostiary node recover\""

// refuseCommands answers the socket of the data folder while the node waits for the others,
// until the returned function is called.
func (m *member) refuseCommands(data string) (stop func()) {
	if !m.flags.quorum.on() {
		return func() {}
	}
	return serveSocket(data, m.log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the server takes no command yet, because it waits for a majority of the nodes that keep the log: start the others, "+thenRecover, http.StatusConflict)
	}))
}

// onLog returns a command that runs on a connection to the log.
func onLog[O, A any](m *member, run func(context.Context, sharedlog.Log, O) (A, error)) func(context.Context, O) (A, error) {
	return led(m, func(ctx context.Context, o O) (A, error) {
		log := m.Quorum.Log()
		defer log.Close()
		return run(ctx, log, o)
	})
}

// listNodes returns the nodes of the registry, with their parts in keeping the log.
func (m *member) listNodes(ctx context.Context, log sharedlog.Log, o struct{}) ([]node.Listed, error) {
	all, err := node.List(ctx, log, o)
	if err != nil {
		return nil, err
	}
	members, err := m.Quorum.Members()
	if err != nil {
		return nil, err
	}
	for _, part := range members {
		role := "follows"
		switch {
		case part.Leader:
			role = "leads"
		case part.Voter:
			role = "votes"
		}
		found := false
		for i := range all {
			if all[i].ID == part.ID {
				all[i].Log, found = role, true
			}
		}
		if !found { // it has joined, and does not serve yet; or it was forgotten
			all = append(all, node.Listed{ID: part.ID, Address: part.Address, Log: role})
		}
	}
	return all, nil
}

// removeNode removes a node from the registry, and from those that keep the log.
func (m *member) removeNode(ctx context.Context, log sharedlog.Log, o node.RemoveOptions) (done node.Removed, err error) {
	done.Authority = m.Quorum.OwnAuthority()
	_, errRegistry := node.Remove(ctx, log, o)
	if errRegistry != nil && !errors.Is(errRegistry, node.ErrUnknown) {
		return done, errRegistry
	}
	members, err := m.Quorum.Members()
	if err != nil {
		return done, err
	}
	for _, part := range members {
		if part.ID == o.ID.String() {
			if err := m.Quorum.Remove(ctx, o.ID); err != nil {
				return done, fmt.Errorf("%w; it is no longer registered, but still keeps the log: try again", err)
			}
			errRegistry = nil
		}
	}
	return done, errRegistry
}
