package stint_test

import (
	process "os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// serviceModules are what a service links that imports the store, also on database/sql, the worker
// and the structures: pgx, uuid and the API of OpenTelemetry, with the modules that these need.
var serviceModules = []string{
	"github.com/cespare/xxhash/v2", // from here to stdr, auto/sdk and otel: OpenTelemetry
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/google/uuid",
	"github.com/jackc/pgpassfile", // pgx, up to puddle and x
	"github.com/jackc/pgservicefile",
	"github.com/jackc/pgx/v5",
	"github.com/jackc/puddle/v2",
	"github.com/stint-tasks/stint",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/trace",
	"golang.org/x/sync",
	"golang.org/x/text",
}

// ternModules are what a service links besides that calls Migrate: tern, the templates that it
// reads migrations with, and the modules that these need.
var ternModules = []string{
	"dario.cat/mergo",
	"github.com/Masterminds/goutils",
	"github.com/Masterminds/semver/v3",
	"github.com/Masterminds/sprig/v3",
	"github.com/huandu/xstrings",
	"github.com/jackc/tern/v2",
	"github.com/mitchellh/copystructure",
	"github.com/mitchellh/reflectwalk",
	"github.com/shopspring/decimal",
	"github.com/spf13/cast",
	"golang.org/x/crypto",
}

// A service whose tables the command makes takes in nothing of tern (ADR 11).
// Proves G203.
func TestModules_AServiceThatMigratesByTheCommandTakesInFew(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	got := modulesOf(t, ".", "./stintsql", "./worker", "./structures")
	if !slices.Equal(got, serviceModules) {
		t.Errorf("a service links %q, want %q", got, serviceModules)
	}
}

// A service that calls Migrate takes in tern, and no more (ADR 9).
// Proves G203.
func TestModules_AServiceThatMigratesItselfTakesInTern(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	got := modulesOf(t, ".", "./stintsql", "./worker", "./structures", "./migrations")
	want := slices.Sorted(slices.Values(slices.Concat(serviceModules, ternModules)))
	if !slices.Equal(got, want) {
		t.Errorf("a service links %q, want %q", got, want)
	}
}

// The root package needs pgx and uuid only, and so does stintsql.
// Proves G203.
func TestModules_TheStoreTakesInPgxAndUUID(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, module := range modulesOf(t, ".", "./stintsql") {
		owner, _, _ := strings.Cut(strings.TrimPrefix(module, "github.com/"), "/")
		if !slices.Contains([]string{"google", "jackc", "stint-tasks", "golang.org"}, owner) {
			t.Errorf("the root package, or stintsql, links %s", module)
		}
	}
}

// A service that shows its tasks in a browser takes in no more than the store.
// Proves G203.
func TestModules_ThePagesTakeInWhatTheStoreDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if got, want := modulesOf(t, "./ui"), modulesOf(t, "."); !slices.Equal(got, want) {
		t.Errorf("package ui links %q, and the store %q", got, want)
	}
}

// A service that is scraped does not take in what exports by OpenTelemetry.
func TestModules_MetricsForPrometheusNeedNoSDKOfOpenTelemetry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	got := modulesOf(t, "./stintprom")
	if !slices.Contains(got, "github.com/prometheus/client_golang") {
		t.Errorf("package stintprom links %q", got)
	}
	for _, module := range got {
		if strings.HasPrefix(module, "go.opentelemetry.io/otel/sdk") {
			t.Errorf("package stintprom links %s", module)
		}
	}
}

// The client for containers is for our own tests, and in a module of its own: whoever uses Stint
// does not have it among their modules (ADR 11).
// Proves G203.
func TestModules_OnlyOurOwnTestsTakeInContainers(t *testing.T) {
	t.Parallel()
	list := process.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Path}}", "all")
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for module := range strings.FieldsSeq(string(output)) {
		owner, _, _ := strings.Cut(strings.TrimPrefix(module, "github.com/"), "/")
		if slices.Contains([]string{"testcontainers", "moby", "docker"}, owner) {
			t.Errorf("Stint brings %s", module)
		}
	}
}

// modulesOf are the modules of the packages that these import, whatever the distance.
func modulesOf(t *testing.T, packages ...string) []string {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, packages...)
	output, err := process.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(output)))))
}
