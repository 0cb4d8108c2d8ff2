package reload

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// parse returns the policy of annotations given as keys and values in turn.
func parse(o Options, annotations ...string) *policy {
	return policyOf(annotationsOf(annotations...), nil, &o)
}

func annotationsOf(pairs ...string) map[string]string {
	annotations := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		annotations[pairs[i]] = pairs[i+1]
	}
	return annotations
}

func TestFollows(t *testing.T) {
	used, frozen := &reference{}, &reference{frozen: true}
	secret := source{kindSecret, "app"}
	for _, test := range []struct {
		why         string
		annotations []string
		source      source
		ref         *reference
		matched     bool
		want        bool
	}{
		{"nothing asked for", nil, cm("app"), used, true, false},
		{"auto", []string{Auto, "true"}, cm("app"), used, false, true},
		{"auto, not used", []string{Auto, "true"}, cm("app"), nil, true, false},
		{"auto, a Secret", []string{Auto, "true"}, secret, used, false, true},
		{"auto of one kind", []string{Auto, "configmaps"}, secret, used, false, false},
		{"auto of both kinds", []string{Auto, "configmaps, secrets"}, secret, used, false, true},
		{"frozen only, updated in place", []string{Auto, "frozen"}, cm("app"), used, false, false},
		{"frozen only, frozen", []string{Auto, "frozen"}, cm("app"), frozen, false, true},
		{"auto off wins over Reloader's", []string{Auto, "false", reloaderAuto, "true"}, cm("app"), used, false, false},
		{"Reloader's auto", []string{reloaderAuto, "true"}, secret, used, false, true},
		{"Reloader's auto of ConfigMaps", []string{reloaderConfigMapAuto, "true"}, cm("app"), used, false, true},
		{"Reloader's auto of ConfigMaps, a Secret", []string{reloaderConfigMapAuto, "true"}, secret, used, false, false},
		{"Reloader's auto of Secrets", []string{reloaderSecretAuto, "true"}, secret, used, false, true},
		{"Reloader's auto, and off for one kind", []string{reloaderAuto, "true", reloaderConfigMapAuto, "false"}, cm("app"), used, false, true},
		{"Reloader's auto off, and on for one kind", []string{reloaderAuto, "false", reloaderConfigMapAuto, "true"}, cm("app"), used, false, true},
		{"Reloader's auto in another spelling", []string{reloaderAuto, "1", reloaderSecretAuto, "F"}, secret, used, false, true},
		{"search, matched and used", []string{Search, "true"}, cm("app"), used, true, true},
		{"search, matched only", []string{Search, "true"}, cm("app"), nil, true, false},
		{"search, used only", []string{reloaderSearch, "true"}, cm("app"), used, false, false},
		{"Reloader's search", []string{reloaderSearch, "true"}, secret, used, true, true},
		{"listed", []string{ConfigMaps, "db,app"}, cm("app"), nil, false, true},
		{"listed, the other kind", []string{Secrets, "app"}, cm("app"), nil, false, false},
		{"Reloader's list", []string{reloaderSecrets, "app"}, secret, nil, false, true},
		{"fabric8's list", []string{fabric8Update, "db, app"}, cm("app"), nil, false, true},
		{"excluded", []string{Auto, "true", ExcludeConfigMaps, "a.*"}, cm("app"), used, false, false},
		{"excluded although listed", []string{ConfigMaps, "app", ExcludeConfigMaps, "app"}, cm("app"), nil, false, false},
		{"Reloader's exclude", []string{reloaderAuto, "true", reloaderNoSecrets, "app"}, secret, used, false, false},
		{"Reloader's exclude of the other kind", []string{reloaderAuto, "true", reloaderNoConfigMaps, "app"}, secret, used, false, true},
		{"ignored", []string{Auto, "true", Ignore, "true"}, cm("app"), used, false, false},
		{"ignored in Reloader's words", []string{Auto, "true", reloaderIgnore, "true"}, cm("app"), used, false, false},
	} {
		p := parse(Options{}, test.annotations...)
		if got := p.follows(test.source, test.ref, test.matched); got != test.want {
			t.Errorf("%s: %v is followed: %t", test.why, test.source, got)
		}
		if test.want && p.idle() {
			t.Errorf("%s: is idle, and follows", test.why)
		}
		if len(p.problems) > 0 {
			t.Errorf("%s: %v", test.why, p.problems)
		}
	}
}

func TestReloadFault2ListIsTrimmed(t *testing.T) {
	p := parse(Options{}, fabric8Update, " a, b ,,\tc\n,")
	if want := []string{"a", "b", "c"}; !slices.Equal(p.configMaps.named.names, want) || len(p.problems) != 0 {
		t.Errorf("got %q with %v, want %q", p.configMaps.named.names, p.problems, want)
	}
}

// Reloader compiles an item as ^item$, so that a|b matches whatever begins with a or ends in b.
func TestReloaderExpressionsAreAnchoredAsAWhole(t *testing.T) {
	p := parse(Options{}, reloaderConfigMaps, "a|b, app-[0-9]{1,2}, x.y")
	for name, want := range map[string]bool{
		"a": true, "b": true, "ax": false, "xb": false, "app-1": true, "app-12": true, "app-123": false, "my-app-1": false,
		"x.y": true, "xzy": false, // a name is a name, whatever the dot means in an expression
	} {
		if got := p.follows(cm(name), nil, false); got != want {
			t.Errorf("%s is followed: %t", name, got)
		}
	}
}

