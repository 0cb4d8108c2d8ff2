package telemetry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Access says who may read the metrics and the debug pages.
type Access uint8

const (
	// GuardRemote guards every address but the loopback one. It is the zero value.
	GuardRemote Access = iota
	// GuardAll guards the loopback address, too.
	GuardAll
	// GuardNone lets everyone read who reaches the address, without TLS unless
	// there is a certificate.
	GuardNone
)

// Guards reports whether requests to an address are guarded.
func (a Access) Guards(addr string) bool {
	return a == GuardAll || a != GuardNone && !IsLoopback(addr)
}

// The bounds of a Guard.
const (
	reviewTimeout  = 10 * time.Second // of the questions for one request
	reviewsAtOnce  = 4                // requests that ask the API server at a time
	allowedFor     = time.Minute      // how long a yes is believed
	deniedFor      = 10 * time.Second // how long a no is believed
	maxReviews     = 512              // answers that are kept
	maxBearerToken = 16 << 10         // bytes
	maxPath        = 256              // bytes of a request's path
)

// Guard lets requests pass whose bearer token the API server knows and whose user
// may "get" the request's path as a non-resource URL: it asks by TokenReview and
// SubjectAccessReview, so that the rights are those of RBAC. Its own user needs
// the ClusterRole system:auth-delegator.
//
// Who brings no token, or one that is not known, is answered 401, who lacks the
// right 403. When the API server cannot be asked the answer is 503: it fails
// closed. Answers are kept for a minute, denials for ten seconds, and at most 512
// of them; a token is kept as a hash only. Longer paths than 256 bytes, which
// nothing is served at, are answered 404 without asking.
type Guard struct {
	tokens  authenticationclient.TokenReviewInterface
	rights  authorizationclient.SubjectAccessReviewInterface
	log     *slog.Logger
	asking  chan struct{}
	mu      sync.Mutex
	answers map[question]answer
}

// question is what was asked, and answer what became of it.
type question struct {
	token [sha256.Size]byte
	path  string
}

type answer struct {
	code  int // http.StatusOK, StatusUnauthorized or StatusForbidden
	text  string
	until time.Time
}

// NewGuard returns a guard that asks the API server of config, by client, which
// must have been made from it. A nil logger discards.
func NewGuard(config *rest.Config, client *http.Client, log *slog.Logger) (*Guard, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	tokens, errTokens := authenticationclient.NewForConfigAndClient(config, client)
	rights, errRights := authorizationclient.NewForConfigAndClient(config, client)
	if err := errors.Join(errTokens, errRights); err != nil {
		return nil, fmt.Errorf("client of token and access reviews: %w", err)
	}
	return &Guard{
		tokens: tokens.TokenReviews(), rights: rights.SubjectAccessReviews(), log: log,
		asking: make(chan struct{}, reviewsAtOnce), answers: map[question]answer{},
	}, nil
}

// Wrap returns a handler that lets pass to next what the guard lets pass.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
			return
		}
		a := g.judge(req)
		if a.code == http.StatusOK {
			next.ServeHTTP(w, req)
			return
		}
		if a.code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, a.text, a.code)
	})
}

// judge says what becomes of a request.
func (g *Guard) judge(req *http.Request) answer {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxBearerToken {
		return answer{code: http.StatusUnauthorized, text: "a bearer token is needed"}
	}
	if len(req.URL.Path) > maxPath { // it is kept with the answer, and strangers choose it
		return answer{code: http.StatusNotFound, text: "there is no such page"}
	}
	q := question{sha256.Sum256([]byte(token)), req.URL.Path}
	if a, ok := g.known(q, time.Now()); ok {
		return a
	}
	ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
	defer cancel()
	a, err := g.ask(ctx, q, token)
	if err != nil {
		g.log.Warn("a request for metrics cannot be judged, and is refused", "path", q.path, "error", err)
		return answer{code: http.StatusServiceUnavailable, text: "the API server could not be asked who you are"}
	}
	return a
}

// ask asks the API server, a bounded number of times at once, and keeps what it
// says.
func (g *Guard) ask(ctx context.Context, q question, token string) (answer, error) {
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%d other requests are being judged: %w", reviewsAtOnce, ctx.Err())
	}
	if a, ok := g.known(q, time.Now()); ok { // by now
		return a, nil
	}
	a, err := g.review(ctx, q.path, token)
	if err != nil {
		return answer{}, err
	}
	now := time.Now()
	a.until = now.Add(deniedFor)
	if a.code == http.StatusOK {
		a.until = now.Add(allowedFor)
	}
	g.keep(q, a, now)
	return a, nil
}

// review asks who the token is and what that user may do.
func (g *Guard) review(ctx context.Context, path, token string) (answer, error) {
	who, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("create a TokenReview (is the ClusterRole system:auth-delegator bound?): %w", err)
	}
	if !who.Status.Authenticated {
		return answer{code: http.StatusUnauthorized, text: "the bearer token is not known"}, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := g.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("create a SubjectAccessReview (is the ClusterRole system:auth-delegator bound?): %w", err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return answer{code: http.StatusForbidden, text: fmt.Sprintf("%s may not get %s", user.Username, path)}, nil
	}
	return answer{code: http.StatusOK}, nil
}

// known returns an answer that is believed still.
func (g *Guard) known(q question, now time.Time) (answer, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.answers[q]
	return a, ok && now.Before(a.until)
}

// keep keeps an answer. When there are too many it forgets those whose time is
// over, and else all: strangers' tokens must not push out everyone else's for long.
func (g *Guard) keep(q question, a answer, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.answers) >= maxReviews {
		for old, kept := range g.answers {
			if !now.Before(kept.until) {
				delete(g.answers, old)
			}
		}
		if len(g.answers) >= maxReviews {
			clear(g.answers)
		}
	}
	g.answers[q] = a
}
