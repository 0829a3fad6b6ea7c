package command

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/cmd/stint/internal/livefile"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/service/jwtauth"
	"github.com/stint-tasks/stint/service/tokens"
)

// credentialFiles are the flags that say who may do what.
type credentialFiles struct {
	tokens, grants, authority string
	jwt                       jwtauth.Options
}

func (c *credentialFiles) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.tokens, "tokens", "", "ask for tokens, whose hashes are in this `file`")
	flags.StringVar(&c.jwt.JWKS, "jwt-keys", "",
		"ask for JSON Web Tokens, whose issuer's keys are at this `URL`, or in this file")
	flags.StringVar(&c.jwt.Issuer, "jwt-issuer", "", "`issuer` of these tokens: their claim iss")
	flags.StringVar(&c.jwt.Audience, "jwt-audience", "",
		"`name` of this service in these tokens: their claim aud")
	flags.StringVar(&c.jwt.Claim, "jwt-claim", "sub", "the `claim` that names the caller")
	flags.StringVar(&c.authority, "client-ca", "",
		"ask for client certificates, signed by one of the authorities in this `file`")
	flags.StringVar(&c.grants, "grants", "", "who may do what is said by this `file`")
}

func (c *credentialFiles) given() bool {
	return c.tokens != "" || c.authority != "" || c.jwt.JWKS != ""
}

func (c *credentialFiles) check(tls bool) error {
	switch {
	case c.authority != "" && !tls:
		return said(errInput, "--client-ca needs --tls-cert and --tls-key")
	case (c.jwt.JWKS == "") != (c.jwt.Issuer == ""), (c.jwt.JWKS == "") != (c.jwt.Audience == ""):
		return said(errInput, "--jwt-keys, --jwt-issuer and --jwt-audience belong together")
	case c.given() && c.grants == "":
		return said(errInput, "--grants is missing: without a grant, nothing is allowed. "+
			`A file with the line "*": [{verbs: ["*"], actions: ["*"]}] lets everybody do `+
			"everything who is let in; see: stint help serve")
	case !c.given() && c.grants != "":
		return said(errInput, "--grants needs --tokens, --jwt-keys or --client-ca: they say who "+
			"calls")
	}
	return nil
}

// An identifier finds out who has sent a request.
type identifier struct {
	tokens       *livefile.File[tokens.Tokens] // nil if no tokens of a file are asked for
	jwt          *jwtauth.Verifier             // nil if no JSON Web Tokens are asked for
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
	if c.jwt.JWKS != "" {
		options := c.jwt
		options.Logger = logger
		if i.jwt, err = jwtauth.New(ctx, options); err != nil {
			return nil, said(errInput, "--jwt-keys: %v", err)
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
	errNoCertificate  = errors.New("it needs a client certificate")
	errOldCertificate = errors.New("the client certificate has expired: connect anew with another")
	errNoToken        = errors.New("it needs a token, in a header: Authorization: Bearer TOKEN")
	errBadToken       = errors.New("the token is not valid")
)

// principal returns who has sent a request. If both a certificate and a token are asked for, the
// token says who it is.
func (i *identifier) principal(r *http.Request) (*access.Principal, error) {
	var name string
	if i.certificates {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return nil, errNoCertificate
		}
		of := r.TLS.VerifiedChains[0][0]
		if time.Now().After(of.NotAfter) { //nolint:forbidigo // as TLS does when they connect
			return nil, errOldCertificate
		}
		name = nameOf(of)
	}
	if i.tokens != nil || i.jwt != nil {
		var err error
		if name, err = i.ofToken(r); err != nil {
			return nil, err
		}
	}
	return i.grants.Get().Principal(name), nil
}

// ofToken returns the name that the token of a request stands for.
func (i *identifier) ofToken(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errNoToken
	}
	if i.jwt == nil || i.tokens != nil && strings.HasPrefix(token, tokens.Prefix) {
		name, ok := i.tokens.Get().Name(token)
		if !ok {
			return "", errBadToken
		}
		return name, nil
	}
	name, err := i.jwt.Principal(r.Context(), token)
	if err != nil && !errors.Is(err, jwtauth.ErrInvalid) {
		return "", connect.NewError(connect.CodeUnavailable, errors.New("the keys of the issuer "+
			"of tokens cannot be read; the service's log says why"))
	}
	return name, err
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
