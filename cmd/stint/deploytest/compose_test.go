package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// composed has what the file for Compose uses of
// https://github.com/compose-spec/compose-spec/blob/main/spec.md.
type composed struct {
	Name     string                    `json:"name"`
	Services map[string]composeService `json:"services"`
	Configs  map[string]composeFile    `json:"configs"`
	Secrets  map[string]composeFile    `json:"secrets"`
	Volumes  map[string]struct{}       `json:"volumes"`
}

type composeFile struct {
	File string `json:"file"`
}

type composeService struct {
	Image       string            `json:"image"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Secrets     []string          `json:"secrets"`
	Configs     []struct {
		Source string `json:"source"`
		Target string `json:"target"`
	} `json:"configs"`
	Ports     []string `json:"ports"`
	Volumes   []string `json:"volumes"`
	DependsOn map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
	Restart         string   `json:"restart"`
	StopGracePeriod string   `json:"stop_grace_period"`
	ReadOnly        bool     `json:"read_only"`
	CapDrop         []string `json:"cap_drop"`
	SecurityOpt     []string `json:"security_opt"`
	Healthcheck     *struct {
		Test     []string `json:"test"`
		Interval string   `json:"interval"`
		Timeout  string   `json:"timeout"`
		Retries  int      `json:"retries"`
	} `json:"healthcheck"`
}

func compose(t *testing.T) composed {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all composed
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCompose_NamesWhatItHas(t *testing.T) {
	t.Parallel()
	all := compose(t)
	for name, service := range all.Services {
		var files []string
		for _, secret := range service.Secrets {
			if all.Secrets[secret].File == "" {
				t.Errorf("%s has the secret %s, which is no file", name, secret)
			}
			files = append(files, "/run/secrets/"+secret)
		}
		for _, config := range service.Configs {
			path := filepath.Join("../../../deploy", all.Configs[config.Source].File)
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
			files = append(files, config.Target)
		}
		words := slices.Clone(service.Command)
		if service.Healthcheck != nil {
			words = append(words, service.Healthcheck.Test...)
		}
		for variable, value := range service.Environment {
			words = append(words, value)
			if strings.HasPrefix(variable, "STINT_") {
				knows(t, variable)
			}
		}
		for _, word := range words {
			_, path, isFlag := strings.Cut(word, "=")
			if !isFlag {
				path = word
			}
			if strings.HasPrefix(path, "/run/") && !slices.Contains(files, path) {
				t.Errorf("%s has no file %s", name, path)
			}
		}
		for other, on := range service.DependsOn {
			needed, found := all.Services[other]
			healthy := on.Condition == "service_healthy" && needed.Healthcheck != nil
			ended := on.Condition == "service_completed_successfully" && needed.Restart == ""
			if !found || !healthy && !ended {
				t.Errorf("%s waits for %s to be %s", name, other, on.Condition)
			}
		}
	}
}

func TestCompose_CallsTheCommandAsItIs(t *testing.T) {
	t.Parallel()
	all := compose(t)
	for _, name := range []string{"migrate", "serve"} {
		service := all.Services[name]
		cmd, flags := parse(t, service.Command)
		if cmd.Name() != name {
			t.Errorf("%s calls %s", name, cmd.Name())
		}
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) ||
			!slices.Equal(service.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s may do more than it needs", name)
		}
		if name == "migrate" {
			continue
		}
		drain, err := flags.GetDuration("drain")
		grace, invalid := time.ParseDuration(service.StopGracePeriod)
		if err != nil || invalid != nil || grace < drain+5*time.Second {
			t.Errorf("it has %v to stop, and drains for %v", service.StopGracePeriod, drain)
		}
		if test := service.Healthcheck.Test; test[0] != "CMD" || test[1] != "/stint" {
			t.Errorf("its health is checked by %q, which is not in the image", test)
		} else {
			parse(t, test[2:])
		}
	}
}
