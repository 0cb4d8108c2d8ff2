package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The three versions of a kind. v2 is the hub; v1 has no colour, which it keeps
// in an annotation.
type widget1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Size              string `json:"size"`
}

type widget2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Width  int    `json:"width"`
		Height int    `json:"height"`
		Colour string `json:"colour,omitempty"`
	} `json:"spec"`
}

type widget3 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Area              int `json:"area"`
}

func (w *widget1) DeepCopyObject() runtime.Object { out := *w; return &out }
func (w *widget2) DeepCopyObject() runtime.Object { out := *w; return &out }
func (w *widget3) DeepCopyObject() runtime.Object { out := *w; return &out }

func widgetScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for version, obj := range map[string]runtime.Object{"v1": &widget1{}, "v2": &widget2{}, "v3": &widget3{}} {
		scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}, obj)
	}
	return scheme
}

const colourAnnotation = "example.com/colour"

func v1ToHub(_ context.Context, from *widget1, to *widget2) error {
	if n, err := fmt.Sscanf(from.Size, "%dx%d", &to.Spec.Width, &to.Spec.Height); n != 2 {
		return fmt.Errorf("size %q is not WxH: %w", from.Size, err)
	}
	to.Spec.Colour = to.Annotations[colourAnnotation]
	delete(to.Annotations, colourAnnotation)
	return nil
}

func v1FromHub(_ context.Context, from *widget2, to *widget1) error {
	to.Size = fmt.Sprintf("%dx%d", from.Spec.Width, from.Spec.Height)
	if from.Spec.Colour != "" {
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, colourAnnotation, from.Spec.Colour)
	}
	to.Name, to.UID = "somebody-else", "other" // does not count
	return nil
}

func v3ToHub(_ context.Context, from *widget3, to *widget2) error {
	to.Spec.Width, to.Spec.Height = from.Area, 1
	return nil
}

func v3FromHub(_ context.Context, from *widget2, to *widget3) error {
	to.Area = from.Spec.Width * from.Spec.Height
	return nil
}

func widgetConverter(t *testing.T) http.Handler {
	t.Helper()
	h, err := NewConverter(widgetScheme(), Convert(v1ToHub, v1FromHub), Convert(v3ToHub, v3FromHub))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// convert sends a batch to be converted and returns the answer.
func convert(t *testing.T, h http.Handler, to string, objects ...string) conversionResponse {
	t.Helper()
	w := post(h, []byte(`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u-1","desiredAPIVersion":"`+to+`","objects":[`+strings.Join(objects, ",")+`]}}`))
	var out conversionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); w.Code != 200 || err != nil {
		t.Fatalf("HTTP %d: %s: %v", w.Code, w.Body, err)
	}
	if out.APIVersion != "apiextensions.k8s.io/v1" || out.Kind != "ConversionReview" || out.Response == nil || out.Response.UID != "u-1" || out.Response.ConvertedObjects == nil {
		t.Fatalf("not an answer to the review: %s", w.Body)
	}
	return *out.Response
}

// meta has a field that metav1.ObjectMeta does not know.
const meta = `"metadata":{"name":"a","namespace":"b","uid":"1","resourceVersion":"7","newField":true`

func TestConvert(t *testing.T) {
	h := widgetConverter(t)
	v1 := `{"apiVersion":"example.com/v1","kind":"Widget",` + meta + `,"annotations":{"example.com/colour":"red","k":"v"}},"size":"2x3"}`
	v2 := `{"apiVersion":"example.com/v2","kind":"Widget",` + meta + `,"annotations":{"k":"v"}},"spec":{"width":2,"height":3,"colour":"red"}}`
	v2plain := `{"apiVersion":"example.com/v2","kind":"Widget",` + meta + `},"spec":{"width":6,"height":1}}`
	v3 := `{"apiVersion":"example.com/v3","kind":"Widget",` + meta + `,"annotations":{"k":"v"}},"area":6}`
	v3plain := `{"apiVersion":"example.com/v3","kind":"Widget",` + meta + `},"area":6}`
	v1plain := `{"apiVersion":"example.com/v1","kind":"Widget",` + meta + `},"size":"6x1"}`
	for _, test := range []struct{ why, to, from, want string }{
		{"spoke to hub", "v2", v1, v2},
		{"hub to spoke", "v1", v2, v1},
		{"spoke to spoke", "v3", v1, v3},
		{"and back, as far as it goes", "v1", v3plain, v1plain},
		{"the other spoke to the hub", "v2", v3plain, v2plain},
		{"the hub to the other spoke", "v3", v2plain, v3plain},
		{"to itself, untouched", "v1", v1, v1},
	} {
		got := convert(t, h, "example.com/"+test.to, test.from)
		if got.Result.Status != metav1.StatusSuccess || len(got.ConvertedObjects) != 1 {
			t.Errorf("%s: %+v", test.why, got.Result)
			continue
		}
		if diff := diffJSON(t, test.want, string(got.ConvertedObjects[0])); diff != "" {
			t.Errorf("%s: differs (-want +got):\n%s", test.why, diff)
		}
	}
	if got := convert(t, h, "example.com/v2"); len(got.ConvertedObjects) != 0 || got.Result.Status != metav1.StatusSuccess {
		t.Errorf("an empty batch: %+v", got)
	}
}

