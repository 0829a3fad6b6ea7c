//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// peers are shards 1 and 2, whose services ask for tokens and certificates.
type peers struct {
	databases map[string]*database
	addresses map[string]string
	authority *authority
	topology  string
	flags     []string // of every service, but for what it calls others with
	cert, key string   // of a client
	token     string   // of somebody who inserts tasks
	peerToken string   // of the services
	performed sync.Map // how often each task was performed, by its name
}

// peerGrants are what docs/operations/shards.md says.
const peerGrants = `
shop: [{verbs: [insert, read-bodies], actions: ["act"]}]
peer: [{verbs: [own, insert, read-bodies, control, answer], actions: ["stint.*", "act"]}]
`

func newPeers(t *testing.T) *peers {
	t.Helper()
	dir, ours := t.TempDir(), newAuthority(t)
	p := &peers{
		databases: map[string]*database{}, addresses: map[string]string{}, authority: ours,
		topology: "static:",
	}
	for _, shard := range []string{"1", "2"} {
		_, port, _ := strings.Cut(freePort(t), ":")
		p.databases[shard], p.addresses[shard] = newDatabase(t), "127.0.0.1:"+port
		p.topology += fmt.Sprintf("%s=https://%s,", shard, p.addresses[shard])
	}
	p.topology = strings.TrimSuffix(p.topology, ",")
	certificate, key := ours.issue(t, dir, "server")
	p.cert, p.key = ours.issue(t, dir, "client")
	ca, grants := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "grants")
	write(t, ca, encode("CERTIFICATE", ours.certificate.Raw))
	write(t, grants, peerGrants)
	tokens := filepath.Join(dir, "tokens")
	p.token = p.databases["1"].newToken(t, tokens, "shop")
	p.peerToken = p.databases["1"].newToken(t, tokens, "peer")
	p.flags = []string{
		"--tls-cert", certificate, "--tls-key", key, "--client-ca", ca, "--tokens", tokens,
		"--grants", grants, "--topology", p.topology, "--peer-ca", ca, "--peer-cert", p.cert,
		"--peer-key", p.key,
	}
	return p
}

// serve starts a service of a shard.
func (p *peers) serve(t *testing.T, shard string, flags ...string) *server {
	t.Helper()
	all := append([]string{"--shard", shard, "--listen", p.addresses[shard]}, p.flags...)
	return p.databases[shard].serve(t, append(all, flags...)...)
}

