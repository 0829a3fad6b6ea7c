package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/health"
	"github.com/stint-tasks/stint/stintprom"
	"github.com/stint-tasks/stint/taskstore"
)

// A serveSetup holds the flags of serve.
type serveSetup struct {
	listen           string
	credentials      credentialFiles
	certificate, key string
	insecure         bool
	limits           service.Limits
	shards           shardSetup
	connections      int32
	drain            time.Duration
	keep             keepFlags
	copies           copyFlags
	durability       string
	pollOnly         bool
	accessLog        bool
	logLevel         string
	listening        net.Listener
	identify         *identifier // nil if nobody is asked who he is
	tls              *tls.Config // nil without TLS
	logger           *slog.Logger
}

const (
	listenDefault      = "127.0.0.1:7330"
	connectionsDefault = 20
	drainDefault       = 30 * time.Second
)

const serveHelp = `Serve the tasks of the database over the network, to clients and workers in any
language: by gRPC, gRPC-Web, and JSON over HTTP/1.1 and HTTP/2, on one port. The other
sub-commands, worker included, use the service with --server. Any number of services may
stand before one database; when one stops or dies, workers go on with another.

  /stint.v1.TaskService/...    insert tasks, wait for them, look at them, control them
  /stint.v1.WorkerService/...  own tasks and return them
  /openapi.json                all of these, described
  /ends?actions=ACTION         tasks that have ended, as server-sent events
  /groups /task /tasks /group /update /claim   the task store (package taskstore)
  /ui/                         pages for a browser (see: stint help ui); where the service asks who
                               calls, the password is the token, and the user any
  /answer                      answers of those who have nothing but the key of a task (see: stint
                               help answer)
  /healthz /readyz             whether the process lives, and whether it can serve; so does
                               grpc.health.v1.Health
  /metrics                     for Prometheus

Who calls is told by tokens (--tokens, see: stint help token), by JSON Web Tokens
(--jwt-keys), by client certificates (--client-ca), or by a token and a certificate,
if both are asked for. --grants says who may do what; without a grant, nothing is allowed:

  mailer:                      # the name of a token, of a claim or of a certificate
    - verbs: [own]             # insert, own, read, read-bodies, control, answer, taskstore,
                               # metrics
      actions: ["mail/*"]      # a name, or the beginning of one and a star
      actors: ["mailer-*"]     # of own; default: any
  shop:
    - verbs: [insert, read-bodies, control]
      actions: ["*"]
      ids: ["shop/*"]          # default: any; not with own
  "*":                         # whoever else calls
    - verbs: [metrics]

With --shard and --topology, the store is one of several shards: at any of their services,
tasks may be inserted on all of them that wait for tasks of others (stint submit). The URL
of a shard is that of its service, or of its PostgreSQL. The services call each other, with
the token of --peer-token-file or the certificate of --peer-cert, which needs grants for the
actions stint.* on each. --peer-ca says whom they trust.

Without these flags, nobody is asked who he is: then it serves this machine only, unless
--insecure is given. Files are read again when they change.

On Ctrl-C or SIGTERM it takes no more requests and ends calls that wait; clients ask
another service, or come back. Calls under way are finished, for as long as --drain says.
No worker loses a task. A second Ctrl-C ends it at once.

The service prunes finished tasks, keeps the tries of tasks with --keep-tries, and goes by
--max-losses, as stint worker does (see: stint help worker). It logs on standard error, with
--json as JSON lines.`

func (p *program) serveCommand() *cobra.Command {
	var s serveSetup
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve tasks to clients and workers over the network",
		Long:  serveHelp,
		Example: `  stint serve
  stint serve --listen :7330 --tls-cert cert.pem --tls-key key.pem \
    --tokens tokens --grants grants.yaml
  stint ls --server http://localhost:7330`,
		GroupID: groupOperations,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !p.remote.asked {
				p.remote.address = "" // the variable is for those who call the service
			}
			p.topology = "" // this one, too: the flag of serve is another one
			if err := cmp.Or(s.check(), p.onDatabase()); err != nil {
				return err
			}
			return p.serve(cmd.Context(), s)
		},
	}
	s.addFlags(cmd)
	return cmd
}