func widgets(n int, size func(i int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d","namespace":"b"},"size":%q}`, i, size(i))
	}
	return all
}

func TestConvertKeepsTheOrderOfABatch(t *testing.T) {
	batch := widgets(500, func(i int) string { return fmt.Sprintf("%dx1", i) })
	got := convert(t, widgetConverter(t), "example.com/v3", batch...)
	if len(got.ConvertedObjects) != len(batch) {
		t.Fatalf("%d objects: %+v", len(got.ConvertedObjects), got.Result)
	}
	for i, raw := range got.ConvertedObjects {
		var w widget3
		if err := json.Unmarshal(raw, &w); err != nil || w.Area != i || w.Name != fmt.Sprintf("w%d", i) {
			t.Fatalf("object %d is %s: %v", i, raw, err)
		}
	}
}

func TestConversionErrorsNameTheObjects(t *testing.T) {
	h := widgetConverter(t)
	for _, test := range []struct {
		why, to string
		objects []string
		want    []string
	}{
		{"one of three", "example.com/v3", widgets(3, func(i int) string { return strings.Repeat("1x1", i%2) }),
			[]string{"convert Widget b/w0 from example.com/v1 to example.com/v3: size", "b/w2"}},
		{"very many", "example.com/v3", widgets(50, func(int) string { return "?" }), []string{"b/w0", "b/w9", "and 40 more of 50 objects"}},
		{"an unknown version", "example.com/v9", widgets(1, func(int) string { return "1x1" }), []string{"b/w0", "version v9"}},
		{"from an unknown version", "example.com/v1", []string{`{"apiVersion":"example.com/v9","kind":"Widget","metadata":{"name":"a"}}`}, []string{"Widget a", "version v9"}},
		{"another group", "other.com/v1", widgets(1, func(int) string { return "1x1" }), []string{"b/w0", "no conversion is registered"}},
		{"another kind", "example.com/v2", []string{`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`}, []string{"Gadget a", "no conversion is registered"}},
		{"what the type cannot hold", "example.com/v2", []string{`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"size":5}`}, []string{"Widget a", "decode"}},
		{"not a version", "a/b/c", widgets(1, func(int) string { return "1x1" }), []string{"b/w0", "a/b/c"}},
		{"not an object", "example.com/v2", []string{`5`}, []string{"decode an object"}},
	} {
		got := convert(t, h, test.to, test.objects...)
		if got.Result.Status != metav1.StatusFailure || len(got.ConvertedObjects) != 0 {
			t.Errorf("%s: %+v", test.why, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got.Result.Message, want) {
				t.Errorf("%s: message %q lacks %q", test.why, got.Result.Message, want)
			}
		}
	}
}

func TestConversionFailuresAreHTTPErrors(t *testing.T) {
	h := widgetConverter(t)
	for body, want := range map[string]int{
		`{`: 400,
		`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1beta1","request":{}}`: 400,
		`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}`:                   400,
	} {
		if w := post(h, []byte(body)); w.Code != want {
			t.Errorf("%s: HTTP %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	panics, err := NewConverter(widgetScheme(), Convert(func(context.Context, *widget1, *widget2) error { panic("oops") }, v1FromHub))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"desiredAPIVersion":"example.com/v2","objects":[` + widgets(1, func(int) string { return "1x1" })[0] + `]}}`
	if w := post(panics, []byte(body)); w.Code != 500 || !strings.Contains(w.Body.String(), "panic: oops") {
		t.Errorf("HTTP %d %s", w.Code, w.Body)
	}
}

func TestNewConverterFindsAllMistakes(t *testing.T) {
	never2 := func(context.Context, *widget3, *widget1) error { return nil }
	never1 := func(context.Context, *widget1, *widget3) error { return nil }
	same := func(context.Context, *widget2, *widget2) error { return nil }
	_, err := NewConverter(widgetScheme(), Convert(v1ToHub, v1FromHub), Convert(v1ToHub, v1FromHub), Convert(never2, never1), Convert(same, same))
	for _, want := range []string{"converted twice", "two hubs: v2 and v1", "two versions of one kind"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	_, errNone := NewConverter(widgetScheme())
	_, errUnknown := NewConverter(runtime.NewScheme(), Convert(v1ToHub, v1FromHub))
	if errNone == nil || errUnknown == nil || errors.Is(errNone, errUnknown) {
		t.Errorf("errors %v and %v", errNone, errUnknown)
	}
}
