package command

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/livefile"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/service/tokens"
)

// credentialFiles are the flags that say who may do what.
type credentialFiles struct {
	tokens, grants, authority string
}

func (c *credentialFiles) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.tokens, "tokens", "", "ask for tokens, whose hashes are in this `file`")
	flags.StringVar(&c.authority, "client-ca", "",
		"ask for client certificates, signed by one of the authorities in this `file`")
	flags.StringVar(&c.grants, "grants", "", "who may do what is said by this `file`")
}

func (c *credentialFiles) given() bool { return c.tokens != "" || c.authority != "" }

func (c *credentialFiles) check(tls bool) error {
	switch {
	case c.authority != "" && !tls:
		return said(errInput, "--client-ca needs --tls-cert and --tls-key")
	case c.given() && c.grants == "":
		return said(errInput, "--grants is missing: without a grant, nothing is allowed. "+
			`A file with the line "*": [{verbs: ["*"], actions: ["*"]}] lets everybody do `+
			"everything whom --tokens or --client-ca let in; see: stint help serve")
	case !c.given() && c.grants != "":
		return said(errInput, "--grants needs --tokens or --client-ca: they say who calls")
	}
	return nil
}

// An identifier finds out who has sent a request.
type identifier struct {
	tokens       *livefile.File[tokens.Tokens] // nil if no tokens are asked for
	certificates bool                          // are asked for
	grants       *livefile.File[access.Grants]
}

func (c *credentialFiles) open(ctx context.Context, logger *slog.Logger) (*identifier, error) {
	i := &identifier{certificates: c.authority != ""}
	var err error
	if c.tokens != "" {
		i.tokens, err = livefile.Open(logger, func(texts [][]byte) (tokens.Tokens, error) {
			return tokens.Parse(texts[0])
		}, c.tokens)
		if err != nil {
			return nil, said(errInput, "--tokens: %v", err)
		}
		if len(i.tokens.Get()) == 0 {
			logger.LogAttrs(ctx, slog.LevelWarn, "the file of --tokens has no tokens; make one "+
				"with: stint token new", slog.String("file", c.tokens))
		}
	}
	i.grants, err = livefile.Open(logger, func(texts [][]byte) (access.Grants, error) {
		return access.Parse(texts[0])
	}, c.grants)
	if err != nil {
		return nil, said(errInput, "--grants: %v", err)
	}
	return i, nil
}

var (
	errNoCertificate = errors.New("it needs a client certificate")
	errNoToken       = errors.New("it needs a token, in a header: Authorization: Bearer TOKEN")
	errBadToken      = errors.New("the token is not valid")
)

// principal returns who has sent a request. If both a certificate and a token are asked for, the
// token says who it is.
func (i *identifier) principal(r *http.Request) (*access.Principal, error) {
	var name string
	if i.certificates {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return nil, errNoCertificate
		}
		name = nameOf(r.TLS.VerifiedChains[0][0])
	}
	if i.tokens != nil {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return nil, errNoToken
		}
		var ok bool
		if name, ok = i.tokens.Get().Name(strings.TrimSpace(token)); !ok {
			return nil, errBadToken
		}
	}
	return i.grants.Get().Principal(name), nil
}

// nameOf is the name that a client certificate gives its owner: the first URI, DNS name or address
// of mail that it is for, or else its common name.
func nameOf(certificate *x509.Certificate) string {
	switch {
	case len(certificate.URIs) > 0:
		return certificate.URIs[0].String()
	case len(certificate.DNSNames) > 0:
		return certificate.DNSNames[0]
	case len(certificate.EmailAddresses) > 0:
		return certificate.EmailAddresses[0]
	default:
		return certificate.Subject.CommonName
	}
}

func (i *identifier) close() {}
