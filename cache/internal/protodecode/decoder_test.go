package protodecode

import (
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

type marshaler interface {
	Message
	Marshal() ([]byte, error)
}

// builtIn yields an empty object of every kind that has a message.
func builtIn(yield func(gvk schema.GroupVersionKind, make func() marshaler)) {
	kinds := []schema.GroupVersionKind{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		kinds = append(kinds, gvk)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for _, gvk := range kinds {
		o, err := scheme.Scheme.New(gvk)
		if _, ok := o.(marshaler); err == nil && ok && gvk.Version != "__internal" {
			yield(gvk, func() marshaler { return reflect.New(reflect.TypeOf(o).Elem()).Interface().(marshaler) })
		}
	}
}

func seed(t *testing.T) int64 {
	s, err := strconv.ParseInt(os.Getenv("SETPOINT_SEED"), 10, 64)
	if err != nil {
		s = rand.Int63()
	}
	t.Logf("SETPOINT_SEED=%d", s)
	return s
}

// Every built-in kind is decoded as the generated code decodes it, whatever is in it.
func TestSameAsGenerated(t *testing.T) {
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed(t)), serializer.NewCodecFactory(scheme.Scheme))
	kinds := 0
	builtIn(func(gvk schema.GroupVersionKind, empty func() marshaler) {
		kinds++
		d, err := New(reflect.TypeOf(empty()).Elem())
		if err != nil {
			t.Errorf("%v: %v", gvk, err)
			return
		}
		for range 20 {
			o := empty()
			fill.Fill(o)
			data, err := o.Marshal()
			if err != nil {
				t.Errorf("%v: %v", gvk, err)
				return
			}
			want, got := empty(), empty()
			if err := want.Unmarshal(data); err != nil {
				t.Errorf("%v: %v", gvk, err)
				return
			}
			if got := empty(); d.Decode(string(d.Compact(nil, string(data))), got) != nil || !reflect.DeepEqual(want, got) {
				t.Errorf("%v compacted (-generated +ours):\n%s", gvk, cmp.Diff(want, got))
			}
			if d.layout != nil { // without the fallback
				if err := d.layout.decode(string(data), reflect.ValueOf(got).UnsafePointer()); err != nil {
					t.Errorf("%v: not decoded by its layout: %v", gvk, err)
				}
				if !equality.Semantic.DeepEqual(want, got) {
					t.Errorf("%v by its layout (-generated +ours):\n%s", gvk, cmp.Diff(want, got))
				}
			}
			got = empty()
			if err := d.Decode(string(data), got); err != nil || !reflect.DeepEqual(want, got) {
				t.Errorf("%v: %v (-generated +ours):\n%s", gvk, err, cmp.Diff(want, got))
			}
		}
	})
	if kinds < 100 {
		t.Errorf("only %d kinds were compared", kinds)
	}
}

// The kinds that clusters have most of are decoded by their layouts.
func TestLaidOut(t *testing.T) {
	builtIn(func(gvk schema.GroupVersionKind, empty func() marshaler) {
		d, err := New(reflect.TypeOf(empty()).Elem())
		if err != nil {
			t.Fatal(err)
		}
		if d.layout == nil && !strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "WatchEvent" {
			t.Errorf("%v has no layout", gvk)
		}
	})
}

// Damaged messages give what the generated code gives, and never touch memory they should not.
func TestDamaged(t *testing.T) {
	s := seed(t)
	rnd := rand.New(rand.NewSource(s))
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(s), serializer.NewCodecFactory(scheme.Scheme))
	d, err := New(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		var o corev1.Pod
		fill.Fill(&o)
		data, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		switch rnd.Intn(3) {
		case 0:
			data = data[:rnd.Intn(len(data))]
		case 1:
			for range 1 + rnd.Intn(4) {
				data[rnd.Intn(len(data))] = byte(rnd.Int())
			}
		case 2: // the same again: values are merged
			data = append(data, data...)
		}
		checkSame(t, d, data)
	}
}

func checkSame(t *testing.T, d *Decoder, data []byte) {
	t.Helper()
	var want, got corev1.Pod
	wantErr, gotErr := want.Unmarshal(data), d.Decode(string(data), &got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Errorf("generated: %v, ours: %v, message %x", wantErr, gotErr, data)
	}
	if wantErr == nil && !reflect.DeepEqual(want, got) {
		t.Errorf("(-generated +ours):\n%s\nmessage %x", cmp.Diff(want, got), data)
	}
	var compacted corev1.Pod
	if err := d.Decode(string(d.Compact(nil, string(data))), &compacted); wantErr == nil && (err != nil || !reflect.DeepEqual(want, compacted)) {
		t.Errorf("compacted: %v (-generated +ours):\n%s\nmessage %x", err, cmp.Diff(want, compacted), data)
	}
}

// What has its zero value takes no room.
func TestCompact(t *testing.T) {
	d, err := New(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		t.Fatal(err)
	}
	p := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}
	p.Name = "p"
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// The name, the empty creationTimestamp, and of the spec the volume and the node.
	want := "\x0a\x05\x0a\x01p\x42\x00" + "\x12\x09" + "\x0a\x04\x12\x02\x12\x00" + "\x52\x01n"
	if got := string(d.Compact([]byte("-"), string(data))); got != "-"+want {
		t.Errorf("compacted to %q", got)
	}
}

func FuzzPod(f *testing.F) {
	d, err := New(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		f.Fatal(err)
	}
	p := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Args: []string{"a", "b"}}}}}
	p.Labels = map[string]string{"a": "b"}
	data, err := p.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) { checkSame(t, d, data) })
}

// What is decoded earlier is not in the way.
func TestReuse(t *testing.T) {
	d, err := New(reflect.TypeFor[corev1.ConfigMap]())
	if err != nil {
		t.Fatal(err)
	}
	var into corev1.ConfigMap
	for i := range 3 {
		cm := corev1.ConfigMap{Data: map[string]string{fmt.Sprint(i): "x"}, BinaryData: map[string][]byte{"b": {byte(i)}}}
		data, err := cm.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(string(data), &into); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cm, into); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRefuses(t *testing.T) {
	if _, err := New(reflect.TypeFor[struct{ A int }]()); err == nil {
		t.Error("a struct without a message was taken")
	}
	d, err := New(reflect.TypeFor[corev1.Pod]())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode("", &corev1.Node{}); err == nil {
		t.Error("a Pod was decoded into a Node")
	}
}
