package command

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/display"
)

// topologyVariable names the variable of the environment that stands for --topology.
const topologyVariable = "STINT_TOPOLOGY"

// checkTopology refuses a topology besides another place to work on. The flag of the same name of
// serve is another one.
func (p *program) checkTopology(cmd *cobra.Command) error {
	switch {
	case !cmd.Root().PersistentFlags().Changed("topology"):
		return nil
	case p.topology == "":
		return errors.New("--topology is empty; leave it out to work on one database or service")
	case p.databaseURL != "":
		return errors.New("--topology and --database-url name two places to work on: give one")
	case p.remote.address != "":
		return errors.New("--topology and --server name two places to work on: give one")
	}
	return nil
}

// onService reports whether the command line, or else the environment, names a service to work on.
func (p *program) onService() (bool, error) {
	r := &p.remote
	switch {
	case p.topology != "":
		return false, p.refuseTopology()
	case r.address != "" && p.databaseURL != "": // one flag alone would have won
		return false, said(errInput, "%s and %s are both set: unset one of them, or give --server "+
			"or --database-url", serverVariable, variableOfURL())
	case r.address == "" && len(r.given) > 0:
		return false, said(errInput, "--%s needs --server or %s", r.given[0], serverVariable)
	case r.address == "":
		return false, nil
	case !isAddress(r.address): // the flag was looked at before
		return false, said(errInput, "invalid %s %s: %s", serverVariable, shownURL(r.address),
			wantAddress)
	case r.schemaGiven:
		return false, said(errInput, "--schema is for a database; a service has its own")
	}
	return true, nil
}

// onDatabase refuses a service, for what needs the database itself.
func (p *program) onDatabase() error {
	remote, err := p.onService()
	if err != nil || !remote {
		return err
	}
	named := "--server"
	if !p.remote.asked {
		named = serverVariable
	}
	return said(errInput, "this needs the database itself, not a service: instead of %s, use "+
		"--database-url or %s", named, urlVariable)
}

// refuseTopology is the error of what works on one database or service.
func (p *program) refuseTopology() error {
	if err := p.checkPlace(); err != nil {
		return err
	}
	return said(errInput, "this works on one database or service, not across shards: instead of "+
		"--topology or %s, use --database-url or --server with the URL of a shard",
		topologyVariable)
}

// checkPlace refuses an environment that names two places to work on, of which one is a topology.
func (p *program) checkPlace() error {
	other := ""
	switch {
	case p.databaseURL != "": // one flag alone would have won
		other = variableOfURL()
	case p.remote.address != "":
		other = serverVariable
	default:
		return nil
	}
	return said(errInput, "%s and %s are both set: unset one of them, or give --topology, "+
		"--server or --database-url", topologyVariable, other)
}

// flagsLine are the flags by which a command that is printed, to be copied, finds the same tasks:
// those that were given, without passwords.
func (p *program) flagsLine() string { return p.flagsBeside(schemaDefault) }

// flagsBeside is flagsLine for a sub-command that works in another schema unless one is named.
func (p *program) flagsBeside(schema string) string {
	line := ""
	if p.schema != schema {
		line = " --schema " + display.Word(p.schema)
	}
	switch {
	case p.topology != "" && p.topology == os.Getenv(topologyVariable):
	case p.topology != "":
		line += " --topology " + shownURL(p.topology)
	case p.remote.address != "" && p.remote.address != os.Getenv(serverVariable):
		line += " --server " + display.Word(p.remote.address)
		for _, flag := range []struct{ name, value string }{
			{"token-file", p.remote.tokenFile},
			{"server-ca", p.remote.authority},
			{"client-cert", p.remote.cert},
			{"client-key", p.remote.key},
		} {
			if flag.value != "" {
				line += " --" + flag.name + " " + display.Word(flag.value)
			}
		}
	case p.remote.address == "" && p.databaseURL != p.variableURL:
		line += " --database-url " + shownURL(p.databaseURL)
	}
	return line
}
