package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A connection may outlive the certificate that it began with.
func TestIdentifier_RefusesACertificateThatHasExpiredSince(t *testing.T) {
	t.Parallel()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	request.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{
		{NotAfter: time.Now().Add(-time.Second)},
	}}}
	_, err := (&identifier{certificates: true}).principal(request)
	if !errors.Is(err, errOldCertificate) {
		t.Errorf("principal = %v, want %v", err, errOldCertificate)
	}
}
