//go:build unix && !aix && !solaris

package localpg_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/localpg"
)

// Ctrl-C ends ctx and leaves the server alone; Close, which runs because main returns, stops it.
func ExampleStart() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	server, err := localpg.Start(ctx, localpg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	conn, err := pgconn.Connect(ctx, server.URL("postgres"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	fmt.Println("connected as", conn.ParameterStatus("session_authorization"))
	// Output: connected as stint
}
