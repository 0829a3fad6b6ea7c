package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"

	"github.com/stint-tasks/stint/cmd/stint/internal/livefile"
)

// openTLS returns how to speak TLS with a certificate that may be replaced. With authorities, a
// client may show a certificate of theirs; whoever answers requests asks for it, since probes have
// none.
func openTLS(logger *slog.Logger, certificate, key, authority string) (*tls.Config, error) {
	pair, err := openPair(logger, certificate, key)
	if err != nil {
		return nil, said(errInput, "--tls-cert and --tls-key: %v", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return pair.Get(), nil
		},
	}
	if authority == "" {
		return config, nil
	}
	authorities, err := livefile.Open(logger, func(texts [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(texts[0]) {
			return nil, errors.New("the file has no certificates in PEM")
		}
		return pool, nil
	}, authority)
	if err != nil {
		return nil, said(errInput, "--client-ca: %v", err)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	config.ClientCAs = authorities.Get()
	config.NextProtos = []string{"h2", "http/1.1"}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		of := config.Clone()
		of.GetConfigForClient, of.ClientCAs = nil, authorities.Get()
		return of, nil
	}
	return config, nil
}

// A namedFile is a file, and the flag that names it.
type namedFile struct{ flag, path string }

// callerTLS returns how to speak TLS as a client: whom to trust, and which certificate to show. The
// certificate may be replaced; the authorities are read once.
func callerTLS(logger *slog.Logger, authority, certificate, key namedFile) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority.path != "" {
		text, err := os.ReadFile(authority.path)
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			return nil, said(errInput, "--%s: %v", authority.flag, err)
		case !config.RootCAs.AppendCertsFromPEM(text):
			return nil, said(errInput, "--%s: %s has no certificate in PEM", authority.flag,
				authority.path)
		}
	}
	if certificate.path != "" {
		pair, err := openPair(logger, certificate.path, key.path)
		if err != nil {
			return nil, said(errInput, "--%s and --%s: %v", certificate.flag, key.flag, err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return pair.Get(), nil
		}
	}
	return config, nil
}

// openPair reads a certificate with its key, which may be replaced.
func openPair(
	logger *slog.Logger, certificate, key string,
) (*livefile.File[*tls.Certificate], error) {
	return livefile.Open(logger, func(texts [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		return &pair, err
	}, certificate, key)
}
