package doctor

import "testing"

func TestQueueFindings_WarnBeforeTheQueueIsFull(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queue notificationQueue
		want  string
	}{
		{notificationQueue{}, ""},
		{notificationQueue{Used: 0.49, Oldest: []string{"process 7"}}, ""},
		{notificationQueue{Used: 0.5}, "warning: 50% of the server's queue of notifications"},
		{
			notificationQueue{Used: 0.75, Oldest: []string{"process 7", "process 8"}},
			"warning: in a transaction (the oldest: process 7; process 8); end it",
		},
		{notificationQueue{Used: 1}, "error: commits that notify fail"},
	} {
		want := []string{}
		if test.want != "" {
			want = append(want, test.want)
		}
		wantFindings(t, test.want, queueFindings(test.queue), want...)
	}
}
