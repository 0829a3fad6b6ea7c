//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// A cluster is three nodes and one etcd in a directory of their own.
type cluster struct {
	dir     string
	account account
	etcd    *process
	nodes   []*node
}

// startCluster starts a cluster and waits until it is whole.
func startCluster(ctx context.Context, p programs) (c *cluster, err error) {
	a, err := clusterAccount()
	if err != nil {
		return nil, err
	}
	c = &cluster{account: a}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(true), fmt.Errorf("the logs are in %s", c.dir))
		}
	}()
	if c.dir, err = os.MkdirTemp("", "stint-failover-"); err != nil {
		return nil, err
	}
	if err := a.own(c.dir); err != nil {
		return nil, err
	}
	section, err := p.section(ctx)
	if err != nil {
		return nil, err
	}
	etcd, err := c.startEtcd(ctx, p.etcd, section == "etcd")
	if err != nil {
		return nil, err
	}
	if err := awaitEtcd(ctx, etcd); err != nil {
		return nil, err
	}
	password := uuid.NewString()
	for _, name := range []string{"a", "b", "c"} {
		n, err := newNode(ctx, name, filepath.Join(c.dir, name), etcd)
		if err != nil {
			return nil, err
		}
		n.Password, n.Programs, n.Section = password, p.postgres, section
		c.nodes = append(c.nodes, n)
		if err := n.start(a, p.patroni); err != nil {
			return nil, err
		}
	}
	_, err = c.awaitWhole(ctx)
	return c, err
}

// startEtcd starts etcd, also with its old protocol, and returns its address.
func (c *cluster) startEtcd(ctx context.Context, path string, old bool) (string, error) {
	clients, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	peers, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	args := []string{
		"--data-dir", filepath.Join(c.dir, "etcd"),
		"--listen-client-urls", "http://" + clients, "--advertise-client-urls", "http://" + clients,
		"--listen-peer-urls", "http://" + peers, "--initial-advertise-peer-urls", "http://" + peers,
		"--initial-cluster", "default=http://" + peers,
	}
	if old {
		args = append(args, "--enable-v2")
	}
	c.etcd, err = c.account.start(filepath.Join(c.dir, "etcd.log"), c.dir, path, args...)
	return clients, err
}

// awaitEtcd waits until etcd can be used: until then, it does not tell Patroni its version.
func awaitEtcd(ctx context.Context, address string) error {
	const startMax = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	n := &node{REST: address}
	for {
		answer, err := n.ask(ctx, http.MethodGet, "/version", nil)
		if err == nil && !bytes.Contains(answer, []byte("not_decided")) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for etcd: %w", err)
		}
	}
}

// close ends all processes. It leaves the directory, with the logs, if it is to be kept.
func (c *cluster) close(keep bool) error {
	var err error
	for _, n := range c.nodes {
		err = errors.Join(err, n.end())
	}
	if c.etcd != nil {
		err = errors.Join(err, c.etcd.signal(syscall.SIGKILL))
		<-c.etcd.ended
	}
	if keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// url names all nodes, the given one first, as the pool of a service should.
func (c *cluster) url(first *node) string {
	hosts := []string{first.Postgres}
	for _, n := range c.nodes {
		if n != first {
			hosts = append(hosts, n.Postgres)
		}
	}
	return fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable&"+
		"target_session_attrs=read-write&connect_timeout=2&pool_ping_timeout=1s",
		first.Password, strings.Join(hosts, ","))
}

// A member is what Patroni says of a node.
type member struct{ Name, Role, State string }

// members asks the Patroni of a node.
func (n *node) members(ctx context.Context) ([]member, error) {
	const askMax = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	body, err := n.ask(ctx, http.MethodGet, "/cluster", nil)
	if err != nil {
		return nil, err
	}
	var answer struct{ Members []member }
	err = json.Unmarshal(body, &answer)
	return answer.Members, err
}

// ask sends a request to the Patroni of a node.
func (n *node) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+n.REST+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// awaitWhole waits until one node is the primary, one its synchronous standby and one another
// standby, and returns the primary.
func (c *cluster) awaitWhole(ctx context.Context) (*node, error) {
	const wholeMax = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, wholeMax)
	defer cancel()
	for {
		for _, n := range c.nodes {
			found, err := n.members(ctx)
			if err != nil {
				continue
			}
			if primary := c.whole(found); primary != nil {
				return primary, nil
			}
		}
		if err := c.ended(); err != nil {
			return nil, err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait until the cluster is whole: %w", err)
		}
	}
}

// awaitSuccessor waits until another node than the old primary is the primary, and returns it.
func (c *cluster) awaitSuccessor(ctx context.Context, old *node) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, recoveryMax)
	defer cancel()
	for {
		for _, n := range c.nodes {
			if n != old && n.isPrimary(ctx) {
				return n, nil
			}
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for a new primary: %w", err)
		}
	}
}

// isPrimary reports whether a node says that it is the primary.
func (n *node) isPrimary(ctx context.Context) bool {
	const askMax = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	_, err := n.ask(ctx, http.MethodGet, "/primary", nil)
	return err == nil
}

// ended returns an error if the Patroni of a node has ended by itself.
func (c *cluster) ended() error {
	for _, n := range c.nodes {
		select {
		case <-n.patroni.ended:
			return fmt.Errorf("the Patroni of node %s has ended", n.Name)
		default:
		}
	}
	return nil
}

// whole returns the primary, or nil if the cluster is not whole.
func (c *cluster) whole(members []member) *node {
	roles := map[string]*node{}
	for _, m := range members {
		for _, n := range c.nodes {
			if n.Name == m.Name && (m.State == "running" || m.State == "streaming") {
				roles[m.Role] = n
			}
		}
	}
	if roles["leader"] == nil || roles["sync_standby"] == nil || roles["replica"] == nil {
		return nil
	}
	return roles["leader"]
}

// switchover asks Patroni to make another node the primary.
func (c *cluster) switchover(ctx context.Context, primary *node) error {
	body, err := json.Marshal(map[string]string{"leader": primary.Name})
	if err != nil {
		return err
	}
	_, err = primary.ask(ctx, http.MethodPost, "/switchover", body)
	return err
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
