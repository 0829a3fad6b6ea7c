package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// made is the directory of a release that STINT_RELEASE names.
func made(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes minutes: -short")
	}
	dir := os.Getenv("STINT_RELEASE")
	if dir == "" {
		t.Fatal("STINT_RELEASE must name the directory of a release, made by go run . -out")
	}
	return dir
}

// needs fails without a program, unless STINT_RELEASE_WITHOUT names it. A short run asks for none.
func needs(t *testing.T, program string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("it needs %s: -short", program)
	}
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if slices.Contains(strings.Fields(os.Getenv("STINT_RELEASE_WITHOUT")), program) {
		t.Skipf("STINT_RELEASE_WITHOUT names %s", program)
	}
	t.Fatalf("there is no %s here; STINT_RELEASE_WITHOUT=%s leaves the test out", program, program)
}

// command runs a program in a directory, and returns what it says.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, output)
	}
	return string(output)
}

// one is the only file of the release that a pattern matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(made(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s matches %q, %v", pattern, found, err)
	}
	return found[0]
}

func TestArchives_DependOnNamesAndTextsOnly(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for name, write := range map[string]func(string, time.Time, []file) error{
		"tar": writeTar, "zip": writeZip,
	} {
		var before []byte
		for i := range 2 {
			dir := t.TempDir()
			from := filepath.Join(dir, "from")
			if err := os.WriteFile(from, []byte("text"), os.FileMode(0o600+0o100*i)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(from, when, when.AddDate(i, 0, 0)); err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, "to")
			if err := write(to, when, []file{{name: "a", from: from}}); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(to)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 && !bytes.Equal(text, before) {
				t.Errorf("two archives of %s differ", name)
			}
			before = text
		}
	}
}

func TestUnits_ExposeLittle(t *testing.T) {
	t.Parallel()
	needs(t, "systemd-analyze")
	for unit, most := range map[string]string{
		"stint-serve.service":   "12", // tenths
		"stint-worker@.service": "13", // its programs may make code that they run
	} {
		command(t, "package", "systemd-analyze", "security", "--no-pager", "--offline=true",
			"--threshold="+most, "./"+unit)
	}
}

// A start without the database fails. However often one does, systemd tries again.
func TestUnits_NeverGiveUp(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("package/*.service")
	if err != nil || len(found) == 0 {
		t.Fatalf("there are the units %q, %v", found, err)
	}
	for _, path := range append(found, "../docs/operations/deploys.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		section, restarts, unlimited := "", false, false
		for line := range strings.Lines(string(text)) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
				section = line
			case section == "[Service]" && strings.HasPrefix(line, "Restart="):
				restarts = true
			case section == "[Unit]" && line == "StartLimitIntervalSec=0":
				unlimited = true
			}
		}
		if !restarts || !unlimited {
			t.Errorf("%s: it has Restart=: %t, and StartLimitIntervalSec=0 in [Unit]: %t", path,
				restarts, unlimited)
		}
	}
}

// Whoever downloads a file can check it, and whoever builds it again gets the same.
func TestRelease_HasTheSameBytesTwice(t *testing.T) {
	t.Parallel()
	first := made(t)
	command(t, first, "sha256sum", "--check", "--strict", "SHA256SUMS")
	version := strings.TrimSuffix(strings.TrimPrefix(
		filepath.Base(one(t, "stint_*_linux_amd64.tar.gz")), "stint_"), "_linux_amd64.tar.gz")
	second := filepath.Join(t.TempDir(), "again")
	var chosen []string
	for _, name := range targets() {
		pattern := "stint_*_" + strings.ReplaceAll(name, "/", "_") + ".cdx.json"
		if found, _ := filepath.Glob(filepath.Join(first, pattern)); len(found) > 0 {
			chosen = append(chosen, name)
		}
	}
	if err := run(t.Context(), "v"+version, "HEAD", second, chosen); err != nil {
		t.Fatal(err)
	}
	sums := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got, want := sums(second), sums(first); got != want {
		t.Errorf("the second release is\n%s\nnot\n%s", got, want)
	}
}

func TestBinaries_NeedNothingElse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	command(t, root, "tar", "--strip-components=1", "-xzf", one(t, "stint_*_linux_amd64.tar.gz"))
	needs(t, "chroot")
	if got := command(t, root, "chroot", root, "/stint", "version"); !strings.HasPrefix(got,
		"stint v") || strings.Contains(got, "modified") {
		t.Errorf("the binary says %q", got)
	}
}