func (s *serveSetup) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", listenDefault, "listen at this `address`: host:port")
	flags.StringVar(&s.certificate, "tls-cert", "", "speak TLS with the certificate in this `file`")
	flags.StringVar(&s.key, "tls-key", "", "and with the key in this `file`")
	s.credentials.addFlags(cmd)
	s.shards.addFlags(cmd)
	flags.BoolVar(&s.insecure, "insecure", false,
		"ask nobody who he is, also beyond this machine")
	flags.IntVar(&s.limits.Calls, "max-calls", 0,
		"calls under way for each principal, `n` at most (default 1000)")
	flags.IntVar(&s.limits.Waiting, "max-waiting", 0,
		"calls that wait and actors that are attended, `n` at most (default 20000)")
	flags.IntVar(&s.limits.Streams, "max-streams", 0,
		"streams of tasks for each principal, `n` at most (default: connections / 4)")
	flags.DurationVar(&s.limits.StreamTime, "max-stream-time", 0,
		"let a stream of tasks take this `time` at most (default 1h)")
	flags.Float64Var(&s.limits.Rate, "max-rate", 0,
		"calls a second for each principal, `n` on average (default: any)")
	flags.Int64Var(&s.limits.Bytes, "max-bytes", 0,
		"bytes of requests and answers of all callers at a time, `n` at most (default 256 MiB)")
	flags.IntVar(&s.limits.RequestBytes, "max-request-bytes", 0,
		"size of a request, `n` at most (default 65 MiB)")
	flags.Int32Var(&s.connections, "connections", connectionsDefault,
		"connections to the database, `n` at most")
	flags.DurationVar(&s.drain, "drain", drainDefault,
		"let calls continue for this `time` when the service stops")
	s.keep.add(cmd)
	addPollOnly(cmd, &s.pollOnly)
	s.copies.add(cmd)
	flags.StringVar(&s.durability, "durability", durabilities()[0],
		"whether changes wait for the disk of the database: "+strings.Join(durabilities(), ", "))
	completeWith(cmd, "durability", durabilities())
	flags.BoolVar(&s.accessLog, "access-log", false, "log each call, without what is in it")
	flags.StringVar(&s.logLevel, "log-level", logLevels()[1],
		"log records of this `level` and above: "+strings.Join(logLevels(), ", "))
	completeWith(cmd, "log-level", logLevels())
}

// check refuses what would fail later, or let everybody in.
func (s *serveSetup) check() error {
	host, err := hostOfFlag("listen", s.listen)
	switch {
	case err != nil:
		return err
	case (s.certificate == "") != (s.key == ""):
		return said(errInput, "--tls-cert and --tls-key belong together")
	case min(s.limits.Calls, s.limits.Waiting, s.limits.Streams, s.limits.RequestBytes) < 0,
		s.limits.Rate < 0, s.limits.StreamTime < 0, s.limits.Bytes < 0:
		return said(errInput, "--max-calls, --max-waiting, --max-streams, --max-stream-time, "+
			"--max-rate, --max-bytes and --max-request-bytes must not be negative")
	case s.connections < 1:
		return said(errInput, "invalid --connections %d: must be at least 1", s.connections)
	case !slices.Contains(durabilities(), s.durability):
		return said(errInput, "invalid --durability %q: must be one of %s", s.durability,
			strings.Join(durabilities(), ", "))
	case s.drain < 0:
		return said(errInput, "invalid --drain %v: must not be negative", s.drain)
	}
	if err := cmp.Or(s.credentials.check(s.certificate != ""), s.shards.check()); err != nil {
		return err
	}
	asks := s.credentials.given()
	switch {
	case asks && s.insecure:
		return said(errInput, "--insecure asks nobody who he is, and other flags say how to ask")
	case !asks && !s.insecure && !isLoopback(host):
		return said(errInput, "--listen %s reaches beyond this machine: say who may do what, "+
			"with --tokens, --jwt-keys or --client-ca, and --grants; or --insecure", s.listen)
	}
	return nil
}

// durabilities are the values of --durability, by their numbers.
func durabilities() []string {
	return []string{stint.Strict: "strict", stint.Opportunistic: "opportunistic"}
}

