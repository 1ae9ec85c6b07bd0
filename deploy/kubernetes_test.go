package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const (
	inboxFile   = "deploy/kubernetes/inbox/once.yaml"
	gatewayFile = "deploy/kubernetes/gateway/once.yaml"
)

// deployment is one folder of manifests.
type deployment struct {
	folder   string
	kustom   kustomization
	workload workload
	services []service
	budgets  []budget
}

// deployments reads both folders; what nothing names in them is an error.
func deployments(t *testing.T) (all []deployment) {
	t.Helper()
	for _, name := range []string{inboxFile, gatewayFile} {
		d := deployment{folder: filepath.Dir(name)}
		d.read(t)
		all = append(all, d)
	}
	return all
}

func (d *deployment) read(t *testing.T) {
	t.Helper()
	strict(t, d.folder, file(t, d.folder, "kustomization.yaml"), &d.kustom)
	want := slices.Concat(d.kustom.Resources, []string{"kustomization.yaml"})
	for _, g := range d.kustom.ConfigMapGenerator {
		want = append(want, g.Files...)
	}
	entries, err := os.ReadDir(filepath.Join(root, d.folder))
	must(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("%s has %v, its kustomization names %v", d.folder, have, want)
	}
	for _, name := range d.kustom.Resources {
		for _, doc := range strings.Split(file(t, d.folder, name), "\n---\n") {
			var m Manifest
			must(t, yaml.Unmarshal([]byte(doc), &m))
			switch m.APIVersion + " " + m.Kind {
			case "apps/v1 StatefulSet", "apps/v1 Deployment":
				strict(t, name, doc, &d.workload)
			case "v1 Service":
				var s service
				strict(t, name, doc, &s)
				d.services = append(d.services, s)
			case "policy/v1 PodDisruptionBudget":
				var b budget
				strict(t, name, doc, &b)
				d.budgets = append(d.budgets, b)
			default:
				t.Errorf("%s/%s: %s %s is not known here", d.folder, name, m.APIVersion, m.Kind)
			}
		}
	}
}

func (d *deployment) config() string { return d.folder + "/once.yaml" }

func (d *deployment) container(t *testing.T) container {
	t.Helper()
	list := d.workload.Spec.Template.Spec.Containers
	if len(list) != 1 {
		t.Fatalf("%s has %d containers", d.folder, len(list))
	}
	return list[0]
}

func TestPodsGiveTheProgramWhatItsConfigurationNames(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		c, s := d.container(t), configured(t, d.config())
		ports := []string{}
		for _, p := range c.Ports {
			ports = append(ports, strconv.Itoa(p.ContainerPort))
		}
		if want := []string{s.listen, s.admin}; !slices.Equal(ports, want) {
			t.Errorf("%s: the ports are %v, the configuration has %v", d.folder, ports, want)
		}
		known, given := variables(t), map[string]bool{}
		for _, e := range c.Env {
			given[e.Name] = true
			if !known[e.Name] && !slices.Contains(s.env, e.Name) {
				t.Errorf("%s: nobody reads %s", d.folder, e.Name)
			}
			ref := e.ValueFrom.SecretKeyRef
			if (e.Value == "") == (ref.Name == "") {
				t.Errorf("%s: %s has neither a value nor a secret, or both", d.folder, e.Name)
			}
			if ref.Name != "" && !strings.Contains(file(t, "deploy/README.md"),
				"create secret generic "+ref.Name+" ") {
				t.Errorf("the README doesn't make the secret %s", ref.Name)
			}
		}
		for _, name := range s.env {
			if !given[name] {
				t.Errorf("%s: the configuration takes %s, which the pod has not", d.folder, name)
			}
		}
		if want := lastStage(t).cmd; !slices.Equal(c.Args, want) {
			t.Errorf("%s: the arguments are %v, the image's %v", d.folder, c.Args, want)
		}
	}
}

func TestPodsHaveNoMoreRightsThanTheyNeed(t *testing.T) {
	t.Parallel()
	user, _, _ := strings.Cut(lastStage(t).user, ":")
	no := func(b *bool) bool { return b != nil && !*b }
	for _, d := range deployments(t) {
		p, c := d.workload.Spec.Template.Spec, d.container(t)
		if s := p.SecurityContext; !s.RunAsNonRoot || strconv.Itoa(s.RunAsUser) != user ||
			s.RunAsGroup != s.RunAsUser || s.FSGroup != s.RunAsUser ||
			s.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("%s: %+v; the image's user is %s", d.folder, s, user)
		}
		if s := c.SecurityContext; !s.ReadOnlyRootFilesystem || !no(s.AllowPrivilegeEscalation) ||
			!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: %+v", d.folder, s)
		}
		if !no(p.AutomountServiceAccountToken) || !no(p.EnableServiceLinks) {
			t.Errorf("%s: a token of the cluster, or variables of its services", d.folder)
		}
		limit, soft := mebibytes(t, c.Resources.Limits["memory"]), 0
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				soft = mebibytes(t, strings.TrimSuffix(e.Value, "B"))
			}
		}
		if soft == 0 || soft >= limit {
			t.Errorf("%s: GOMEMLIMIT of %d Mi does not come before %d Mi", d.folder, soft, limit)
		}
		if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" {
			t.Errorf("%s requests nothing", d.folder)
		}
	}
}