func TestReloaderInvalidExpressionIsReported(t *testing.T) {
	p := parse(Options{}, reloaderConfigMaps, "app-(, db", Window, "soon", PausePeriod, "-5m", reloaderCSI, "vault", Auto, "perhaps",
		reloaderSearch, "yes", fabric8Update, "a_b")
	if !p.follows(cm("db"), nil, false) {
		t.Error("what comes after it is not followed")
	}
	said := strings.Join(p.problems, "\n")
	for _, word := range []string{reloaderConfigMaps, `"app-("`, Window, `"soon"`, PausePeriod, reloaderCSI, Auto, `"perhaps"`, reloaderSearch, `"a_b"`} {
		if !strings.Contains(said, word) {
			t.Errorf("the problems do not speak of %s:\n%s", word, said)
		}
	}
	if p.window != defaultWindow {
		t.Errorf("the window is %v", p.window)
	}
}

func TestReloader1069StrategyIsChecked(t *testing.T) {
	if p := parse(Options{}, reloaderStrategy, "restart"); !p.restart || len(p.problems) > 0 {
		t.Errorf("restart is not understood: %v", p.problems)
	}
	if p := parse(Options{}, reloaderStrategy, "restart", RolloutStrategy, "rollout"); p.restart {
		t.Error("the operator's own annotation does not win")
	}
	if p := parse(Options{}, RolloutStrategy, "recreate"); len(p.problems) != 1 {
		t.Errorf("an unknown strategy goes unnoticed: %v", p.problems)
	}
}

func TestPolicyOfOptions(t *testing.T) {
	all := Options{AutoAll: true, OnCreate: true, Window: time.Minute}
	used := &reference{}
	p := parse(all)
	if !p.follows(cm("app"), used, false) || !p.onCreate || p.onDelete || p.window != time.Minute {
		t.Errorf("the options do not hold: %+v", p)
	}
	for _, off := range []string{Auto, reloaderAuto} {
		if p := parse(all, off, "false"); p.follows(cm("app"), used, false) {
			t.Errorf("%s does not opt out", off)
		}
	}
	p = parse(all, OnCreate, "false", OnDelete, "true", Window, "0s", PausePeriod, "5m")
	if p.onCreate || !p.onDelete || p.window != 0 || p.pause != 5*time.Minute {
		t.Errorf("the annotations do not win: %+v", p)
	}
	if p := parse(Options{}, reloaderPause, "5m"); p.pause != 5*time.Minute {
		t.Errorf("Reloader's pause is %v", p.pause)
	}
	p = parse(Options{IgnoreSecrets: true}, Auto, "true", Secrets, "app")
	if p.follows(source{kindSecret, "app"}, used, true) || !p.follows(cm("app"), used, true) {
		t.Error("ignored Secrets are followed, or ConfigMaps are not")
	}
}

func TestAnnotationsOfTheTemplate(t *testing.T) {
	o := Options{}
	template := annotationsOf(reloaderAuto, "true", PausePeriod, "1m")
	p := policyOf(annotationsOf(PausePeriod, "5m"), template, &o)
	if !p.configMaps.auto || p.pause != 5*time.Minute {
		t.Errorf("got %+v", p)
	}
	if p := policyOf(annotationsOf(ConfigMaps, "app"), template, &o); p.configMaps.auto || p.pause != 0 {
		t.Error("the template's count although the workload has some")
	}
	for _, template := range []map[string]string{annotationsOf(ExcludeConfigMaps, "app"), annotationsOf(reloaderIgnore, "true")} {
		if p := policyOf(nil, template, &Options{AutoAll: true}); p.follows(cm("app"), &reference{}, false) {
			t.Errorf("%v on the template does not hold with auto-all", template)
		}
	}
}

func TestReferences(t *testing.T) {
	yes := true
	name := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	spec := &corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{name("pull")},
		InitContainers: []corev1.Container{{
			Name:    "init",
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("init-from")}}},
			Env: []corev1.EnvVar{{Name: "PLAIN", Value: "x"}, {Name: "X", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name("init-key"), Key: "x", Optional: &yes}}}},
		}},
		Containers: []corev1.Container{{
			Name:    "main",
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("from"), Optional: &yes}}},
			Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("key"), Key: "x"}}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "part", MountPath: "/etc/app.conf", SubPath: "app.conf"}, {Name: "whole", MountPath: "/etc/app"}},
		}},
		Volumes: []corev1.Volume{
			volume("whole", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("whole")}}),
			volume("part", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "part", Optional: &yes}}),
			volume("mixed", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name("projected"), Optional: &yes}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: name("projected")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name("from")}}, // required here, optional above
			}}}),
			volume("none", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		},
	}
	want := map[source]reference{
		{kindSecret, "init-from"}:    {required: true, frozen: true},
		{kindConfigMap, "init-key"}:  {frozen: true},
		{kindConfigMap, "from"}:      {required: true, frozen: true},
		{kindSecret, "key"}:          {required: true, frozen: true},
		{kindConfigMap, "whole"}:     {required: true},
		{kindSecret, "part"}:         {frozen: true},
		{kindConfigMap, "projected"}: {},
		{kindSecret, "projected"}:    {required: true},
	}
	got := references(spec)
	for s, ref := range want {
		if got[s] == nil || *got[s] != ref {
			t.Errorf("%v: got %+v, want %+v", s, got[s], ref)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d references, want %d: %v", len(got), len(want), got)
	}
}
