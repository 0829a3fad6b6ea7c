package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"

	"github.com/stint-tasks/stint/internal/livefile"
)

// openTLS returns how to speak TLS with a certificate that may be replaced. With authorities, a
// client may show a certificate of theirs; whoever answers requests asks for it, since probes have
// none.
func openTLS(logger *slog.Logger, certificate, key, authority string) (*tls.Config, error) {
	pair, err := livefile.Open(logger, func(texts [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		return &pair, err
	}, certificate, key)
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