func mebibytes(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(text, "Mi"))
	if err != nil || !strings.HasSuffix(text, "Mi") {
		t.Fatalf("%q is no number of Mi", text)
	}
	return n
}

// Where the root is read-only, what the program writes has to be a volume.
func TestPodsHaveVolumesForAllThatIsWritten(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		volumes := map[string]bool{} // whether it can be written
		for _, v := range d.workload.Spec.Template.Spec.Volumes {
			volumes[v.Name] = v.EmptyDir != nil
			if v.ConfigMap != nil && v.ConfigMap.Name != d.kustom.ConfigMapGenerator[0].Name {
				t.Errorf("%s: nothing makes the map %s", d.folder, v.ConfigMap.Name)
			}
		}
		for _, v := range d.workload.Spec.VolumeClaimTemplates {
			volumes[v.Metadata.Name] = true
			if !slices.Equal(v.Spec.AccessModes, []string{"ReadWriteOncePod"}) {
				t.Errorf("%s: a second pod could have the store: %v", d.folder, v.Spec.AccessModes)
			}
		}
		written := map[string]bool{}
		for _, m := range d.container(t).VolumeMounts {
			can, found := volumes[m.Name]
			if !found {
				t.Errorf("%s: there is no volume %s", d.folder, m.Name)
			}
			written[m.MountPath] = can && !m.ReadOnly
		}
		want := map[string]bool{"/etc/once": false, "/var/lib/once": true, "/tmp": true}
		if !maps.Equal(written, want) {
			t.Errorf("%s: mounted are %v, want %v", d.folder, written, want)
		}
	}
}

func TestPodsHaveTimeToDrain(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		c := d.container(t)
		before := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		if before == 0 {
			t.Errorf("%s: nothing waits for the balancers", d.folder)
		}
		grace := d.workload.Spec.Template.Spec.TerminationGracePeriodSeconds
		want := before + configured(t, d.config()).drain + afterDrain
		if got := time.Duration(grace) * time.Second; want > got ||
			strings.Contains(file(t, d.config()), "drain") && got > 2*want {
			t.Errorf("%s: a pod has %v for an end of up to %v", d.folder, got, want)
		}
	}
}

func TestServicesAndBudgetsMeanThePodsOfTheirFolder(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		pods := d.workload.Spec.Template.Metadata.Labels
		means := func(what string, selector map[string]string) {
			t.Helper()
			if !maps.Equal(selector, pods) {
				t.Errorf("%s: %s means %v, the pods are %v", d.folder, what, selector, pods)
			}
		}
		means("the workload", d.workload.Spec.Selector.MatchLabels)
		for _, s := range d.workload.Spec.Template.Spec.TopologySpreadConstraints {
			means("the spread", s.LabelSelector.MatchLabels)
		}
		if len(d.budgets) != 1 || d.budgets[0].Spec.MaxUnavailable != 1 {
			t.Fatalf("%s: the budgets are %+v", d.folder, d.budgets)
		}
		means("the budget", d.budgets[0].Spec.Selector.MatchLabels)
		ports, names := map[string]bool{}, []string{}
		for _, p := range d.container(t).Ports {
			ports[p.Name] = true
		}
		for _, s := range d.services {
			names = append(names, s.Metadata.Name)
			means(s.Metadata.Name, s.Spec.Selector)
			for _, p := range s.Spec.Ports {
				if !ports[p.TargetPort] || (p.TargetPort == "admin") !=
					strings.HasSuffix(s.Metadata.Name, "-admin") {
					t.Errorf("%s: %s leads to %s", d.folder, s.Metadata.Name, p.TargetPort)
				}
				if p.TargetPort == "admin" &&
					!regexp.MustCompile(`hosts: \[.*\b`+s.Metadata.Name+`\b`).
						MatchString(file(t, d.config())) {
					t.Errorf("%s: the operator's listener refuses the name %s", d.folder,
						s.Metadata.Name)
				}
			}
		}
		if n := d.workload.Spec.ServiceName; n != "" && !slices.Contains(names, n) {
			t.Errorf("%s: there is no service %s", d.folder, n)
		}
	}
}

// One process has a store that is a file; over Redis there can be many.
func TestOnlyWhatSharesItsRecordsRunsInSeveralPods(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		shared := strings.Contains(file(t, d.config()), "records: ")
		w := d.workload
		if several := w.Kind == "Deployment" && w.Spec.Replicas > 1; several != shared {
			t.Errorf("%s: %s of %d pods, shared records: %v", d.folder, w.Kind, w.Spec.Replicas,
				shared)
		}
		if !shared && (w.Kind != "StatefulSet" || w.Spec.Replicas != 1) {
			t.Errorf("%s: %s of %d pods over one file", d.folder, w.Kind, w.Spec.Replicas)
		}
	}
}
