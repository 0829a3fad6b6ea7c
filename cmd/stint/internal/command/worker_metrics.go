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
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/stintprom"
)

// metricsFlags say where a worker serves its metrics.
type metricsFlags struct {
	address  string // empty: nowhere
	insecure bool
}

func (m *metricsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.address, "metrics", "",
		"serve metrics to Prometheus at this `address`: host:port (default: not)")
	flags.BoolVar(&m.insecure, "insecure", false,
		"serve the metrics also beyond this machine, to whoever asks")
}

// check refuses an address that cannot be, or that strangers reach.
func (m *metricsFlags) check() error {
	if m.address == "" {
		if m.insecure {
			return said(errInput, "--insecure is about --metrics, which is missing")
		}
		return nil
	}
	host, err := hostOfFlag("metrics", m.address)
	switch {
	case err != nil:
		return err
	case !isLoopback(host) && !m.insecure:
		return said(errInput, "--metrics %s reaches beyond this machine, and nobody is asked who "+
			"he is: to serve the metrics to whoever asks, give --insecure", m.address)
	}
	return nil
}

// serve serves the metrics of the worker to Prometheus, with those of the store if the
// worker has one, until the returned function is called.
func (m *metricsFlags) serve(
	ctx context.Context, logger *slog.Logger, db *database,
) (*stintprom.WorkerMetrics, func() error, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", m.address)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; another --metrics may be free", err)
	}
	performances := stintprom.NewWorkerMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(performances)
	if db.direct != nil {
		registry.MustRegister(stintprom.NewCollector(db.direct),
			stintprom.NewMinutesCollector(db.direct))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // those of the worker need no database
	}))
	const headersMax, idleMax = 10 * time.Second, 3 * time.Minute
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headersMax, IdleTimeout: idleMax,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	if !m.insecure {
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
