package telemetry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/telemetry"
)

// reviewer is an API server that knows the tokens "good", who may get /metrics, and
// "poor", who may not.
type reviewer struct {
	mu      sync.Mutex
	asked   []string
	broken  error
	hangs   bool
	waiting int
}

func (r *reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hangs {
		r.waiting++
		r.mu.Unlock()
		<-req.Context().Done()
		r.mu.Lock()
		r.waiting--
		return nil, req.Context().Err()
	}
	if r.broken != nil {
		return nil, r.broken
	}
	var token authenticationv1.TokenReview
	var access authorizationv1.SubjectAccessReview
	var answer any
	switch {
	case strings.HasSuffix(req.URL.Path, "/tokenreviews"):
		err = json.Unmarshal(body, &token)
		r.asked = append(r.asked, "who is "+token.Spec.Token)
		if token.Status.Authenticated = token.Spec.Token == "good" || token.Spec.Token == "poor"; token.Status.Authenticated {
			token.Status.User = authenticationv1.UserInfo{Username: token.Spec.Token, UID: "1", Groups: []string{"all"},
				Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}}}
		}
		token.Spec.Token = ""
		answer = token
	case strings.HasSuffix(req.URL.Path, "/subjectaccessreviews"):
		err = json.Unmarshal(body, &access)
		a := access.Spec.NonResourceAttributes
		r.asked = append(r.asked, fmt.Sprintf("may %s %s %s %v %v", access.Spec.User, a.Verb, a.Path, access.Spec.Groups, access.Spec.Extra))
		access.Status.Allowed = access.Spec.User == "good" && a.Path == "/metrics"
		answer = access
	}
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(out))), Request: req,
	}, err
}

func (r *reviewer) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

func (r *reviewer) set(broken error, hangs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken, r.hangs = broken, hangs
}

func guarded(t *testing.T, r *reviewer) http.Handler {
	t.Helper()
	config := &rest.Config{Host: "https://api", ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	guard, err := telemetry.NewGuard(config, &http.Client{Transport: r}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
}

// ask sends a request and returns the status code and the body.
func ask(h http.Handler, method, path, authorization string) (*httptest.ResponseRecorder, string) {
	req := httptest.NewRequest(method, path, nil)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w, w.Body.String()
}

func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviewer{}
		h := guarded(t, r)
		for _, test := range []struct {
			method, path, authorization string
			code                        int
			asked                       string
		}{
			{"GET", "/metrics", "", 401, ""},
			{"GET", "/metrics", "Basic Z29vZDo=", 401, ""},
			{"GET", "/metrics", "Bearer ", 401, ""},
			{"GET", "/metrics", "Bearer " + strings.Repeat("x", 20<<10), 401, ""},
			{"POST", "/metrics", "Bearer good", 405, ""},
			{"GET", "/metrics", "Bearer bad", 401, "who is bad"},
			{"GET", "/metrics", "Bearer poor", 403, "who is poor; may poor get /metrics [all] map[pod:[p]]"},
			{"GET", "/metrics", "bearer good", 200, "who is good; may good get /metrics [all] map[pod:[p]]"},
			{"HEAD", "/metrics", "Bearer good", 200, ""},
			{"GET", "/" + strings.Repeat("x", 256), "Bearer bad", 404, ""},
			{"GET", "/debug", "Bearer good", 403, "who is good; may good get /debug [all] map[pod:[p]]"},
			{"GET", "/metrics", "Bearer bad", 401, ""},
			{"GET", "/metrics", "Bearer poor", 403, ""},
		} {
			w, body := ask(h, test.method, test.path, test.authorization)
			asked := strings.Join(r.take(), "; ")
			if w.Code != test.code || asked != test.asked || strings.Contains(body, "secret") != (test.code == 200) ||
				(w.Header().Get("WWW-Authenticate") == "Bearer") != (test.code == 401) {
				t.Errorf("%.60v: %d %q, asked %q", test, w.Code, body, asked)
			}
		}
		for _, step := range []struct {
			after time.Duration
			token string
			asks  int
		}{{9 * time.Second, "poor", 0}, {2 * time.Second, "poor", 2}, {48 * time.Second, "good", 0}, {2 * time.Second, "good", 2}} {
			time.Sleep(step.after)
			if ask(h, "GET", "/metrics", "Bearer "+step.token); len(r.take()) != step.asks {
				t.Errorf("%+v: other questions", step)
			}
		}
	})
}

// When the API server cannot be asked nobody passes, no longer than a bounded time,
// with a bounded number of questions, and it is asked again the next time.
func TestGuardFailsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviewer{broken: errors.New("cut off")}
		h := guarded(t, r)
		if w, body := ask(h, "GET", "/metrics", "Bearer good"); w.Code != 503 || strings.Contains(body, "cut off") {
			t.Errorf("%d %s", w.Code, body)
		}
		r.set(nil, true)
		start := time.Now()
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				if w, _ := ask(h, "GET", "/metrics", fmt.Sprint("Bearer ", n)); w.Code != 503 {
					t.Errorf("%d", w.Code)
				}
			})
		}
		synctest.Wait()
		if r.mu.Lock(); r.waiting != 4 {
			t.Errorf("%d questions at once", r.waiting)
		}
		r.mu.Unlock()
		all.Wait()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("refused after %v", took)
		}
		r.set(nil, false)
		if w, _ := ask(h, "GET", "/metrics", "Bearer good"); w.Code != 200 {
			t.Errorf("%d after the API server came back", w.Code)
		}
	})
}

func TestAccessGuards(t *testing.T) {
	for _, test := range []struct {
		access telemetry.Access
		addr   string
		want   bool
	}{
		{telemetry.GuardRemote, "127.0.0.1:1", false}, {telemetry.GuardRemote, "0.0.0.0:1", true}, {telemetry.GuardRemote, "", false},
		{telemetry.GuardAll, "127.0.0.1:1", true}, {telemetry.GuardAll, "0.0.0.0:1", true}, {telemetry.GuardAll, "", true},
		{telemetry.GuardNone, "127.0.0.1:1", false}, {telemetry.GuardNone, "0.0.0.0:1", false},
	} {
		if got := test.access.Guards(test.addr); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
