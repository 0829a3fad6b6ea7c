// Package deploy_test checks deploy/: the chart for Kubernetes, and the file for Compose. It is a
// module of its own, so that stint does not depend on Kubernetes.
package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// render makes the objects of the chart with some values.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load("../../../deploy/chart")
	if err != nil {
		t.Fatal(err)
	}
	some, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, some,
		chartutil.ReleaseOptions{Name: "stint", Namespace: "tasks", IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Engine{Strict: true}.Render(chart, all)
}

// objects are those of the chart.
type objects struct {
	serve    apps.Deployment
	migrate  *batch.Job
	service  core.Service
	account  core.ServiceAccount
	budget   policy.PodDisruptionBudget
	networks *networking.NetworkPolicy
}

// installed are the objects of the chart with some values. None has a field that its type does
// not have.
func installed(t *testing.T, values string) *objects {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{}
	for name, text := range files {
		if strings.TrimSpace(text) == "" || strings.HasSuffix(name, ".tpl") {
			continue
		}
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		var object any
		switch kind.APIVersion + " " + kind.Kind {
		case "apps/v1 Deployment":
			object = &o.serve
		case "batch/v1 Job":
			o.migrate = &batch.Job{}
			object = o.migrate
		case "v1 Service":
			object = &o.service
		case "v1 ServiceAccount":
			object = &o.account
		case "policy/v1 PodDisruptionBudget":
			object = &o.budget
		case "networking.k8s.io/v1 NetworkPolicy":
			o.networks = &networking.NetworkPolicy{}
			object = o.networks
		default:
			t.Fatalf("%s is of an unknown kind, %+v", name, kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	return o
}

func (o *objects) pods() []core.PodTemplateSpec {
	pods := []core.PodTemplateSpec{o.serve.Spec.Template}
	if o.migrate != nil {
		pods = append(pods, o.migrate.Spec.Template)
	}
	return pods
}

// variants are values that have all parts of the chart, and none of those that can be left out.
const (
	least = `
database: {existingSecret: db}
credentials: {existingSecret: callers}
migrate: {enabled: false}
networkPolicy: {enabled: false}
`
	most = `
image: {repository: registry.example/stint, tag: v1}
imagePullSecrets: [{name: registry}]
replicas: 3
database: {existingSecret: db, key: url, port: 6432}
migrate: {existingSecret: owner, key: owner-url}
credentials: {existingSecret: callers}
tls: {existingSecret: certificate}
extraArgs: [--access-log, --connections=10]
drainSeconds: 60
networkPolicy:
  from: [{namespaceSelector: {matchLabels: {team: shop}}}]
  to: [{ipBlock: {cidr: 10.0.0.0/8}}]
nodeSelector: {disk: fast}
tolerations: [{key: batch, operator: Exists}]
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
`
)

func TestChart_HasObjectsThatKubernetesKnows(t *testing.T) {
	t.Parallel()
	o := installed(t, least)
	if o.migrate != nil || o.networks != nil || *o.serve.Spec.Replicas != 2 {
		t.Errorf("the least that can be installed is %+v", o)
	}
	o = installed(t, most)
	if o.migrate == nil || o.networks == nil {
		t.Fatal("the job or the network policy is missing")
	}
	if got := o.migrate.Annotations["helm.sh/hook"]; got != "pre-install,pre-upgrade" {
		t.Errorf("the job runs at %q", got)
	}
	if got := o.migrate.Spec.Template.Spec.Volumes[0].Secret; got.SecretName != "owner" ||
		got.Items[0].Key != "owner-url" {
		t.Errorf("the job has the secret %+v", got)
	}
	if got := o.networks.Spec.Egress[1].Ports[0].Port.IntValue(); got != 6432 {
		t.Errorf("the database has the port %d", got)
	}
	if got := o.serve.Spec.Template.Spec.Containers[0]; got.Image != "registry.example/stint:v1" ||
		got.ReadinessProbe.HTTPGet.Scheme != core.URISchemeHTTPS {
		t.Errorf("the service runs %+v", got)
	}
}

func TestChart_SelectsTheServicesAlone(t *testing.T) {
	t.Parallel()
	o := installed(t, most)
	asSelector := func(s *meta.LabelSelector) labels.Selector {
		selector, err := meta.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector
	}
	for name, selector := range map[string]labels.Selector{
		"deployment": asSelector(o.serve.Spec.Selector),
		"service":    labels.SelectorFromSet(o.service.Spec.Selector),
		"budget":     asSelector(o.budget.Spec.Selector),
		"networks":   asSelector(&o.networks.Spec.PodSelector),
	} {
		if !selector.Matches(labels.Set(o.serve.Spec.Template.Labels)) ||
			selector.Matches(labels.Set(o.migrate.Spec.Template.Labels)) {
			t.Errorf("%s selects %s", name, selector)
		}
	}
}

// Pods are as the Pod Security Standard "restricted" wants them, and cannot call Kubernetes.
func TestChart_RunsPodsThatMayDoLittle(t *testing.T) {
	t.Parallel()
	o := installed(t, most)
	if o.account.AutomountServiceAccountToken == nil || *o.account.AutomountServiceAccountToken {
		t.Error("the account has a token")
	}
	for _, pod := range o.pods() {
		of, spec := pod.Labels["app.kubernetes.io/component"], pod.Spec
		if *spec.AutomountServiceAccountToken || *spec.EnableServiceLinks ||
			!*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser == 0 ||
			spec.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the pod of %s has %+v", of, spec)
		}
		for _, container := range spec.Containers {
			may := container.SecurityContext
			if *may.AllowPrivilegeEscalation || !*may.ReadOnlyRootFilesystem ||
				!slices.Equal(may.Capabilities.Drop, []core.Capability{"ALL"}) {
				t.Errorf("the container of %s may %+v", of, may)
			}
		}
		for _, volume := range spec.Volumes {
			if volume.Secret == nil || *volume.Secret.DefaultMode&0o007 != 0 {
				t.Errorf("%s has the volume %+v", of, volume)
			}
		}
	}
}

func TestChart_GivesServicesTheTimeToDrain(t *testing.T) {
	t.Parallel()
	for values, drain := range map[string]int64{least: 30, most: 60} {
		spec := installed(t, values).serve.Spec.Template.Spec
		container := spec.Containers[0]
		_, flags := parse(t, container.Args)
		got, err := flags.GetDuration("drain")
		if err != nil || int64(got.Seconds()) != drain {
			t.Errorf("the service drains for %v, %v, want %d s", got, err, drain)
		}
		least := container.Lifecycle.PreStop.Sleep.Seconds + drain
		if more := *spec.TerminationGracePeriodSeconds - least; more < 5 {
			t.Errorf("Kubernetes waits %d s longer than preStop and --drain", more)
		}
	}
}

// The files that flags and variables name are in secrets of the pod.
func TestChart_CallsTheCommandAsItIs(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, most} {
		for _, pod := range installed(t, values).pods() {
			container := pod.Spec.Containers[0]
			parse(t, container.Args)
			words := slices.Clone(container.Args)
			for _, variable := range container.Env {
				knows(t, variable.Name)
				words = append(words, variable.Value)
			}
			var mounted []string
			for _, mount := range container.VolumeMounts {
				if !slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool {
					return v.Name == mount.Name
				}) {
					t.Errorf("there is no volume %s", mount.Name)
				}
				mounted = append(mounted, mount.MountPath)
			}
			secrets := regexp.MustCompile(`(/run/secrets/\w+)/`)
			for _, word := range words {
				found := secrets.FindStringSubmatch(word)
				if found != nil && !slices.Contains(mounted, found[1]) {
					t.Errorf("%s is not in %q", word, mounted)
				}
			}
		}
	}
}

func TestChart_IsRefusedWithoutSecrets(t *testing.T) {
	t.Parallel()
	missing := map[string]string{
		"database":    "credentials: {existingSecret: callers}",
		"credentials": "database: {existingSecret: db}",
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		_, err := render(t, missing[name])
		if err == nil || !strings.Contains(err.Error(), name+".existingSecret is missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
