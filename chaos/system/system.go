//go:build unix

// Package system is what faults act upon: a server of PostgreSQL that the program owns, the
// processes that use it, and the proxies between them.
package system

import "github.com/stint-tasks/stint/internal/testing/pgcut"

// A System is what is disturbed.
type System struct {
	Server *Server
	// Shards are the servers of further shards, if there are any.
	Shards []*Server
	// Proxies are between processes and the server, one for each process that has connections.
	Proxies []*pgcut.Proxy
	// Processes are those that run now, or are about to be started again.
	Processes func() []*Process
	// Dir is a directory of the round, for what a fault needs. Accounts other than that of the
	// program can enter it.
	Dir string
	// Schema is that of the tasks.
	Schema string
	// Log tells people what happens.
	Log func(format string, args ...any)
}
