package cache

import (
	"encoding/json"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

func testSeed(t *testing.T) int64 {
	seed, err := strconv.ParseInt(os.Getenv("SETPOINT_SEED"), 10, 64)
	if err != nil {
		seed = rand.Int63()
	}
	t.Logf("SETPOINT_SEED=%d", seed)
	return seed
}

// What is walked and cut on the wire is what decoding and clearing managedFields gives, for random objects of
// all kinds with metadata, in both encodings.
func TestStripIsLikeDecoding(t *testing.T) {
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(testSeed(t)), serializer.NewCodecFactory(scheme.Scheme))
	kinds := 0
	for _, gvk := range slices.SortedFunc(maps.Keys(scheme.Scheme.AllKnownTypes()), compareKinds) {
		model, err := scheme.Scheme.New(gvk)
		must(err)
		f, err := newForm(scheme.Scheme, gvk, retention{owners: map[string]bool{"mine": true}})
		must(err)
		if f.proto == nil {
			continue
		}
		kinds++
		for range 5 {
			o := reflect.New(reflect.TypeOf(model).Elem()).Interface().(testObject)
			fill.Fill(o)
			o.SetName("name")
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "other"}, {Manager: "mine", FieldsV1: metav1.NewFieldsV1(`{}`)}, {Manager: "x"}})
			wire := map[encoding]string{}
			data, err := o.(protoMessage).Marshal()
			must(err)
			wire[encodingProto] = string(data)
			data, err = json.Marshal(o)
			must(err)
			wire[encodingJSON] = string(data)
			for enc, data := range wire {
				checkStrip(t, f, enc, data, model)
			}
		}
	}
	if kinds < 50 {
		t.Errorf("only %d kinds were compared", kinds)
	}
}

func compareKinds(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }

func checkStrip(t *testing.T, f *form, enc encoding, data string, model runtime.Object) {
	t.Helper()
	want := reflect.New(reflect.TypeOf(model).Elem()).Interface().(testObject)
	if enc == encodingProto {
		must(want.(protoMessage).Unmarshal([]byte(data)))
	} else {
		must(jsonUnmarshal(data, want))
	}
	want.SetManagedFields(nil)
	f.setKind(want)

	stored, err := newObject(enc, data, f.keep)
	if err != nil {
		t.Fatalf("%v: %v", f.gvk, err)
	}
	got := reflect.New(reflect.TypeOf(model).Elem()).Interface().(testObject)
	if err := f.decode(stored, got); err != nil {
		t.Fatalf("%v: %v", f.gvk, err)
	}
	same(t, f.gvk.String(), want, got)
	var p metav1.PartialObjectMetadata
	must(f.decode(stored, &p))
	same(t, "metadata of "+f.gvk.String(), meta.AsPartialObjectMetadata(want).ObjectMeta, p.ObjectMeta)
	same(t, "identity", []string{joinKey(key(want.GetNamespace(), want.GetName())), string(want.GetUID()), want.GetResourceVersion()},
		[]string{stored.key, stored.uid, stored.version})
	managed := Entry{stored, f}.ManagedFields()
	if len(managed) != 1 || managed[0].Manager != "mine" {
		t.Errorf("%v: managedFields put aside: %v", f.gvk, managed)
	}
	labels := map[string]string{}
	stored.eachLabel(func(k, v string) bool { labels[k] = v; return true })
	same(t, "labels", len(want.GetLabels()), len(labels))
}

