package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-tasks/stint/stintprom"
)

// checkMetrics refuses an address that cannot be, or that strangers reach.
func (s *workerSetup) checkMetrics() error {
	if s.metrics == "" {
		if s.insecure {
			return said(errInput, "--insecure is about --metrics, which is missing")
		}
		return nil
	}
	host, err := hostOfFlag("metrics", s.metrics)
	switch {
	case err != nil:
		return err
	case !isLoopback(host) && !s.insecure:
		return said(errInput, "--metrics %s reaches beyond this machine, and nobody is asked who "+
			"he is: to serve the metrics to whoever asks, give --insecure", s.metrics)
	}
	return nil
}

// serveMetrics serves the metrics of the worker to Prometheus, with those of the store if the
// worker has one, until the returned function is called.
func (s *workerSetup) serveMetrics(
	ctx context.Context, logger *slog.Logger, db *database,
) (*stintprom.WorkerMetrics, func() error, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", s.metrics)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; another --metrics may be free", err)
	}
	performances := stintprom.NewWorkerMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(performances)
	if db.direct != nil {
		registry.MustRegister(stintprom.NewCollector(db.direct))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // those of the worker need no database
	}))
	const headersMax = 10 * time.Second
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headersMax,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	if !s.insecure {
		server.Handler = fromThisMachine(mux, "stint worker --insecure answers others, too")
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	logger.LogAttrs(ctx, slog.LevelInfo, "serving metrics",
		slog.String("address", "http://"+listener.Addr().String()+"/metrics"))
	return performances, func() error {
		err := server.Close()
		if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}, nil
}
