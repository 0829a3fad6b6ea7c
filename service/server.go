package service

import (
	"net/http"
	"time"
)

const (
	headerMax = 5 * time.Second
	// pingAfter is how long a connection may be silent before it is asked for a sign of life, and
	// how long the answer may take. So a stream ends within two seconds of a frozen network.
	pingAfter = time.Second
	// idleMax is how long a connection may have no request.
	idleMax = 3 * time.Minute
)

// NewServer returns a server of the service: HTTP/1.1, and HTTP/2 with and without TLS, which looks
// for connections that are dead. Its Shutdown drains the service.
func NewServer(s *Service) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: s, Protocols: protocols, ReadHeaderTimeout: headerMax,
		IdleTimeout: idleMax,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}
	server.RegisterOnShutdown(s.Drain)
	return server
}
