package service

import (
	"net/http"
	"time"
)

const (
	headerMax = 5 * time.Second
	// headerBytesMax is the size of the header of a request: a JSON Web Token has 16 KiB at most.
	headerBytesMax = 64 << 10
	// pingAfter is how long a connection may be silent before it is asked for a sign of life, and
	// how long the answer may take. So a stream ends within two seconds of a frozen network.
	pingAfter = time.Second
	// idleMax is how long a connection may have no request.
	idleMax = 3 * time.Minute

	// callsPerConnection is how many calls share a connection of HTTP/2: clients open more.
	callsPerConnection = 250
	// unreadBytes is how much of a request may arrive before somebody reads it, such as while it
	// waits for room. It also bounds how fast a request comes from afar: so much each round trip.
	// All requests of a connection may have as much at once. Else one that is not read would keep
	// the others from arriving, returns and signs of life among them.
	unreadBytes = 256 << 10
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
		IdleTimeout: idleMax, MaxHeaderBytes: headerBytesMax,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingAfter,
			MaxConcurrentStreams:          callsPerConnection,
			MaxReceiveBufferPerStream:     unreadBytes,
			MaxReceiveBufferPerConnection: callsPerConnection * unreadBytes,
		},
	}
	server.RegisterOnShutdown(s.Drain)
	return server
}
