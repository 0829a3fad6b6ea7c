package command

import (
	"net"
	"net/http"
	"strings"
)

// hostOfFlag returns the host of an address to listen at, which a flag gives.
func hostOfFlag(flag, address string) (string, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		err = said(errInput, "invalid --%s %q: must have the form host:port, or :port for all "+
			"addresses of this machine", flag, address)
	}
	return host, err
}

// hostOf is an address without its port, if it has one.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// isLoopback reports whether a host is this machine for itself.
func isLoopback(host string) bool {
	address := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || address != nil && address.IsLoopback()
}

// fromThisMachine refuses requests for a host that is not this machine: a page in a browser may
// have the name of its host resolved to this machine, and so call a service that asks nobody who he
// is. The advice says how to have it answer others.
func fromThisMachine(next http.Handler, advice string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(hostOf(r.Host)) {
			http.Error(w, "this service asks nobody who he is, so it answers only requests for "+
				"localhost, 127.0.0.1 or [::1]; "+advice, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
