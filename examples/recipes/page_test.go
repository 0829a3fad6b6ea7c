package recipes

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stint-tasks/stint/stinttest"
)

func TestMain(m *testing.M) { stinttest.Main(m) }

// These pages show the code of this directory.
var pages = []string{
	"../../docs/guides/recipes.md", "../../docs/guides/testing.md",
	"../../docs/operations/deploys.md",
}

// blocks returns the blocks of code of the pages in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatalf("ReadFile = %v", err)
		}
		for _, match := range fence.FindAllStringSubmatch(string(text), -1) {
			found = append(found, match[1])
		}
	}
	return found
}

// What the pages show is in the files beside this one, word for word, where it is compiled and
// tested.
func TestPage_ShowsCodeThatIsTested(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatalf("Glob = %v", err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("ReadFile = %v", err)
		}
		source.Write(text)
	}
	shown := blocks(t, "go")
	for _, block := range shown {
		if !strings.Contains(source.String(), block) {
			t.Errorf("no file has this block of %q:\n%s", pages, block)
		}
	}
	if len(shown) < 7 {
		t.Errorf("%q have %d blocks of Go", pages, len(shown))
	}
}

// The worker's StopGrace is 20 s by default, and a service closes other things besides.
const stopTakes = 25 * time.Second

// Kubernetes counts the preStop hook in the grace period.
func TestPage_LetsPodsStopInOrder(t *testing.T) {
	t.Parallel()
	shown := blocks(t, "yaml")
	if len(shown) != 1 {
		t.Fatalf("%q have %d blocks of YAML, want 1", pages, len(shown))
	}
	var pod struct {
		Spec struct {
			Grace      int `yaml:"terminationGracePeriodSeconds"`
			Containers []struct {
				Lifecycle struct {
					PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(shown[0]), &pod); err != nil {
		t.Fatalf("Unmarshal = %v", err)
	}
	pause := pod.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	left := time.Duration(pod.Spec.Grace-pause) * time.Second
	if pause == 0 || left <= stopTakes {
		t.Errorf("after a pause of %d s, a pod has %v to stop, want more than %v",
			pause, left, stopTakes)
	}
}

func TestPage_LetsUnitsStopInOrder(t *testing.T) {
	t.Parallel()
	shown := blocks(t, "ini")
	if len(shown) != 1 {
		t.Fatalf("%q have %d units, want 1", pages, len(shown))
	}
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(shown[0])
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	seconds, err := strconv.Atoi(found[1])
	if err != nil || time.Duration(seconds)*time.Second <= stopTakes {
		t.Errorf("TimeoutStopSec is %d, %v, want more than %v", seconds, err, stopTakes)
	}
}
