package command

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/service/health"
	"github.com/stint-tasks/stint/service/openapi"
	"github.com/stint-tasks/stint/taskstore"
)

// routes returns what serves all paths.
func routes(
	of *service.Service, groups *taskstore.Store, probes, pages http.Handler,
	collectors ...prometheus.Collector,
) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	metrics := of.Guard(access.Metrics, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	stored := of.Guard(access.TaskStore, taskstore.Handler(groups))
	described, ends := openapi.Handler(), of.EndEvents()
	// No ServeMux: it redirects paths that have two slashes in a row, as names of groups may.
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/stint.v1."):
			of.ServeHTTP(w, r)
		case slices.Contains(health.Paths(), path):
			probes.ServeHTTP(w, r)
		case isUIPath(path):
			pages.ServeHTTP(w, r)
		case path == "/ends":
			ends.ServeHTTP(w, r)
		case path == "/openapi.json":
			described.ServeHTTP(w, r)
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		default:
			stored.ServeHTTP(w, r)
		}
	})
	return answering(of.Answers(), http.NewCrossOriginProtection().Handler(all))
}

// answering passes the requests of those who answer tasks on. Their key is their only credential,
// which no other page knows, so pages of any origin may send them.
func answering(answers, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.URL.Path == "/answer" {
			answers.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
