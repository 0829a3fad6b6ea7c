package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
)

// A tilde is explained across shards, too, each with the time of its estimate.
func TestStats_OfShardsSayWhenTheyWereEstimated(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	p := &program{stdout: &stdout, stderr: &stderr}
	err := p.printShardStats([]shards.ShardStats{
		{Shard: "eu", Stats: stint.Stats{
			Actions:     []stint.ActionStats{{Action: "mail", Ready: 12_345}},
			Estimated:   []stint.State{stint.StateReady},
			EstimatedAt: time.Date(2026, 11, 21, 12, 0, 3, 0, time.UTC),
		}},
		{Shard: "us", Stats: stint.Stats{Actions: []stint.ActionStats{{Action: "mail"}}}},
	}, false)
	want := "eu: ~ is an estimate of 2026-11-21 12:00:03Z\n"
	if err != nil || !strings.Contains(stdout.String(), "~12,345") || stderr.String() != want {
		t.Errorf("stats: %v, output\n%s\nstandard error %q, want %q", err, stdout.String(),
			stderr.String(), want)
	}
}
