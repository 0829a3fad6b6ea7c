package command

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/migrations"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version of stint this is",
		Long: `Say which version of stint this is, the commit that it was built from if the build
tells, the version of Go that built it, and the newest version of the schema that it
knows (stint migrate status says which one a database has). With --server, also say which
version the service is.

With --json: version, commit (left out if the build does not tell), modified (true if the
source differed from the commit), go, schema; with --server also service, its version.`,
		Example: `  stint version
  stint version --server https://tasks.example
  stint version --json | jq -r .version`,
		GroupID:           groupOperations,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			v := newVersion(info)
			if !p.remote.asked { // the environment alone must not make it depend on a service
				return p.printVersion(v)
			}
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				info, err := db.client.ServiceInfo(ctx)
				if err != nil {
					return err
				}
				v.Service = cmp.Or(info.Version, unknownVersion)
				return p.printVersion(v)
			})
		},
	}
}

type versionJSON struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Schema   int32  `json:"schema"`
	Service  string `json:"service,omitempty"`
}

const unknownVersion = "(unknown)"

// newVersion reads what the build tells of itself, which may be nothing.
func newVersion(info *debug.BuildInfo) versionJSON {
	v := versionJSON{
		Version: unknownVersion, Go: unknownVersion, Schema: migrations.Version(),
	}
	if info == nil {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	v.Go = info.GoVersion
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

func (p *program) printVersion(v versionJSON) error {
	if p.json {
		return p.printJSON(v)
	}
	text := "stint " + v.Version
	if v.Commit != "" {
		text += "\ncommit " + v.Commit
		if v.Modified {
			text += ", modified"
		}
	}
	text += fmt.Sprintf("\n%s\nschema version %d\n", v.Go, v.Schema)
	if v.Service != "" {
		text += fmt.Sprintf("the service is stint %s\n", v.Service)
	}
	return p.printf("%s", text)
}