// Where there is no PostgreSQL, the command says what it downloads, before it tries to.
func TestBinaries_SayWhatTheyDownload(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	command(t, root, "tar", "--strip-components=1", "-xzf", one(t, "stint_*_linux_amd64.tar.gz"))
	needs(t, "chroot")
	accounts, mode := []byte("nobody:x:65534:65534::/:/sbin/nologin\n"), os.FileMode(0o644)
	err := cmp.Or(os.Mkdir(filepath.Join(root, "etc"), 0o755),
		os.WriteFile(filepath.Join(root, "etc", "passwd"), accounts, mode),
		os.Mkdir(filepath.Join(root, "tmp"), 0o777), os.Chmod(filepath.Join(root, "tmp"), 0o777))
	if err != nil {
		t.Fatal(err)
	}
	// It knows no server of names there, and so no host.
	demo := exec.CommandContext(t.Context(), "chroot", root, "/stint", "demo")
	demo.Env = []string{"HOME=/tmp", "PATH=" + os.Getenv("PATH")}
	said, err := demo.CombinedOutput()
	if err == nil || !regexp.MustCompile(`^downloading PostgreSQL [0-9.]+ from `+
		`https://repo1\.maven\.org/maven2 into /tmp/\S+, once\n`).Match(said) {
		t.Errorf("the demo without PostgreSQL says %q, %v", said, err)
	}
}

// Licences want to be with each copy of what they are for.
func TestArchives_HaveTheLicencesOfOthers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	command(t, root, "tar", "--strip-components=1", "-xzf", one(t, "stint_*_linux_amd64.tar.gz"))
	text, err := os.ReadFile(filepath.Join(root, "NOTICE.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n== Go: LICENSE\n", "\n== github.com/jackc/pgx/v5 v5.", "Copyright (c) 2013-",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("NOTICE.txt lacks %q", want)
		}
	}
}

func TestModules_AreListedWithTheirVersions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(one(t, "stint_*_linux_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &list); err != nil || list.BOMFormat != "CycloneDX" {
		t.Fatalf("the list is %q, %v", list.BOMFormat, err)
	}
	if !slices.ContainsFunc(list.Components, func(c struct{ Name, Version string }) bool {
		return c.Name == "github.com/jackc/pgx/v5" && strings.HasPrefix(c.Version, "v5.")
	}) {
		t.Error("the list lacks pgx")
	}
}

func TestPackage_HasNoFaultThatLintianKnows(t *testing.T) {
	t.Parallel()
	needs(t, "lintian")
	for _, processor := range []string{"amd64", "arm64"} {
		said := command(t, ".", "lintian", "--allow-root", "--fail-on", "error,warning", "--info",
			"--suppress-tags", "initial-upload-closes-no-bugs",
			one(t, "stint_*_"+processor+".deb"))
		if said != "" {
			t.Errorf("lintian says of the package for %s\n%s", processor, said)
		}
	}
}

func TestPython_IsInstalledWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	python, err := interpreter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"stint-*.whl", "stint-*[0-9].tar.gz"} {
		archive, dir := one(t, pattern), t.TempDir()
		args := []string{"install", "-q", "--no-index", "--no-deps", archive}
		command(t, dir, python, "-m", "venv", "--system-site-packages", ".")
		if strings.HasSuffix(archive, ".gz") { // is built with what is here
			args = append(args, "--no-build-isolation")
		}
		command(t, dir, "bin/pip", args...)
		said := command(t, dir, "bin/python", "-c",
			"import stint, stint.worker; print(stint.Client, stint.__file__)")
		if !strings.Contains(said, dir) {
			t.Errorf("%s is not installed: %s", pattern, said)
		}
	}
}

func TestNPM_IsInstalledWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	archive, dir := one(t, "stint-tasks-client-*.tgz"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", archive)
	said := command(t, dir, "node", "--input-type=module", "-e",
		`import {Client} from "@stint-tasks/client"; console.log(typeof Client)`)
	if said != "function\n" {
		t.Errorf("the client is %q", said)
	}
}

// A stranger installs the package on a clean system, runs the demo and the units, upgrades, and
// purges: path.sh.
func TestPackage_LeadsAStrangerFromTheDemoToThePurge(t *testing.T) {
	t.Parallel()
	deb := one(t, "stint_*_amd64.deb")
	needs(t, "mmdebstrap")
	if os.Getuid() != 0 {
		t.Fatal("it makes a root directory of Debian: run it as root")
	}
	dir := t.TempDir()
	root, old := filepath.Join(dir, "root"), filepath.Join(dir, "old")
	command(t, dir, "mmdebstrap", "--quiet", "--variant=apt",
		"--include=postgresql,systemd-standalone-sysusers,ca-certificates", "bookworm", root)
	command(t, dir, "cp", deb, filepath.Join(root, "new.deb"))
	command(t, ".", "cp", "path.sh", root)
	// This version under a lower number stands for the one before.
	command(t, dir, "dpkg-deb", "-R", deb, old)
	command(t, dir, "sed", "-i", "s/^Version: .*/&~before/", filepath.Join(old, "DEBIAN/control"))
	command(t, dir, "dpkg-deb", "-b", old, filepath.Join(root, "old.deb"))
	command(t, dir, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec",
		`mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"
		exec chroot "$0" sh /path.sh`, root)
}
