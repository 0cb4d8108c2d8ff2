package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"
)

// current is the certificate that is served.
type current struct {
	mu   sync.Mutex
	cert *tls.Certificate
	err  error // why there is no certificate, or no newer one
}

func (c *current) set(cert *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cert, c.err = cert, nil
}

// note records why there is no new certificate, or nil. The last one stays.
func (c *current) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *current) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cert != nil:
		return c.cert, nil
	case c.err != nil:
		return nil, fmt.Errorf("no certificate yet: %w", c.err)
	default:
		return nil, errors.New("no certificate yet: it has not been looked for")
	}
}

func (c *current) check() (string, error) {
	cert, err := c.get()
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	problem := c.err
	c.mu.Unlock()
	expires := cert.Leaf.NotAfter
	if !time.Now().Before(expires) {
		return "", errors.Join(fmt.Errorf("the certificate expired at %v", expires.UTC().Format(time.RFC3339)), problem)
	}
	detail := "certificate expires at " + expires.UTC().Format(time.RFC3339)
	if problem != nil {
		detail += "; not renewed: " + problem.Error()
	}
	return detail, nil
}
