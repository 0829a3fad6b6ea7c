//go:build linux

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"text/template"
)

// A node is a PostgreSQL and the Patroni that looks after it. Other nodes reach it, and it reaches
// etcd, through proxies, whose network can be cut. Clients reach it directly, even then: that is
// the hard case, in which they can talk to a primary that is cut off from the rest.
type node struct {
	Name, Dir, Password, Programs, Section string

	Postgres, REST                      string // where they listen
	PostgresProxy, RESTProxy, EtcdProxy string // how others reach them, and the node etcd

	proxies    []*proxy
	patroni    *process
	postmaster int // as of the fault
}

//go:embed patroni.yaml
var files embed.FS

// newNode chooses the addresses of a node.
func newNode(ctx context.Context, name, dir, etcd string) (*node, error) {
	n := &node{Name: name, Dir: dir}
	var err error
	if n.Postgres, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	if n.REST, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	for _, way := range []struct {
		to  string
		via *string
	}{{n.Postgres, &n.PostgresProxy}, {n.REST, &n.RESTProxy}, {etcd, &n.EtcdProxy}} {
		p, err := newProxy(ctx, way.to)
		if err != nil {
			return nil, err
		}
		n.proxies = append(n.proxies, p)
		*way.via = p.address()
	}
	return n, nil
}

// start starts the node's Patroni, which starts its PostgreSQL.
func (n *node) start(a account, patroni string) error {
	settings, err := template.ParseFS(files, "patroni.yaml")
	if err != nil {
		return err
	}
	if err := a.makeDir(n.Dir); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := settings.Execute(&text, n); err != nil {
		return err
	}
	path := filepath.Join(n.Dir, "patroni.yaml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return err
	}
	if err := a.own(path); err != nil {
		return err
	}
	n.patroni, err = a.start(filepath.Join(n.Dir, "log"), n.Dir, patroni, path)
	return err
}

// findPostmaster reads the process number of the node's PostgreSQL.
func (n *node) findPostmaster() error {
	text, err := os.ReadFile(filepath.Join(n.Dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	n.postmaster, err = strconv.Atoi(string(line))
	return err
}

// signalPatroni and signalPostgres reach the processes of the node.
func (n *node) signalPatroni(signal syscall.Signal) error {
	return n.patroni.signal(signal)
}

func (n *node) signalPostgres(signal syscall.Signal) error {
	return signalAll(n.postmaster, signal)
}

// kill kills Patroni first, so that it does not start PostgreSQL again.
func (n *node) kill() error {
	return errors.Join(n.signalPatroni(syscall.SIGKILL), n.signalPostgres(syscall.SIGKILL))
}

// freeze stops Patroni and PostgreSQL, as a frozen container does: their connections stand, and the
// system goes on to acknowledge what arrives.
func (n *node) freeze() error {
	return errors.Join(n.signalPatroni(syscall.SIGSTOP), n.signalPostgres(syscall.SIGSTOP))
}

func (n *node) cut() {
	for _, p := range n.proxies {
		p.cut()
	}
}

func (n *node) heal() {
	for _, p := range n.proxies {
		p.heal()
	}
}

// end ends whatever is left of the node.
func (n *node) end() error {
	var err error
	if n.patroni != nil {
		err = n.signalPatroni(syscall.SIGKILL)
		if n.findPostmaster() == nil && n.isPostmaster() {
			err = errors.Join(err, n.signalPostgres(syscall.SIGKILL))
		}
	}
	for _, p := range n.proxies {
		p.close()
	}
	return err
}

// isPostmaster reports whether the process number is that of this node's PostgreSQL: the number of
// one that has ended may belong to somebody else by now.
func (n *node) isPostmaster() bool {
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", n.postmaster))
	return err == nil && dir == filepath.Join(n.Dir, "data")
}

// freeAddress is an address of this machine at which nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
