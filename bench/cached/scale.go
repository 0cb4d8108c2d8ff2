package cached

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	peercache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/cache"
)

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// scale is what a number of objects costs.
type scale struct{ bytes, micros float64 } // per object

// MeasureScale fills the caches with few and many small objects by way of a listing, without a server: memory and
// time of the processors per object, and how they grow. The peer is measured with few only.
func MeasureScale(ctx context.Context, few, many int) ([]report.Result, error) {
	theirs, err := measureScale(ctx, few, startPeerScale)
	if err != nil {
		return nil, fmt.Errorf("controller-runtime's cache: %w", err)
	}
	ours := map[int]scale{}
	for _, n := range []int{few, many} {
		if ours[n], err = measureScale(ctx, n, startOursScale); err != nil {
			return nil, fmt.Errorf("the cache: %w", err)
		}
	}
	note := fmt.Sprintf("per ConfigMap of %d bytes", smallConfigMap(0).Size())
	growth := fmt.Sprintf("%s; from %d to %d objects: bytes ×%.2f, time ×%.2f", note, few, many,
		ours[many].bytes/ours[few].bytes, ours[many].micros/ours[few].micros)
	large := report.Cost("cache-1m", "bytes", ours[many].bytes)
	large.Note = growth
	largeIngest := report.Cost("cache-1m-ingest", "µs", ours[many].micros)
	largeIngest.Note = growth
	return []report.Result{
		report.Cost("cache-100k", "bytes", ours[few].bytes).Against(theirs.bytes, note+"; peer: controller-runtime's cache"),
		report.Cost("cache-100k-ingest", "µs", ours[few].micros).Against(theirs.micros, note+", time of the processors, listed without a server; peer: controller-runtime's cache"),
		large, largeIngest,
	}, nil
}

func measureScale(ctx context.Context, n int, start func(context.Context, *rest.Config, *meta.DefaultRESTMapper) (func(), error)) (scale, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMapKind, meta.RESTScopeNamespace)
	begun := processTime()
	for from := 0; from < n; from += listingPage { // what making the listing takes is not the cache's
		if _, err := listing(n, from, listingPage); err != nil {
			return scale{}, err
		}
	}
	making := processTime() - begun
	// The peer would limit the rate of its requests for pages.
	config := &rest.Config{Host: "http://listing.invalid", QPS: -1, Transport: lister(n), ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}}
	before := heap()
	begun = processTime()
	stop, err := start(ctx, config, mapper)
	if err != nil {
		return scale{}, err
	}
	defer stop()
	took := processTime() - begun - making
	after := heap()
	goruntime.KeepAlive(stop)
	return scale{
		bytes:  float64(after-before) / float64(n),
		micros: float64(took.Nanoseconds()) / 1e3 / float64(n),
	}, nil
}

func startOursScale(ctx context.Context, config *rest.Config, mapper *meta.DefaultRESTMapper) (func(), error) {
	_, stop, err := runOurs(ctx, cache.Config{REST: config, Mapper: mapper}, configMapKind)
	return stop, err
}

func startPeerScale(ctx context.Context, config *rest.Config, mapper *meta.DefaultRESTMapper) (func(), error) {
	_, stop, err := runPeer(ctx, config, peercache.Options{Scheme: clientscheme.Scheme, Mapper: mapper}, &corev1.ConfigMap{})
	return stop, err
}

// processTime is what the process has had of the processors so far, the collection of garbage included.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// smallConfigMap returns the i-th small object.
func smallConfigMap(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%03d", i/1000), Name: fmt.Sprintf("settings-%07d", i),
			UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i*7919)), ResourceVersion: strconv.Itoa(i + 1),
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000+int64(i), 0)),
			Labels:            map[string]string{"app": fmt.Sprintf("app-%d", i/100), "tier": "web"},
		},
		Data: map[string]string{"endpoint": fmt.Sprintf("https://service-%d.example.com", i), "mode": "fast"},
	}
}

const listingPage = 500

// listing returns a page of a listing of n objects as it travels in protobuf.
func listing(n, from, limit int) ([]byte, error) {
	list := corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(n + 1)}}
	to := min(n, from+limit)
	for i := from; i < to; i++ {
		list.Items = append(list.Items, *smallConfigMap(i))
	}
	if to < n {
		list.Continue = strconv.Itoa(to)
	}
	raw, err := list.Marshal()
	if err != nil {
		return nil, err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, Raw: raw}
	data, err := unknown.Marshal()
	return append([]byte("k8s\x00"), data...), err
}

// lister answers LIST with so many small objects in pages, and WATCH with nothing; it does not stream listings.
type lister int

// RoundTrip implements http.RoundTripper.
func (n lister) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	answer := func(code int, contentType string, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: body, Request: r}, nil
	}
	switch {
	case q.Get("sendInitialEvents") == "true":
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"listings are not streamed"}`
		return answer(http.StatusUnprocessableEntity, "application/json", io.NopCloser(bytes.NewBufferString(status)))
	case q.Get("watch") == "true":
		return answer(http.StatusOK, runtime.ContentTypeProtobuf+";stream=watch", quiet{r.Context()})
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 {
		limit = int(n)
	}
	from, _ := strconv.Atoi(q.Get("continue"))
	data, err := listing(int(n), from, limit)
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, runtime.ContentTypeProtobuf, io.NopCloser(bytes.NewReader(data)))
}

// quiet is the body of a watch without events.
type quiet struct{ ctx context.Context }

func (q quiet) Read([]byte) (int, error) { <-q.ctx.Done(); return 0, q.ctx.Err() }

func (q quiet) Close() error { return nil }
