package command

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/stintprom"
	"github.com/stint-tasks/stint/taskstore"
)

// handler returns what serves all paths, and what makes probes say that requests are to go
// elsewhere.
func (s *serveSetup) handler(
	of *service.Service, db *database, schema string,
) (handler http.Handler, drain func(), err error) {
	groups, err := taskstore.New(db.pool, taskstore.Options{Schema: schema})
	if err != nil {
		return nil, nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(db.direct))
	metrics := of.Guard(access.Metrics, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	stored := of.Guard(access.TaskStore, taskstore.Handler(groups))
	// No ServeMux: it redirects paths that have two slashes in a row, as names of groups may.
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/stint.v1."):
			of.ServeHTTP(w, r)
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		default:
			stored.ServeHTTP(w, r)
		}
	})
	handler = http.NewCrossOriginProtection().Handler(handler)
	if s.identify == nil && !s.insecure {
		handler = fromThisMachine(handler)
	}
	return handler, func() {}, nil
}

// fromThisMachine refuses requests for a host that is not this machine: a page in a browser may
// have the name of its host resolved to this machine, and so call a service that asks nobody who he
// is.
func fromThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(hostOf(r.Host)) {
			http.Error(w, "this service asks nobody who he is, so it answers only requests for "+
				"localhost, 127.0.0.1 or [::1]; stint help serve says how to have it ask",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