// serve serves until ctx ends.
func (p *program) serve(ctx context.Context, s serveSetup) error {
	options, err := s.keep.options()
	if err != nil {
		return err
	}
	if s.logger, err = p.logger(s.logLevel); err != nil {
		return err
	}
	if s.credentials.given() {
		if s.identify, err = s.credentials.open(ctx, s.logger); err != nil {
			return err
		}
	}
	if s.shards.given() {
		err = cmp.Or(s.shards.openFiles(s.logger), s.shards.checkURLs(ctx, s.logger))
		if err != nil {
			return err
		}
	}
	if s.certificate != "" {
		s.tls, err = openTLS(s.logger, s.certificate, s.key, s.credentials.authority)
		if err != nil {
			return err
		}
	}
	var listening net.ListenConfig
	if s.listening, err = listening.Listen(ctx, "tcp", s.listen); err != nil {
		return fmt.Errorf("%w; another --listen may be free", err)
	}
	defer s.listening.Close() //nolint:errcheck // the server has closed it
	options.Logger, options.Durability = s.logger, s.changes()
	options.PollOnly = s.pollOnly
	s.copies.set(&options)
	p.quiet = s.logger.Enabled(ctx, slog.LevelInfo) // the log says it, as JSON if asked for
	p.connections = s.connections
	return p.withDirectStore(ctx, options, func(ctx context.Context, db *database) error {
		return s.serve(ctx, db, p.schema)
	})
}

// changes says whether changes wait for the disk.
func (s *serveSetup) changes() stint.Durability {
	return stint.Durability(slices.Index(durabilities(), s.durability))
}

// serve serves a database until ctx ends, and then for as long as calls are under way.
func (s *serveSetup) serve(ctx context.Context, db *database, schema string) (err error) {
	calls := stintprom.NewServiceMetrics()
	options := service.Options{Limits: s.limits, Metrics: calls, Logger: s.logger}
	if s.accessLog {
		options.AccessLog = s.logger
	}
	if s.identify != nil {
		options.Authenticate = s.identify.principal
	}
	if s.shards.given() {
		cluster, err := s.shards.open(db.direct, s.logger)
		if err != nil {
			return err
		}
		options.Cluster, options.Shard = cluster, s.shards.shard
		stop := relay(ctx, cluster)
		defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	}
	of, err := service.New(db.pool, db.direct, options)
	if err != nil {
		return err
	}
	groups, err := taskstore.New(db.pool,
		taskstore.Options{Schema: schema, Durability: s.changes()})
	if err != nil {
		return err
	}
	probes := health.New(of.Ready)
	server := service.NewServer(of)
	server.TLSConfig = s.tls
	pages := newServedUI(of, db, s.identify != nil, s.logger)
	server.Handler = routes(of, groups, probes, pages, calls, stintprom.NewCollector(db.direct),
		stintprom.NewMinutesCollector(db.direct))
	if s.identify == nil && !s.insecure {
		server.Handler = fromThisMachine(server.Handler, "stint help serve says how to have it ask")
	}
	server.ErrorLog = slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug)
	ended := make(chan error, 1)
	go func() {
		if s.tls == nil {
			ended <- server.Serve(s.listening)
			return
		}
		ended <- server.ServeTLS(s.listening, "", "")
	}()
	s.sayServing(ctx, db)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.logger.LogAttrs(ctx, slog.LevelInfo, "stopping: finishing the calls under way")
	probes.Drain()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.drain, 1))
	defer cancel()
	err = errors.Join(server.Shutdown(stopping), of.Close(stopping))
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(errors.New("calls were cut off that took longer than --drain"),
			server.Close())
	}
	if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err == nil {
		s.logger.LogAttrs(ctx, slog.LevelInfo, "stopped")
	}
	return err
}

func (s *serveSetup) sayServing(ctx context.Context, db *database) {
	address, scheme := s.listening.Addr().String(), "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	s.logger.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("address", scheme+address),
		slog.String("database", db.name()))
	if s.tls == nil && s.identify != nil && !isLoopback(hostOf(address)) {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "tokens and tasks travel in plain text beyond this "+
			"machine, unless something in front of this service speaks TLS; see --tls-cert")
	}
}
