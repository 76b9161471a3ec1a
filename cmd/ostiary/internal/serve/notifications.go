package serve

import (
	"context"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// notificationsName is in front of the number in the names of files of notifications.
const notificationsName = "notifications"

// notificationFlags are the settings of the notifications of Identity.
type notificationFlags struct {
	folder string
	optOut []string
}

func (f *notificationFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.folder, "keystone-notifications", "", "folder of notifications as Keystone sends them (CADF), as JSON lines; it is created; - is standard output; default: none")
}

// addRare adds the flags that few deployments set.
func (f *notificationFlags) addRare(s *pflag.FlagSet) {
	s.StringSliceVar(&f.optOut, "keystone-notification-opt-out", []string{"identity.authenticate.success", "identity.authenticate.pending"}, "types of events without notifications, as in Keystone's notification_opt_out")
}

// openNotifications opens the log of notifications, and lets the Identity door write to
// it. It returns nil if there is none.
func (s *prepared) openNotifications() (*audit.Log, error) {
	f := &s.flags.door.notifications
	if f.folder == "" {
		return nil, nil
	}
	l, err := s.linesIn(f.folder, audit.Rotation{})(audit.Options{Plain: true, Name: notificationsName, Failed: s.noteFailure("notifications of Identity")})
	if err != nil {
		return nil, fmt.Errorf("--keystone-notifications: %w", err)
	}
	k := &s.flags.door.keystone
	k.Publisher, _ = os.Hostname()
	k.NotifyOptOut = f.optOut
	k.Notify = func(notification []byte) {
		_ = l.Add(context.Background(), notification[:len(notification)-1]) // a lost one is counted
	}
	s.options.Collectors = append(s.options.Collectors, newNotificationFigures(l))
	return l, nil
}

// newNotificationFigures returns the metric of the notifications.
func newNotificationFigures(l *audit.Log) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ostiary_notifications_lost_total",
		Help: "Notifications of Identity that were lost."}, func() float64 { return float64(l.Lost()) })
}
