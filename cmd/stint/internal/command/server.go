package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/safely"
)

// The variables of the environment that stand for flags about a service. STINT_TOKEN has no flag,
// which others could read in the list of processes.
const (
	serverVariable    = "STINT_SERVER"
	tokenVariable     = "STINT_TOKEN"
	tokenFileVariable = "STINT_TOKEN_FILE" //nolint:gosec // no token, but a name
)

// A remote is how the command reaches a service, by its flags.
type remote struct {
	address                         string // empty: there is no service
	tokenFile, authority, cert, key string
	asked                           bool     // the address was given by a flag
	given                           []string // the other flags that were given
	schemaGiven                     bool
}

func (r *remote) addFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&r.address, "server", "",
		"work on the service at this `URL`, not on a database (default $STINT_SERVER)")
	flags.StringVar(&r.tokenFile, "token-file", "",
		"with --server: send the token in this `file` (default $STINT_TOKEN_FILE, or $STINT_TOKEN "+
			"is the token)")
	flags.StringVar(&r.authority, "server-ca", "",
		"with --server: trust only the authorities in this PEM `file` (default: the system's)")
	flags.StringVar(&r.cert, "client-cert", "",
		"with --server: show the certificate in this PEM `file`")
	flags.StringVar(&r.key, "client-key", "", "with --server: the certificate's key, a PEM `file`")
	for _, name := range fileFlags() {
		cobra.CheckErr(cmd.MarkPersistentFlagFilename(name)) // any test would find a wrong name
	}
}

func fileFlags() []string {
	return []string{"token-file", "server-ca", "client-cert", "client-key"}
}

const wantAddress = "must have the form http://host:port or https://host:port"

// check refuses flags that no service could have.
func (r *remote) check(flags *pflag.FlagSet) error {
	r.asked, r.schemaGiven = flags.Changed("server"), flags.Changed("schema")
	for _, name := range fileFlags() {
		if !flags.Changed(name) {
			continue
		}
		if flags.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s is empty", name)
		}
		r.given = append(r.given, name)
	}
	switch {
	case r.asked && r.address == "":
		return errors.New("--server is empty; leave it out to work on a database")
	case r.asked && flags.Changed("database-url"):
		return errors.New("--server and --database-url name two places to work on: give one")
	case r.asked && !isAddress(r.address):
		return fmt.Errorf("invalid --server %s: %s", shownURL(r.address), wantAddress)
	case (r.cert == "") != (r.key == ""):
		return errors.New("--client-cert and --client-key need each other")
	}
	return nil
}

func isAddress(text string) bool {
	at, err := url.Parse(text)
	return err == nil && at.Host != "" && (at.Scheme == "http" || at.Scheme == "https") &&
		at.User == nil && at.RawQuery == "" && at.Fragment == ""
}

// newClient returns a client of the service at an address.
func (r *remote) newClient(address string, logger *slog.Logger) (*client.Client, error) {
	options := client.Options{Logger: logger}
	from, err := r.readToken(&options)
	if err != nil {
		return nil, err
	}
	if options.TLS, err = r.tls(address, logger); err != nil {
		return nil, err
	}
	c, err := client.New(address, options)
	var refused *stint.ArgumentError
	if errors.As(err, &refused) && from != "" {
		return nil, said(errInput, "the token of %s %s", from, refused.Problem)
	}
	return c, err
}

// readToken adds the token to the options, and returns what names it.
func (r *remote) readToken(options *client.Options) (from string, err error) {
	token, file := os.Getenv(tokenVariable), os.Getenv(tokenFileVariable)
	switch {
	case r.tokenFile != "":
		from, options.TokenFile = "--token-file", r.tokenFile
	case token != "" && file != "":
		return "", said(errInput, "%s and %s are both set: unset one of them, or give --token-file",
			tokenVariable, tokenFileVariable)
	case token != "":
		from, options.Token = tokenVariable, token
	case file != "":
		from, options.TokenFile = tokenFileVariable, file
	}
	if options.TokenFile == "" {
		return from, nil
	}
	if _, err := os.ReadFile(options.TokenFile); err != nil { // the client cannot name the flag
		return from, said(errInput, "%s: %v", from, err)
	}
	return from, nil
}

// tls returns what the flags say about certificates, nil if they say nothing.
func (r *remote) tls(address string, logger *slog.Logger) (*tls.Config, error) {
	if r.authority == "" && r.cert == "" {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if strings.HasPrefix(address, "http:") {
		name := "server-ca"
		if r.authority == "" {
			name = "client-cert"
		}
		return nil, said(errInput, "--%s is for addresses that begin with https://", name)
	}
	return callerTLS(safely.LoggerOr(logger), namedFile{"server-ca", r.authority},
		namedFile{"client-cert", r.cert}, namedFile{"client-key", r.key})
}

// A patient client waits for tasks however long the service is away, as a store waits for its
// database.
type patient struct{ *client.Client }

// WaitForTask is that of the client.
func (p patient) WaitForTask(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error) {
	for {
		info, err := p.Client.WaitForTask(ctx, id)
		if !errors.Is(err, client.ErrUnavailable) {
			return info, err
		}
	}
}

// WaitForTasks is that of the client.
func (p patient) WaitForTasks(
	ctx context.Context, ids []stint.TaskID,
) ([]stint.TaskInfo, error) {
	for {
		infos, err := p.Client.WaitForTasks(ctx, ids)
		if !errors.Is(err, client.ErrUnavailable) {
			return infos, err
		}
	}
}

// serviceAt returns the address of a service that a topology names, or false for a database.
func serviceAt(url string) (address string, ok bool) {
	switch {
	case strings.HasPrefix(url, "postgres"):
		return "", false
	case !strings.Contains(url, "://"): // host:port, as enq has it
		url = "http://" + url
	}
	return url, true
}