// client is one of the service at an address, for somebody who inserts tasks.
func (p *peers) client(t *testing.T, address string) *client.Client {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	config := p.authority.trust()
	config.Certificates = []tls.Certificate{pair}
	c, err := client.New(address, client.Options{
		Token: p.token, TLS: config, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return c
}

// work performs the tasks of both shards until the test ends, and counts.
func (p *peers) work(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for shard, d := range p.databases {
		all.Go(func() {
			for {
				owned, err := d.store.WaitToOwnTasks(
					t.Context(), "worker", 10, []string{"act"}, time.Hour)
				if err != nil {
					return
				}
				returns := make([]stint.Return, len(owned))
				for i, task := range owned {
					name := shard + "/" + string(task.ID)
					if _, again := p.performed.LoadOrStore(name, true); again {
						t.Errorf("%s was performed twice", name)
					}
					returns[i] = stint.Return{
						ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
					}
				}
				errs, err := d.store.ReturnTasks(t.Context(), returns)
				err = errors.Join(append(errs, err)...)
				if err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(all.Wait)
}

// zigzag is a network of so many tasks, each of which waits for the one before on the other shard.
// The shard of the first task has one more than the other one, and so decides.
func zigzag(name, first string, n int) []shards.Task {
	tasks := make([]shards.Task, n)
	for i := range tasks {
		tasks[i] = shards.Task{Shard: first, Task: stint.Task{
			ID: stint.TaskID(fmt.Sprintf("%s/%d", name, i)), Action: "act", PostResult: true,
		}}
		if i%2 == 1 {
			tasks[i].Shard = map[string]string{"1": "2", "2": "1"}[first]
		}
		if i > 0 {
			tasks[i].After = []shards.ID{{
				Shard: tasks[i-1].Shard, Task: tasks[i-1].Task.ID,
			}}
		}
	}
	return tasks
}

// wantCompleted waits for the end of tasks, which must all be completed and performed.
func (p *peers) wantCompleted(t *testing.T, tasks []shards.Task) {
	t.Helper()
	for _, task := range tasks {
		info := p.databases[task.Shard].wait(t, task.Task.ID)
		if info.State != stint.StateCompleted {
			t.Errorf("%s/%s is %s", task.Shard, info.ID, info.State)
		}
		if _, ok := p.performed.Load(task.Shard + "/" + string(info.ID)); !ok {
			t.Errorf("%s/%s was not performed", task.Shard, info.ID)
		}
	}
	p.wantSound(t)
}

// wantSound checks the shards, and what is between them.
func (p *peers) wantSound(t *testing.T) {
	t.Helper()
	urls := map[string]string{}
	for shard, d := range p.databases {
		urls[shard] = testdb.URL(d.pool)
	}
	topology, err := shards.Static(urls)
	if err != nil {
		t.Fatal(err)
	}
	c, err := shards.New(topology, shards.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Check(testContext(t))
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
	if err := c.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

// awaitNothing waits until there are no tasks but decisions against inserts, guards that have
// ended, and the name of the shard.
func (p *peers) awaitNothing(t *testing.T) {
	t.Helper()
	eventually(t, "an end of what was not inserted", func() bool {
		for _, d := range p.databases {
			page, err := d.store.ListTasks(t.Context(), stint.Filter{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range page.Tasks {
				stays := strings.HasPrefix(string(task.ID), "stint.decision/") ||
					task.ID == "stint.shard"
				if !stays && task.State != stint.StateCompleted {
					return false
				}
			}
		}
		return true
	})
}

// Services of shards that ask each other for tokens and certificates join their tasks.
// Proves G144.
func TestServe_PeersCallEachOtherWithTokensAndTLS(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	p := newPeers(t)
	file := writeFile(t, p.peerToken+"\n")
	one := p.serve(t, "1", "--peer-token-file", file)
	two := p.serve(t, "2", "--peer-token-file", file)
	p.work(t)
	var all []shards.Task
	for i, at := range []*server{one, two} {
		for _, first := range []string{"1", "2"} {
			tasks := zigzag(fmt.Sprint(i, first), first, 7)
			if err := p.client(t, at.address).InsertShardTasks(t.Context(), tasks); err != nil {
				t.Errorf("InsertShardTasks at %d = %v", i, err)
			}
			all = append(all, tasks...)
		}
	}
	p.wantCompleted(t, all)
	one.stop(t)
	two.stop(t)
	for _, s := range []*server{one, two} {
		if strings.Contains(s.output.String(), p.peerToken) {
			t.Error("the log has the token")
		}
	}
}

// A service that the other shard does not know, or does not know any more, inserts nothing on
// either. Once its token is right, the same tasks are inserted and performed.
// Proves G144.
func TestServe_PeersThatAreRefusedInsertNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, token := range map[string]string{"a wrong token": "stint_guess", "no token": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeers(t)
			file, flags := writeFile(t, token), []string{}
			if token != "" {
				flags = []string{"--peer-token-file", file}
			}
			one := p.serve(t, "1", flags...)
			p.serve(t, "2", "--peer-token-file", writeFile(t, p.peerToken))
			c := p.client(t, one.address)
			tasks := map[string][]shards.Task{"1": zigzag("a", "1", 3), "2": zigzag("b", "2", 3)}
			for decides, some := range tasks {
				err := c.InsertShardTasks(t.Context(), some)
				if err == nil || errors.Is(err, client.ErrRefused) ||
					!strings.Contains(err.Error(), "shard 2 does not let this service") {
					t.Errorf("InsertShardTasks, decided by shard %s = %v", decides, err)
				}
			}
			for _, part := range []string{
				"a relay cannot work on a shard", "procedure=/stint.v1.ClusterService/InsertShard",
				"the service refuses the call: ",
			} {
				one.says(t, part)
			}
			p.awaitNothing(t)
			write(t, file, p.peerToken)
			if token == "" {
				one.stop(t)
				p.serve(t, "1", "--peer-token-file", file)
			}
			p.work(t)
			for _, some := range tasks {
				if err := c.InsertShardTasks(t.Context(), some); err != nil {
					t.Errorf("InsertShardTasks = %v", err)
				}
			}
			p.wantCompleted(t, append(tasks["1"], tasks["2"]...))
		})
	}
}

// kill ends the process as if its machine had failed.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // as it was killed
}

// awaitPerformed waits until a task has been performed.
func (p *peers) awaitPerformed(t *testing.T, task shards.Task) {
	t.Helper()
	name := task.Shard + "/" + string(task.Task.ID)
	eventually(t, name, func() bool {
		_, ok := p.performed.Load(name)
		return ok
	})
}

// A shard with several services is joined as long as one of them lives, also if it is not the one
// that others know; and when that one is back, it goes on with what waited for it.
// Proves G144.
func TestServe_PeersOfOneShardTakeOver(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const size, some = 17, 5
	p := newPeers(t)
	file := writeFile(t, p.peerToken)
	known := p.serve(t, "1", "--peer-token-file", file)
	other := p.serve(t, "1", "--peer-token-file", file, "--listen", "127.0.0.1:0")
	two := p.serve(t, "2", "--peer-token-file", file)
	p.work(t)

	// The other one goes on.
	tasks := zigzag("a", "1", size)
	if err := p.client(t, other.address).InsertShardTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	p.awaitPerformed(t, tasks[some])
	known.kill(t)
	p.wantCompleted(t, tasks)

	// There is none: what concerns this shard waits for the one that is known.
	known = p.serve(t, "1", "--peer-token-file", file)
	more := zigzag("b", "2", size)
	if err := p.client(t, two.address).InsertShardTasks(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	p.awaitPerformed(t, more[some])
	known.kill(t)
	other.kill(t)
	var refused []shards.Task
	eventually(t, "an answer that shard 1 is away", func() bool {
		// Other tasks each time: an attempt whose answer was lost may still be under way.
		refused = zigzag("c/"+uuid.New().String(), "2", size)
		err := p.client(t, two.address).InsertShardTasks(t.Context(), refused)
		if err == nil {
			t.Fatal("InsertShardTasks without shard 1 = nil")
		}
		return strings.Contains(err.Error(), "shard 1 does not answer")
	})
	p.serve(t, "1", "--peer-token-file", file)
	p.wantCompleted(t, more)
	if err := p.client(t, two.address).InsertShardTasks(t.Context(), refused); err != nil {
		t.Errorf("InsertShardTasks when shard 1 is back = %v", err)
	}
	p.wantCompleted(t, refused)
}

func TestServe_PeersTrustOnlyTheirAuthority(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	p := newPeers(t)
	file, other := writeFile(t, p.peerToken), newAuthority(t)
	one := p.serve(t, "1", "--peer-token-file", file, "--peer-ca",
		writeFile(t, encode("CERTIFICATE", other.certificate.Raw)))
	p.serve(t, "2", "--peer-token-file", file)
	err := p.client(t, one.address).InsertShardTasks(t.Context(), zigzag("a", "1", 3))
	if err == nil || !strings.Contains(err.Error(), "shard 2 does not answer") {
		t.Errorf("InsertShardTasks = %v", err)
	}
	one.says(t, "certificate signed by unknown authority")
	p.awaitNothing(t)
}

func TestServe_RefusesWhatPeersCannotBeCalledWith(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	none, empty := filepath.Join(t.TempDir(), "none"), writeFile(t, "")
	token := writeFile(t, "stint_token")
	const far = "static:1=http://localhost,2=http://far.example"
	const both = "static:1=https://a,2=https://b"
	for _, c := range []struct {
		want, topology string
		args           []string
	}{
		{"--peer-token-file needs --topology", "", []string{"--peer-token-file", empty}},
		{"--peer-ca needs --topology", "", []string{"--peer-ca", empty}},
		{"--peer-cert and --peer-key belong", both, []string{"--peer-cert", empty}},
		{"--peer-token-file: open", both, []string{"--peer-token-file", none}},
		{"is empty", both, []string{"--peer-token-file", empty}},
		{"--peer-ca: open", both, []string{"--peer-ca", none}},
		{"has no certificate in PEM", both, []string{"--peer-ca", empty}},
		{"--peer-cert and --peer-key: ", both, []string{"--peer-cert", empty, "--peer-key", empty}},
		{"shard 2: the token of --peer-token-file is sent to https", far, []string{
			"--peer-token-file", token,
		}},
		{
			"shard 1: the token of --peer-token-file is sent to https", "pattern:http://{shard}.a",
			[]string{"--peer-token-file", token},
		},
		{"--topology: shard 2: ", "static:1=a:1,2=ftp://b", nil},
	} {
		args := append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)
		if c.topology != "" {
			args = append(args, "--shard", "1", "--topology", c.topology)
		}
		d.run(t, "", args...).wantExit(t, 2, c.want)
	}
}
