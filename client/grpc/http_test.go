//go:build unix

// Package clients_test has tests of what callers of the service need that have no code of ours.
package grpc_test

import (
	"bytes"
	"context"
	"os"
	process "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func startService(t *testing.T) (address string) {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{PollInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	address, _ = testservice.Start(t, pool, store, service.Options{})
	return address
}

// The commands of docs/guides/http.md print what the page says.
func TestHTTPPage_PrintsWhatItSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, program := range []string{"curl", "jq"} {
		if _, err := process.LookPath(program); err != nil {
			testrun.Missing(t, "there is no "+program+" here: apt-get install "+program)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	var script, want strings.Builder
	fence := regexp.MustCompile("(?ms)^```(sh)?\n(.*?)^```$")
	for _, found := range fence.FindAllStringSubmatch(string(page), -1) {
		if found[1] == "sh" {
			script.WriteString(found[2])
		} else {
			want.WriteString(found[2])
		}
	}
	cmd := process.CommandContext(t.Context(), "sh", "-eu", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "STINT_SERVER="+startService(t), "NO_PROXY=127.0.0.1")
	output, err := cmd.CombinedOutput()
	if err != nil || string(output) != want.String() {
		t.Errorf("%v: the commands of docs/guides/http.md printed\n%s\nwant\n%s",
			err, output, &want)
	}
}

// The page has every kind of error that the messages have.
func TestHTTPPage_HasAllKindsOfErrors(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	messages, err := os.ReadFile(
		filepath.Join("..", "..", "api", "proto", "stint", "v1", "task.proto"))
	if err != nil {
		t.Fatal(err)
	}
	_, detail, _ := bytes.Cut(messages, []byte("message ErrorDetail {"))
	detail, _, _ = bytes.Cut(detail, []byte("string kind"))
	kinds := regexp.MustCompile(`"([a-z-]+)"`).FindAllSubmatch(detail, -1)
	if len(kinds) < 16 {
		t.Errorf("the messages have %d kinds", len(kinds))
	}
	for _, kind := range kinds {
		if !bytes.Contains(page, []byte("`"+string(kind[1])+"`")) {
			t.Errorf("docs/guides/http.md lacks %s", kind[1])
		}
	}
}
