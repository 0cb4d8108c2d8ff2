package cache

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// The bounds of one request. A server that is alive stays well within them: it sends bookmarks every minute.
const (
	headerBound  = 30 * time.Second  // until the response begins
	stallBound   = 60 * time.Second  // without a byte of a listing
	silenceBound = 150 * time.Second // without a frame of a watch: half open
	initialBound = 10 * time.Second  // without a frame before the initial events have ended: they never will
	minWatch     = 5 * time.Minute   // the server ends a watch after between this
	maxWatch     = 10 * time.Minute  // and this time
	maxFrame     = 64 << 20          // bytes of one watch event
	maxStatus    = 1 << 20           // bytes of an error's body
	pageSize     = 500               // objects in one page of a listing
)

// api sends the cache's requests. It goes below client-go's REST client, which would decode what the cache
// wants to keep encoded, and would retry by itself.
type api struct {
	http *http.Client
	base *url.URL
}

func newAPI(cfg *rest.Config, client *http.Client) (*api, error) {
	lasting := *client
	lasting.Timeout = 0
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("find the API server's URL: %w", err)
	}
	return &api{http: &lasting, base: base}, nil
}

// resourcePath is the path of a collection.
func resourcePath(r schema.GroupVersionResource, namespace string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Resource
}

// response is the body of a successful request. Every read pushes the bound on the server's silence further.
type response struct {
	encoding encoding
	body     io.ReadCloser
	buffer   *bufio.Reader
	frame    []byte        // reused
	framed   bool          // read by next
	unframed int           // bytes read since the last frame
	decoder  *json.Decoder // of the frames of a JSON watch
	watchdog *time.Timer
	bound    time.Duration
	cancel   context.CancelCauseFunc
	ctx      context.Context
}

// get sends a GET. Its error is what the server says (an apierrors status), or what kept it from saying
// anything.
func (a *api) get(ctx context.Context, path string, query url.Values, accept string) (*response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watchdog := time.AfterFunc(headerBound, func() {
		cancel(fmt.Errorf("no response within %v", headerBound))
	})
	r := &response{watchdog: watchdog, cancel: cancel, ctx: ctx}
	u := *a.base
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		r.close()
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := a.http.Do(req)
	if err != nil {
		err = r.explain(err)
		r.close()
		return nil, err
	}
	r.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		defer r.close()
		return nil, statusError(resp)
	}
	if r.encoding, err = encodingOf(resp.Header.Get("Content-Type")); err != nil {
		r.close()
		return nil, err
	}
	r.buffer = bufio.NewReaderSize(watched{r}, 32<<10)
	return r, nil
}

// watched reads the body and pushes the bound.
type watched struct{ r *response }

func (w watched) Read(p []byte) (int, error) {
	n, err := w.r.body.Read(p)
	if n > 0 && w.r.bound > 0 {
		w.r.watchdog.Reset(w.r.bound)
	}
	if w.r.unframed += n; w.r.framed && w.r.unframed > maxFrame {
		return 0, fmt.Errorf("a watch event of more than %d bytes", maxFrame)
	}
	return n, err
}

// within bounds the server's silence from now on.
func (r *response) within(bound time.Duration, what string) {
	r.watchdog.Stop()
	r.bound = bound
	r.watchdog = time.AfterFunc(bound, func() {
		r.cancel(&silenceError{what: what, bound: bound})
	})
}

// silenceError says that the server kept a response open but did not go on with it.
type silenceError struct {
	what  string
	bound time.Duration
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("the server sent no %s for %v", e.what, e.bound)
}

// explain replaces the error that ending the request causes by the reason for ending it.
func (r *response) explain(err error) error {
	if cause := context.Cause(r.ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

func (r *response) close() {
	r.watchdog.Stop()
	r.cancel(context.Canceled)
	if r.body != nil {
		_ = r.body.Close()
	}
}

// all reads the rest of the body.
func (r *response) all() ([]byte, error) {
	data, err := io.ReadAll(r.buffer)
	return data, r.explain(err)
}

// next reads one frame of a watch; it is valid until the next call. io.EOF is the end of the watch.
func (r *response) next() (string, error) {
	r.framed, r.unframed = true, 0
	if r.encoding == encodingProto {
		if err := r.readFrame(); err != nil {
			return "", r.explain(err)
		}
		return stringOf(r.frame), nil
	}
	if r.decoder == nil {
		r.decoder = json.NewDecoder(r.buffer)
	}
	raw := json.RawMessage(r.frame[:0])
	if err := r.decoder.Decode(&raw); err != nil {
		return "", r.explain(err)
	}
	r.frame = raw
	return stringOf(raw), nil
}

// readFrame reads a frame of protobuf: its length in four bytes, then as many bytes.
func (r *response) readFrame() error {
	var head [4]byte
	if _, err := io.ReadFull(r.buffer, head[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > maxFrame {
		return fmt.Errorf("a watch event of more than %d bytes", maxFrame)
	}
	if cap(r.frame) < n {
		r.frame = make([]byte, n)
	}
	r.frame = r.frame[:n]
	if _, err := io.ReadFull(r.buffer, r.frame); err != nil {
		return fmt.Errorf("in the middle of a watch event: %w", err)
	}
	return nil
}

// statusError makes an error of a response that is none of success.
func statusError(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	enc, err := encodingOf(resp.Header.Get("Content-Type"))
	if err == nil {
		if status, err := decodeStatus(enc, string(data)); err == nil && status.Status == metav1.StatusFailure {
			if status.Code == 0 {
				status.Code = int32(resp.StatusCode)
			}
			if after > 0 {
				if status.Details == nil {
					status.Details = &metav1.StatusDetails{}
				}
				status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, int32(after))
			}
			return &apierrors.StatusError{ErrStatus: *status}
		}
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "GET", schema.GroupResource{}, "", strings.TrimSpace(string(data)), after, true)
}

// decodeStatus decodes a metav1.Status as it travels.
func decodeStatus(enc encoding, data string) (*metav1.Status, error) {
	var status metav1.Status
	if enc == encodingJSON {
		return &status, jsonUnmarshal(data, &status)
	}
	message, err := protoUnwrap(data)
	if err != nil {
		return nil, err
	}
	return &status, status.Unmarshal(bytesOf(message))
}