// Whatever a server sends, walking it never panics, and valid JSON is read as the JSON package reads it.
func FuzzJSON(f *testing.F) {
	f.Add(`{"metadata":{"name":"x","labels":{"a":"b\"c"},"managedFields":[{"manager":"mine"},{}]},"spec":[1,{"a":null}]}`)
	f.Add(` { "metadata" : { } , "x" : "\\" } `)
	f.Add(`{"metadata":{"managedFields":null}}`)
	f.Fuzz(func(t *testing.T, data string) {
		stripped, managed, err := jsonStrip(data, retention{owners: map[string]bool{"mine": true}})
		_, _, _, _ = jsonList(data)
		_, _, _ = jsonEvent(data)
		var want map[string]any
		if !json.Valid([]byte(data)) || json.Unmarshal([]byte(data), &want) != nil || want == nil || hasTwice(data) {
			return
		}
		m, isObject := want["metadata"].(map[string]any)
		if !isObject {
			return
		}
		if fields, ok := m["managedFields"]; ok {
			if _, isArray := fields.([]any); !isArray && fields != nil {
				return // not what a server sends
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		delete(m, "managedFields")
		var got map[string]any
		if err := json.Unmarshal([]byte(stripped), &got); err != nil {
			t.Fatalf("%s became %s: %v", data, stripped, err)
		}
		same(t, data, want, got)
		if managed != "" && !json.Valid([]byte(managed)) {
			t.Errorf("put aside: %s", managed)
		}
	})
}

// hasTwice reports whether a name may be written twice or in escapes: servers do not do that, and packages differ in what they
// make of it.
func hasTwice(data string) bool {
	return strings.Contains(data, `\`) || strings.Count(data, `"metadata"`) != 1 || strings.Count(data, `"managedFields"`) > 1
}

// Whatever a server sends, walking it never panics.
func FuzzProto(f *testing.F) {
	p := pod("a", "x", map[string]string{"a": "b"})
	data, err := p.Marshal()
	must(err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _, _ = encodingProto.list(string(data))
		_, _, _ = encodingProto.event(string(data))
		o, err := newObject(encodingProto, string(data), retention{owners: map[string]bool{"mine": true}})
		if err != nil {
			return
		}
		o.eachLabel(func(string, string) bool { return true })
		var before, after corev1.Pod
		if before.Unmarshal(data) != nil || !onlyOneMetadata(data) {
			return
		}
		must(after.Unmarshal([]byte(o.encoded())))
		before.ManagedFields = nil
		same(t, "pod", before, after)
	})
}

// onlyOneMetadata reports whether the message has its metadata once and first, as every encoder writes it.
func onlyOneMetadata(data []byte) bool {
	var numbers []int
	_ = protoWalk(string(data), func(f protoField) bool { numbers = append(numbers, f.number); return true })
	return len(numbers) > 0 && numbers[0] == 1 && !slices.Contains(numbers[1:], 1)
}

// Damaged bytes give errors, or other objects, but never a panic.
func TestDamagedBytes(t *testing.T) {
	rnd := randv2.New(randv2.NewPCG(uint64(testSeed(t)), 0))
	f, err := newForm(scheme.Scheme, podKind, retention{owners: map[string]bool{"mine": true}})
	must(err)
	p := pod("a", "x", map[string]string{"a": "b", "c": `d"e`})
	wire := map[encoding]string{encodingJSON: string(format{}.encode(p))}
	data, err := p.Marshal()
	must(err)
	wire[encodingProto] = string(data)
	for enc, data := range wire {
		for range 5000 {
			damaged := []byte(data)
			for range 1 + rnd.IntN(3) {
				switch i := rnd.IntN(len(damaged)); rnd.IntN(3) {
				case 0:
					damaged[i] = byte(rnd.Int())
				case 1:
					damaged = append(damaged[:i:i], damaged[min(len(damaged), i+1+rnd.IntN(8)):]...)
				case 2:
					damaged = append(damaged[:i:i], append([]byte(pick(rnd, `"`, `{`, `]`, `,`, `\`, "\xff")), damaged[i:]...)...)
				}
				if len(damaged) == 0 {
					damaged = []byte{0}
				}
			}
			_, _, _, _ = enc.list(string(damaged))
			_, _, _ = enc.event(string(damaged))
			if o, err := newObject(enc, string(damaged), f.keep); err == nil {
				o.eachLabel(func(string, string) bool { return true })
				_ = f.decode(o, &corev1.Pod{})
				_ = f.decode(o, &metav1.PartialObjectMetadata{})
				_ = Entry{o, f}.ManagedFields()
			}
		}
	}
}
