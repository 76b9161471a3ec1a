package sqllog

import "time"

// SetAnswerTime replaces answerTime for a log.
func (l *Log) SetAnswerTime(d time.Duration) { l.answer, l.leases.answer = d, d }
